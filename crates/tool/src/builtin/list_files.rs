//! `list_files`: what is in a folder, as flat paths that can be used in the next call as they stand.

use std::path::Path;
use std::sync::Arc;

use hames_protocol::port::{FileKind, Landing, Tool, Workspace};
use hames_protocol::{BoxFuture, Call, Examination, Probe, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::read_file::examine_reading;
use crate::blocking::{Stop, blocking};
use crate::bound::RESULT_LIMIT_BYTES;
use crate::files::failure;
use crate::schema::{arguments, spec, whole_number};
use crate::text::{counted, escaped, shown};
use crate::walk::{Found, Hidden, Target};

const DEFAULT_DEPTH: u64 = 3;

/// How many entries are shown.
const ENTRY_LIMIT: usize = 1_000;

/// How many entries are counted, so that a huge folder does not hold up the run.
const COUNT_LIMIT: usize = 100_000;

/// What is kept free for the notes beneath the entries, in bytes.
const NOTES_BYTES: usize = 300;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Folder; the workspace by default.
    #[serde(default)]
    path: Option<String>,
    /// Levels; 3 by default.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1))]
    depth: Option<u64>,
}

pub(crate) struct ListFiles {
    spec: ToolSpec,
    workspace: Arc<dyn Workspace>,
}

impl ListFiles {
    pub(crate) fn new(workspace: Arc<dyn Workspace>) -> Self {
        let description = "Lists a folder and what is beneath it, without ignored files.";
        Self { spec: spec::<Arguments>("list_files", description), workspace }
    }
}

impl Tool for ListFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let workspace = Arc::clone(&self.workspace);
        Box::pin(async move {
            match arguments::<Arguments>(call) {
                Ok(arguments) => {
                    let path = arguments.path.unwrap_or_else(|| ".".to_owned());
                    blocking(move |_| examine_reading(path.clone(), workspace.locate(&path))).await
                }
                Err(problem) => Examination::problem(problem.guard, problem.text),
            }
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let workspace = Arc::clone(&self.workspace);
        Box::pin(async move {
            match arguments(call) {
                Ok(arguments) => blocking(move |stop| list(workspace.as_ref(), &arguments, stop)).await,
                Err(problem) => ToolResult::failed(problem.text),
            }
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

fn list(workspace: &dyn Workspace, arguments: &Arguments, stop: &Stop) -> ToolResult {
    let path = arguments.path.as_deref().unwrap_or(".");
    let landing = match workspace.locate(path) {
        Ok(landing) => landing,
        Err(problem) => return failure(&problem),
    };
    let Some(target) = Target::of(workspace, &landing) else { return no_folder(path, &landing) };
    let depth = usize::try_from(arguments.depth.unwrap_or(DEFAULT_DEPTH)).unwrap_or(usize::MAX);
    let mut text = String::new();
    let (mut total, mut shown_entries, mut deeper) = (0, 0, false);
    for found in target.walk(Hidden::Shown, Some(depth)).take(COUNT_LIMIT) {
        if stop.asked() {
            break;
        }
        total += 1;
        let line = line(&found);
        deeper |= found.depth == depth && line.ends_with("/\n");
        if shown_entries == total - 1
            && total <= ENTRY_LIMIT
            && text.len() + line.len() <= RESULT_LIMIT_BYTES - NOTES_BYTES
        {
            text.push_str(&line);
            shown_entries = total;
        }
    }
    if total == 0 {
        return ToolResult::ok(format!("`{}` holds no files that are not ignored.", shown(path)));
    }
    if total > shown_entries {
        let more = counted(total - shown_entries, "entry");
        let at_least = if total == COUNT_LIMIT { "at least " } else { "" };
        text.push_str(&format!("[{at_least}{more} left out. List a folder beneath, or fewer levels.]\n"));
    }
    if deeper {
        let levels = counted(depth, "level");
        text.push_str(&format!("[Shown to {levels}. Give a folder as `path`, or a larger `depth`, to see more.]\n"));
    }
    text.truncate(text.trim_end_matches('\n').len());
    let mut result = ToolResult::ok(text);
    result.data = json!({ "entries": total });
    result
}

/// Why a path that is there cannot be listed or searched as a folder.
pub(super) fn no_folder(path: &str, landing: &Landing) -> ToolResult {
    let path = shown(path);
    ToolResult::failed(match landing.kind {
        FileKind::Missing => format!("`{path}` does not exist."),
        FileKind::Folder => format!("`{path}` cannot be walked from here. Name a file in it, or use `bash`."),
        FileKind::File | FileKind::Special => format!("`{path}` is not a folder."),
    })
}

fn line(found: &Found) -> String {
    let path = escaped(&found.path);
    let kind = found.entry.file_type();
    if kind.is_some_and(|kind| kind.is_dir()) {
        format!("{path}/\n")
    } else if kind.is_some_and(|kind| kind.is_symlink()) {
        let target = std::fs::read_link(found.entry.path()).unwrap_or_else(|_| Path::new("?").to_path_buf());
        format!("{path} -> {}\n", escaped(&target.to_string_lossy()))
    } else {
        format!("{path}\n")
    }
}
