//! `edit_file`: replaces an exact piece of a file; see [`crate::splice`] for what exact means.

use hames_protocol::port::Tool;
use hames_protocol::{BoxFuture, Call, Examination, Probe, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{Change, Declined, Place, commit, examination, probe};
use crate::blocking::blocking;
use crate::excerpt::excerpt;
use crate::files::{EDIT_LIMIT_BYTES, Files};
use crate::near_miss::near_miss;
use crate::schema::{arguments, spec};
use crate::splice::{Misplaced, Spliced, Which, splice};
use crate::text::{TextKind, counted, shown, thousands};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Relative to the workspace.
    path: String,
    /// Exact, without line numbers.
    old_string: String,
    /// Taken literally.
    new_string: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(crate) struct EditFile {
    spec: ToolSpec,
    files: Files,
}

impl EditFile {
    pub(crate) fn new(files: Files) -> Self {
        let description = "Replaces text that occurs exactly once; give enough lines around it, or set replace_all. \
                           Write LF; the file keeps its line ends.";
        Self { spec: spec::<Arguments>("edit_file", description), files }
    }
}

impl Tool for EditFile {
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
    let path = shown(&arguments.path);
    let Arguments { old_string: old, new_string: new, .. } = arguments;
    let Some(before) = place.content(files)? else {
        return Err(place.decline(format!("`{path}` does not exist. Use `write_file` to create it.")));
    };
    let kind = TextKind::of(&before.bytes);
    if let Some(text) = kind.obstacle(&path, before.bytes.len()) {
        return Err(place.decline(text));
    }
    place.require_seen(files, &before)?;
    if old.is_empty() {
        return Err(place.decline(
            "`old_string` is empty. Give the exact text to replace; to add lines, give a line beside them and repeat it \
             in `new_string`.",
        ));
    }
    if old == new {
        return Err(place.decline("`old_string` and `new_string` are the same, so the edit would change nothing."));
    }
    let which = if arguments.replace_all == Some(true) { Which::All } else { Which::Only };
    let spliced = match splice(&before.bytes, old, new, which, EDIT_LIMIT_BYTES) {
        Ok(spliced) => spliced,
        Err(Misplaced::Nowhere) => {
            let near = near_miss(&before.bytes, old);
            return Err(place.decline(format!("`old_string` does not occur in `{path}`.{near}")));
        }
        Err(Misplaced::Several { count, lines }) => return Err(place.decline(several(&path, count, &lines))),
        Err(Misplaced::TooLarge) => {
            let limit = thousands(EDIT_LIMIT_BYTES);
            return Err(place.decline(format!("`{path}` would grow beyond {limit} bytes. Make a smaller edit.")));
        }
    };
    if spliced.bytes == before.bytes {
        return Err(place.decline(
            "The edit would change nothing, because new lines take the file's line ends. Use `bash` to change line ends.",
        ));
    }
    let places = counted(spliced.places.len(), "place");
    let mut report =
        format!("Replaced {places} in `{path}`. It now reads:\n{}", excerpt(&spliced.bytes, &spliced.places));
    if kind == TextKind::EightBit && !new.is_ascii() {
        report.push_str("\n[The file is not UTF-8; the new text was written as UTF-8.]");
    }
    let Spliced { bytes, .. } = spliced;
    Ok(place.change(Some(before), bytes, report))
}

fn several(path: &str, count: usize, lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let more = if count > lines.len() { ", …" } else { "" };
    format!(
        "`old_string` occurs {count} times in `{path}`, at lines {}{more}. Add lines around it to make it unique, or set \
         `replace_all`.",
        numbers.join(", ")
    )
}
