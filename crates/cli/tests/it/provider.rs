//! A script served to the binary from within the test, so that the test sees each request and each hang-up.

use std::ops::Deref;
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use hames::model::script::{ReceivedRequest, Script, ScriptServer};
use tokio::sync::oneshot;

use crate::place::{Place, Ran};

/// A served script; it ends with this value.
pub(crate) struct Provider {
    server: Arc<ScriptServer>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    pub(crate) fn of(yaml: &str) -> Self {
        Self::serving(Script::from_yaml("script.yaml", yaml).unwrap())
    }

    pub(crate) fn serving(script: Script) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (bound, server) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = ScriptServer::bind(script, "127.0.0.1:0".parse().unwrap()).await.unwrap();
                bound.send(Arc::new(server)).unwrap();
                let _ = stopped.await;
            });
        });
        Self { server: server.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
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

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
