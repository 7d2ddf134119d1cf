//! The tools that every session has.
//!
//! Names and arguments are those that models already know. Each tool is one file: its argument struct is its schema,
//! `examine` says what it would touch, `run` does it through a port.

mod apply_patch;
mod ask_user;
mod bash;
mod change;
mod edit_file;
mod finish;
mod job;
mod list_files;
mod plan;
mod read_file;
mod report;
mod run_tests;
mod search;
mod write_file;

use std::sync::Arc;

use hames_protocol::port::{Sandbox, Tool, Verifier, Workspace};
use serde_json::Value;

use crate::files::{Files, Seen};
use crate::instruction::Instructions;
use bash::{Bash, WorkingFolder};
use job::Jobs;

/// What the built-in tools remember between calls: which content of which file the model has seen, which files of
/// instructions it was told of, the working directory of `bash`, and its jobs.
#[derive(Clone)]
pub struct Memory {
    seen: Arc<Seen>,
    instructions: Arc<Instructions>,
    folder: Arc<WorkingFolder>,
    jobs: Arc<Jobs>,
}

impl Memory {
    /// Takes up the `data` of one logged result. After a restart, feeding all of them in the order of the log brings
    /// the memory back; data of other tools is passed over.
    pub fn recall(&self, data: &Value) {
        self.seen.recall(data);
        self.instructions.recall(data);
        self.folder.recall(data);
        self.jobs.recall(data);
    }
}

/// Makes the built-in tools over the ports of a session, in the order in which they are offered. `run_tests` is among
/// them only when checks are configured.
pub fn builtin(
    workspace: Arc<dyn Workspace>,
    sandbox: Arc<dyn Sandbox>,
    verifier: Arc<dyn Verifier>,
) -> (Vec<Arc<dyn Tool>>, Memory) {
    let memory =
        Memory { seen: Arc::default(), instructions: Arc::default(), folder: Arc::default(), jobs: Arc::default() };
    let files = Files {
        workspace: Arc::clone(&workspace),
        seen: Arc::clone(&memory.seen),
        instructions: Arc::clone(&memory.instructions),
    };
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(list_files::ListFiles::new(Arc::clone(&workspace))),
        Arc::new(read_file::ReadFile::new(files.clone())),
        Arc::new(write_file::WriteFile::new(files.clone())),
        Arc::new(edit_file::EditFile::new(files.clone())),
        Arc::new(apply_patch::ApplyPatch::new(files)),
        Arc::new(search::Search::new(Arc::clone(&workspace))),
        Arc::new(Bash::new(Arc::clone(&workspace), sandbox, Arc::clone(&memory.folder), Arc::clone(&memory.jobs))),
        Arc::new(job::JobOutput::new(Arc::clone(&memory.jobs))),
        Arc::new(job::JobKill::new(Arc::clone(&workspace), Arc::clone(&memory.jobs))),
    ];
    tools.push(Arc::new(plan::Plan::new()));
    tools.push(Arc::new(ask_user::AskUser::new()));
    if !verifier.checks().is_empty() {
        tools.push(Arc::new(run_tests::RunTests::new(workspace, verifier)));
    }
    tools.push(Arc::new(finish::Finish::new()));
    (tools, memory)
}
