//! `read_file`: numbered lines of a text file, or an image.
//!
//! Lines are shown as `cat -n` shows them (number, tab, text), the form that models know best and cite from most
//! reliably. A line end is shown as a line end whatever its bytes; what the bytes are is said beneath.

use std::fmt::Write;

use hames_protocol::port::{FileContent, FileKind, Landing, PathProblem, Tool};
use hames_protocol::{
    Access, BoxFuture, Call, EffectClass, Examination, Guard, Probe, Reach, Status, ToolResult, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::blocking::blocking;
use crate::bound::RESULT_LIMIT_BYTES;
use crate::files::{Files, READ_LIMIT_BYTES, failure, refusal, sighting};
use crate::image::{Image, ImageProblem};
use crate::schema::{arguments, spec, whole_number};
use crate::text::{BOM, LineEnds, TextKind, clipped, counted, lines, numbered, shown, thousands};

/// How many lines are shown unless the call says otherwise.
const DEFAULT_LINES: u64 = 2_000;

/// How much of a line is shown, in bytes.
const LINE_LIMIT_BYTES: usize = 2_000;

/// What is kept free for the notes beneath the lines, in bytes.
const NOTES_BYTES: usize = 600;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace, or /tmp/outputs/…
    path: String,
    /// First line, from 1.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Lines; 2000 by default.
    #[serde(default, deserialize_with = "whole_number")]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(crate) struct ReadFile {
    spec: ToolSpec,
    files: Files,
}

impl ReadFile {
    pub(crate) fn new(files: Files) -> Self {
        let description = "Reads a text file as numbered lines (number and tab are not part of it), or an image.";
        Self { spec: spec::<Arguments>("read_file", description), files }
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments::<Arguments>(call) {
                Ok(arguments) => {
                    let path = arguments.path.clone();
                    examine_reading(path.clone(), blocking(move |_| files.workspace.locate(&path)).await)
                }
                Err(problem) => Examination::problem(problem.guard, problem.text),
            }
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments(call) {
                Ok(arguments) => blocking(move |_| read(&files, &arguments)).await,
                Err(problem) => ToolResult::failed(problem.text),
            }
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

/// What a call that only looks at `path` touches. Only a path that no tool may use is a problem already; that a file
/// is missing or a folder is an observation, and running the call makes it.
pub(super) fn examine_reading(path: String, located: Result<Landing, PathProblem>) -> Examination {
    let mut examination = Examination::plain(EffectClass::Pure, Reach::Workspace);
    match located {
        Ok(landing) => examination.touches.push(landing.touch(&path, Access::Read)),
        Err(problem) => {
            let refusal = refusal(&problem);
            if refusal.guard != Guard::Valid || matches!(problem, PathProblem::Invalid { .. }) {
                examination.problems.push(refusal);
            }
        }
    }
    examination
}

fn read(files: &Files, arguments: &Arguments) -> ToolResult {
    let path = shown(&arguments.path);
    let content = match files.workspace.read(&arguments.path, READ_LIMIT_BYTES) {
        Ok(content) => content,
        Err(PathProblem::NotAFile { .. }) if is_folder(files, &arguments.path) => {
            return ToolResult::failed(format!("`{path}` is a folder. Use `list_files` to see what is in it."));
        }
        Err(problem) => return failure(&problem),
    };
    let kind = TextKind::of(&content.bytes);
    // No image is valid UTF-8, but a text may begin with the letters of one.
    if kind != TextKind::Utf8 {
        match Image::of(&path, &content.bytes) {
            Ok(image) => return show(files, &path, &content, &image),
            Err(ImageProblem::Unknown(_)) => {}
            Err(problem) => return ToolResult::failed(problem.to_string()),
        }
    }
    if let Some(text) = kind.obstacle(&path, content.bytes.len()) {
        return ToolResult::failed(text);
    }
    let (status, text) = page(&path, &content, kind, arguments);
    let mut result = ToolResult::new(status, text);
    if status == Status::Ok {
        result.data = note(files, &content);
        files.instructions.mention(&*files.workspace, std::iter::once(content.path.as_str()), &mut result);
    }
    result
}

/// The image beside a line that says what it is.
fn show(files: &Files, path: &str, content: &FileContent, image: &Image<'_>) -> ToolResult {
    let size = counted(content.bytes.len(), "byte");
    let mut result = ToolResult::ok(format!("`{path}`: {}, {size}.", image.described()));
    result.blocks.push(image.block());
    result.data = note(files, content);
    result
}

/// Remembers that the model saw the file, and gives the data from which that is known again.
fn note(files: &Files, content: &FileContent) -> Value {
    files.seen.note(&content.path, &content.digest);
    let mut data = sighting(&content.path, Some(&content.digest));
    data["bytes"] = json!(content.bytes.len());
    data
}

fn is_folder(files: &Files, path: &str) -> bool {
    files.workspace.locate(path).is_ok_and(|landing| landing.kind == FileKind::Folder)
}

fn page(path: &str, content: &FileContent, kind: TextKind, arguments: &Arguments) -> (Status, String) {
    let bytes = content.bytes.strip_prefix(BOM).unwrap_or(&content.bytes);
    if bytes.is_empty() {
        return (Status::Ok, format!("`{path}` is empty."));
    }
    let total = lines(bytes).count();
    let first = usize::try_from(arguments.offset.unwrap_or(1)).unwrap_or(usize::MAX);
    if first > total {
        let text = format!("`{path}` has {}; there is nothing at offset {first}.", counted(total, "line"));
        return (Status::Failed, text);
    }
    let wanted = usize::try_from(arguments.limit.unwrap_or(DEFAULT_LINES)).unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut last = first - 1;
    let mut nul = false;
    for line in lines(bytes).skip(first - 1).take(wanted) {
        let decoded = String::from_utf8_lossy(line);
        nul |= decoded.contains('\0');
        let line = numbered(last + 1, &clipped(&decoded, LINE_LIMIT_BYTES).replace('\0', "\u{fffd}"));
        if text.len() + line.len() > RESULT_LIMIT_BYTES - NOTES_BYTES {
            break;
        }
        text.push_str(&line);
        last += 1;
    }
    let mut notes = Vec::new();
    if first > 1 || last < total {
        notes.push(format!("Lines {first} to {last} of {}.", thousands(total as u64)));
    }
    if last < total {
        notes.push(format!("Go on with offset {}.", last + 1));
    }
    match LineEnds::of(bytes) {
        ends @ (LineEnds::Crlf | LineEnds::Mixed) => {
            notes.push(format!("The file has {} line ends; edits keep them.", ends.name()));
        }
        LineEnds::None | LineEnds::Lf => {}
    }
    if kind == TextKind::EightBit {
        notes.push("The file is not UTF-8; bytes that do not decode are shown as \u{fffd}.".to_owned());
    }
    if nul {
        notes.push("NUL bytes are shown as \u{fffd}.".to_owned());
    }
    if !notes.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[{}]", notes.join(" "));
    }
    (Status::Ok, text)
}
