//! A session that is open for work.

use std::path::{Path, PathBuf};

use futures_core::Stream;
use hames_agent::{AgentProblem, Driver, Prompt};
use hames_context::{ProjectInstructions, Surroundings};
use hames_protocol::port::Model;
use hames_protocol::{Access, AddedFolder, Block, Command, Limits, Network, Outcome, RunResult, SessionId};
use hames_sandbox::Mode;

use crate::builder::Builder;
use crate::project;

/// An agent at work on one session, in one workspace.
pub struct Agent {
    pub(crate) driver: Driver,
    pub(crate) session: SessionId,
    pub(crate) root: PathBuf,
    /// Where the verifier keeps the untouched copy of the workspace during a run.
    pub(crate) untouched: PathBuf,
    pub(crate) checks: Vec<String>,
    pub(crate) protect: Vec<String>,
    pub(crate) unprotect: Vec<String>,
    pub(crate) added: Vec<AddedFolder>,
    pub(crate) limits: Limits,
    pub(crate) sandbox: String,
    pub(crate) network: Network,
}

impl Agent {
    /// Starts to put an agent together around a model.
    pub fn builder(model: std::sync::Arc<dyn Model>) -> Builder {
        Builder::new(model)
    }

    /// The session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The real path of the workspace.
    pub fn workspace(&self) -> &Path {
        &self.root
    }

    /// The project's instructions as the next run tells them: AGENTS.md, else CLAUDE.md, of the folders from the root of
    /// the repository down to the workspace. Blocks while it reads them.
    pub fn instructions(&self) -> ProjectInstructions {
        project::instructions(&self.root)
    }

    /// The result of the last run as far as it is known; none when there was no run.
    pub fn result(&self) -> Option<RunResult> {
        hames_agent::run_result(self.driver.state())
    }

    /// Runs a prompt to its end, or until a person must answer and nobody is there ([`Outcome::NeedsApproval`]): the next
    /// prompt is then the answer, and the run goes on. An empty prompt continues where the session stopped.
    ///
    /// # Errors
    /// When the log cannot be written, or there is nothing to continue.
    pub async fn run(&mut self, prompt: &str) -> Result<RunResult, AgentProblem> {
        let blocks = if prompt.is_empty() { Vec::new() } else { vec![Block::text(prompt)] };
        self.run_with(blocks, futures_util::stream::pending()).await
    }

    /// As [`Agent::run`], with a prompt of several blocks (an [`Image`](crate::Image) among them) and input from outside
    /// while it goes on. No blocks continue where the session stopped.
    ///
    /// # Errors
    /// As [`Agent::run`].
    pub async fn run_with(
        &mut self,
        blocks: Vec<Block>,
        commands: impl Stream<Item = Command> + Send,
    ) -> Result<RunResult, AgentProblem> {
        let workspace = self.root.to_string_lossy();
        let platform = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let instructions = self.instructions().text;
        // In a read-only sandbox nothing is written, whatever was asked for.
        let is_read_only = self.sandbox == Mode::ReadOnly.as_str();
        let access = |folder: &AddedFolder| if is_read_only { Access::Read } else { folder.access };
        let added: Vec<AddedFolder> =
            self.added.iter().map(|folder| AddedFolder { access: access(folder), ..folder.clone() }).collect();
        let surroundings = Surroundings {
            workspace: &workspace,
            platform: &platform,
            date: &date,
            checks: &self.checks,
            added: &added,
            instructions: &instructions,
        };
        let prompt = Prompt {
            blocks,
            surroundings: surroundings.text(),
            limits: self.limits,
            protect: self.protect.clone(),
            unprotect: self.unprotect.clone(),
            added: self.added.clone(),
            sandbox: self.sandbox.clone(),
            network: self.network,
        };
        let result = self.driver.run(prompt, commands).await;
        if result.as_ref().is_ok_and(|result| result.outcome != Outcome::NeedsApproval) {
            // As large as the workspace, and of no use once the run has ended. What cannot be removed only takes up room.
            let untouched = self.untouched.clone();
            let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(untouched)).await;
        }
        result
    }
}
