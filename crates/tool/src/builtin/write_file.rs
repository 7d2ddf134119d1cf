//! `write_file`: creates a file or replaces its whole content.
//!
//! A model writes LF and no byte order mark. When the file that it replaces has CRLF throughout, or a mark, the new
//! content gets the same, and the result says so; a content that holds a CR is taken as it is.

use hames_protocol::port::Tool;
use hames_protocol::{BoxFuture, Call, Examination, Probe, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{Change, Declined, Place, commit, examination, probe};
use crate::blocking::blocking;
use crate::files::{EDIT_LIMIT_BYTES, Files};
use crate::schema::{arguments, spec};
use crate::text::{BOM, LineEnds, counted, lines, shown};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace.
    path: String,
    content: String,
}

pub(crate) struct WriteFile {
    spec: ToolSpec,
    files: Files,
}

impl WriteFile {
    pub(crate) fn new(files: Files) -> Self {
        let description = "Creates a file (and its folders) or replaces all of it.";
        Self { spec: spec::<Arguments>("write_file", description), files }
    }
}

impl Tool for WriteFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments(call) {
                Ok(arguments) => blocking(move |_| examination(draft(&files, &arguments))).await,
                Err(problem) => Examination::problem(problem.guard, problem.text),
            }
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments(call) {
                Ok(arguments) => blocking(move |_| commit(&files, draft(&files, &arguments))).await,
                Err(problem) => ToolResult::failed(problem.text),
            }
        })
    }

    fn probe<'a>(&'a self, _: &'a Call, examined: &'a Examination) -> BoxFuture<'a, Probe> {
        let files = self.files.clone();
        let examined = examined.clone();
        Box::pin(blocking(move |_| probe(&files, &examined)))
    }
}

fn draft(files: &Files, arguments: &Arguments) -> Result<Change, Declined> {
    let place = Place::find(files, &arguments.path)?;
    let before = place.content(files)?;
    let path = shown(&arguments.path);
    let size = |bytes: &[u8]| format!("{}, {}", counted(lines(bytes).count(), "line"), counted(bytes.len(), "byte"));
    if arguments.content.len() as u64 > EDIT_LIMIT_BYTES {
        return Err(
            place.decline(format!("The content is larger than {EDIT_LIMIT_BYTES} bytes. Write it with `bash`."))
        );
    }
    let Some(before) = before else {
        let after = arguments.content.clone().into_bytes();
        let report = format!("Created `{path}` ({}).", size(&after));
        return Ok(place.change(None, after, report));
    };
    place.require_seen(files, &before)?;
    let (after, mut notes) = in_style_of(&before.bytes, &arguments.content);
    let report = if after == before.bytes {
        format!("`{path}` already has this content; nothing was changed.")
    } else {
        notes.insert(0, format!("Replaced `{path}` ({}).", size(&after)));
        notes.join(" ")
    };
    Ok(place.change(Some(before), after, report))
}

/// The new content with the line ends and the mark of the old, and what the model should know of it.
fn in_style_of(before: &[u8], content: &str) -> (Vec<u8>, Vec<String>) {
    let mut notes = Vec::new();
    let mut after = Vec::with_capacity(content.len() + BOM.len());
    if before.starts_with(BOM) && !content.as_bytes().starts_with(BOM) {
        after.extend_from_slice(BOM);
        notes.push("The byte order mark was kept.".to_owned());
    }
    let old_ends = LineEnds::of(before);
    if old_ends == LineEnds::Crlf && content.contains('\n') && !content.contains('\r') {
        after.extend_from_slice(content.replace('\n', "\r\n").as_bytes());
        notes.push("The CRLF line ends were kept.".to_owned());
    } else {
        after.extend_from_slice(content.as_bytes());
        let new_ends = LineEnds::of(&after);
        if old_ends != new_ends && old_ends != LineEnds::None && new_ends != LineEnds::None {
            notes.push(format!("The file had {} line ends and now has {}.", old_ends.name(), new_ends.name()));
        }
    }
    (after, notes)
}
