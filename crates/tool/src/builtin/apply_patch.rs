//! `apply_patch`: changes several files by a patch in the format of [`crate::patch`], all of them or none.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use hames_protocol::port::{FileContent, Tool};
use hames_protocol::{BoxFuture, Call, Examination, Probe, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{After, Change, Declined, Draft, Place, commit, examination, probe};
use crate::blocking::blocking;
use crate::excerpt::excerpt;
use crate::files::{EDIT_LIMIT_BYTES, Files};
use crate::patch::{Hunk, Section, apply, parse};
use crate::schema::{arguments, spec};
use crate::text::{TextKind, counted, lines, shown, thousands};

/// How much of the changed files the result shows together, in bytes.
const SHOWN_BYTES: usize = 12_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    patch: String,
}

pub(crate) struct ApplyPatch {
    spec: ToolSpec,
    files: Files,
}

impl ApplyPatch {
    pub(crate) fn new(files: Files) -> Self {
        let description = "Changes several files, all or none: *** Begin Patch, sections, *** End Patch. Sections: \
                           *** Add File: P (lines begin with +), *** Delete File: P, *** Update File: P (then *** \
                           Move to: P, and hunks: @@ or @@ LINE ABOVE, then lines that begin with a blank, - or +). \
                           What a hunk keeps and removes must stand at exactly one place.";
        Self { spec: spec::<Arguments>("apply_patch", description), files }
    }
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments::<Arguments>(call) {
                Ok(arguments) => blocking(move |_| examination(draft(&files, &arguments.patch))).await,
                Err(problem) => Examination::problem(problem.guard, problem.text),
            }
        })
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let files = self.files.clone();
        Box::pin(async move {
            match arguments::<Arguments>(call) {
                Ok(arguments) => blocking(move |_| commit(&files, draft(&files, &arguments.patch))).await,
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

/// Drafts all sections, so that every fault of the patch is told at once.
fn draft(files: &Files, patch: &str) -> Result<Change, Declined> {
    let sections = parse(patch).map_err(Declined::because)?;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut reports: Vec<Report> = Vec::new();
    let mut declined: Option<Declined> = None;
    let mut decline = |why: Declined| declined.get_or_insert_default().add(why);
    for section in &sections {
        match draft_of(files, section) {
            Ok((parts, report)) => {
                drafts.extend(parts);
                reports.push(report);
            }
            Err(why) => decline(why),
        }
    }
    let mut named = BTreeSet::new();
    for twice in drafts.iter().filter(|draft| !named.insert(draft.lands().to_owned())) {
        let path = shown(twice.lands());
        decline(Declined::because(format!(
            "The patch names `{path}` twice. Put all changes of a file into one section."
        )));
    }
    match declined {
        None => Ok(Change { report: joined(&reports), drafts }),
        Some(mut declined) => {
            drafts.iter().for_each(|draft| declined.add_touch_of(draft));
            Err(declined)
        }
    }
}

/// What the model reads of one section.
struct Report {
    summary: String,
    /// The changed lines as they are now; empty when there are none to show.
    excerpt: String,
}

fn joined(reports: &[Report]) -> String {
    let mut text = String::new();
    for Report { summary, excerpt } in reports {
        let shown = !excerpt.is_empty() && text.len() + excerpt.len() <= SHOWN_BYTES;
        let end = if shown { format!(" It now reads:\n{excerpt}\n") } else { "\n".to_owned() };
        text.push_str(summary);
        text.push_str(&end);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

fn draft_of(files: &Files, section: &Section<'_>) -> Result<(Vec<Draft>, Report), Declined> {
    match section {
        Section::Add { path, content } => {
            let place = Place::find(files, path)?;
            let path = shown(path);
            if place.content(files)?.is_some() {
                return Err(place.decline(format!("`{path}` exists already. Change it with `*** Update File:`.")));
            }
            let size = counted(lines(content.as_bytes()).count(), "line");
            let summary = format!("Created `{path}` ({size}).");
            let draft = place.draft(None, After::Content(content.clone().into_bytes()));
            Ok((vec![draft], Report { summary, excerpt: String::new() }))
        }
        Section::Delete { path } => {
            let (place, before) = existing(files, path)?;
            require_own_name(files, &place, path)?;
            let summary = format!("Deleted `{}`.", shown(path));
            Ok((vec![place.draft(Some(before), After::Removed)], Report { summary, excerpt: String::new() }))
        }
        Section::Update { path, to, hunks } => update(files, path, *to, hunks),
    }
}

fn update(files: &Files, path: &str, to: Option<&str>, hunks: &[Hunk<'_>]) -> Result<(Vec<Draft>, Report), Declined> {
    let (place, before) = existing(files, path)?;
    let shown_path = shown(path);
    let patched = apply(&before.bytes, hunks).map_err(|faults| {
        let texts: Vec<String> = faults.iter().map(|fault| format!("`{shown_path}`, {fault}")).collect();
        place.decline(format!("{}\nNo file was changed.", texts.join("\n")))
    })?;
    if patched.bytes.len() as u64 > EDIT_LIMIT_BYTES {
        let limit = thousands(EDIT_LIMIT_BYTES);
        return Err(place.decline(format!("`{shown_path}` would grow beyond {limit} bytes. Make a smaller change.")));
    }
    let excerpt = excerpt(&patched.bytes, &patched.places);
    let Some(to) = to else {
        if patched.bytes == before.bytes {
            return Err(place.decline(format!(
                "The patch would change nothing in `{shown_path}`. Leave its section out; line ends are changed with `bash`."
            )));
        }
        let summary = format!("Updated `{shown_path}` ({}).", counted(hunks.len(), "hunk"));
        return Ok((vec![place.draft(Some(before), After::Content(patched.bytes))], Report { summary, excerpt }));
    };
    require_own_name(files, &place, path)?;
    let target = Place::find(files, to)?;
    let shown_to = shown(to);
    if target.content(files)?.is_some() {
        return Err(target.decline(format!("`{shown_to}` exists already. Move to a path that is free.")));
    }
    let changed = if hunks.is_empty() { String::new() } else { format!(" ({})", counted(hunks.len(), "hunk")) };
    let summary = format!("Moved `{shown_path}` to `{shown_to}`{changed}.");
    let arrived = target.draft(None, After::Arrived(patched.bytes, before.mode));
    let gone = place.draft(Some(before), After::Removed);
    Ok((vec![arrived, gone], Report { summary, excerpt }))
}

/// The text file at a path, whose content the model knows.
fn existing(files: &Files, path: &str) -> Result<(Place, FileContent), Declined> {
    let place = Place::find(files, path)?;
    let path = shown(path);
    let Some(content) = place.content(files)? else {
        return Err(place.decline(format!("`{path}` does not exist. Create it with `*** Add File:`.")));
    };
    if let Some(text) = TextKind::of(&content.bytes).obstacle(&path, content.bytes.len()) {
        return Err(place.decline(text));
    }
    place.require_seen(files, &content)?;
    Ok((place, content))
}

/// Refuses to remove a file by another name than its own: the link would stay, and lead nowhere.
fn require_own_name(files: &Files, place: &Place, path: &str) -> Result<(), Declined> {
    let written = Path::new(path);
    let written = written.strip_prefix(files.workspace.root()).unwrap_or(written);
    let parts = written.components().filter(|part| *part != Component::CurDir);
    if parts.eq(Path::new(place.lands()).components()) {
        return Ok(());
    }
    let (path, lands) = (shown(path), shown(place.lands()));
    Err(place.decline(format!("`{path}` leads to `{lands}`. Name that path, or remove the link itself with `bash`.")))
}
