//! A script served to the binary from within the test, so that the test sees each request and each hang-up.

use std::ops::Deref;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use hames::model::script::{ReceivedRequest, Script, ScriptServer};
use hames::protocol::Dialect;
use tokio::sync::oneshot;

use crate::place::{Place, Ran};

/// Something that goes on in a thread of its own, beside the binary, until this is dropped.
pub(crate) struct Beside {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Waits for what begins it, in a runtime that then goes on.
    pub(crate) fn begin<F: Future<Output: Send + 'static>>(
        start: impl FnOnce() -> F + Send + 'static,
    ) -> (F::Output, Self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (sender, begun) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                sender.send(start().await).unwrap();
                let _ = stopped.await;
            });
        });
        (begun.recv().unwrap(), Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A served script.
pub(crate) struct Provider {
    server: Arc<ScriptServer>,
    _beside: Beside,
}

impl Provider {
    pub(crate) fn of(yaml: &str) -> Self {
        Self::serving(Script::from_yaml("script.yaml", yaml).unwrap())
    }

    pub(crate) fn serving(script: Script) -> Self {
        Self::speaking(Dialect::Anthropic, script)
    }

    pub(crate) fn speaking(dialect: Dialect, script: Script) -> Self {
        let (server, beside) = Beside::begin(move || async move {
            Arc::new(ScriptServer::bind_as(dialect, script, "127.0.0.1:0".parse().unwrap()).await.unwrap())
        });
        Self { server, _beside: beside }
    }

    /// The binary, pointed at this provider.
    pub(crate) fn hames<'a>(&self, place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = place.hames(arguments);
        command.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", self.base_url());
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<'a>(&self, place: &Place, arguments: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::of(self.hames(place, arguments).output().unwrap())
    }

    /// The bodies of all requests so far, none of which was refused.
    pub(crate) fn bodies(&self) -> Vec<String> {
        let body = |request: ReceivedRequest| {
            let body = String::from_utf8(request.body.to_vec()).unwrap();
            assert!(!matches!(request.status, Some(400 | 413)), "a request was refused: {body}");
            body
        };
        self.received().into_iter().map(body).collect()
    }
}

impl Deref for Provider {
    type Target = ScriptServer;

    fn deref(&self) -> &ScriptServer {
        &self.server
    }
}
