//! What the tools that change files share: the draft of a change, its examination, its writing, and its probe.
//!
//! A draft is made at examination, so that what cannot go through is never intended, and made again at the run, which
//! then hands the digest it saw to the workspace: a file that changed between the two is not overwritten. Several files
//! change together or not at all: all is checked before the first is written, removals come last, and when the
//! workspace still refuses one, those that were written are put back.

use hames_protocol::port::{Expected, FileContent, FileKind, Landing, PathProblem};
use hames_protocol::{
    Access, Digest, EditPlan, EffectClass, Examination, FileChange, Guard, Probe, Problem, Reach, Status, ToolResult,
    Touch,
};
use serde_json::{Value, json};

use crate::files::{EDIT_LIMIT_BYTES, Files, failure, refusal, sighting};
use crate::text::{TextKind, shown};

/// A change that could be made now.
pub(super) struct Change {
    /// One for each file.
    pub(super) drafts: Vec<Draft>,
    /// What the model reads when it is done.
    pub(super) report: String,
}

/// What a change makes of one file.
pub(super) struct Draft {
    /// The path as the model wrote it.
    path: String,
    /// The file as it is; none when there is none.
    before: Option<FileContent>,
    after: After,
    touch: Touch,
}

/// What a file shall be.
pub(super) enum After {
    /// These bytes; an existing file keeps its mode, a new one gets that of any new file.
    Content(Vec<u8>),
    /// A new file with these bytes and permission bits.
    Arrived(Vec<u8>, u32),
    /// Gone.
    Removed,
}

impl Draft {
    fn digest(&self) -> Option<Digest> {
        match &self.after {
            After::Content(bytes) | After::Arrived(bytes, _) => Some(Digest::of(bytes)),
            After::Removed => None,
        }
    }

    /// Where the file really lies.
    pub(super) fn lands(&self) -> &str {
        &self.touch.lands
    }

    /// Makes the file what it shall be; none when it is that already.
    fn write(&self, files: &Files) -> Result<Option<FileChange>, PathProblem> {
        let workspace = &files.workspace;
        let before = self.before.as_ref().map(|content| &content.digest);
        let changed = match &self.after {
            After::Content(bytes) if before == Some(&Digest::of(bytes)) => return Ok(None),
            After::Content(bytes) => {
                let expected = before.map_or(Expected::Missing, |digest| Expected::Content(digest.clone()));
                workspace.replace(&self.path, bytes, &expected)
            }
            After::Arrived(bytes, mode) => workspace.create(&self.path, bytes, *mode),
            After::Removed => match before {
                Some(digest) => workspace.remove(&self.path, digest),
                None => return Ok(None),
            },
        };
        changed.map(Some)
    }

    /// Makes the file again what it was before [`Draft::write`].
    fn put_back(&self, files: &Files) -> Result<FileChange, PathProblem> {
        let path = &self.path;
        match (&self.before, self.digest()) {
            (Some(before), Some(digest)) => files.workspace.replace(path, &before.bytes, &Expected::Content(digest)),
            (Some(before), None) => files.workspace.create(path, &before.bytes, before.mode),
            (None, Some(digest)) => files.workspace.remove(path, &digest),
            (None, None) => Err(PathProblem::Missing(path.clone())),
        }
    }
}

/// Why no change can be drafted.
#[derive(Default)]
pub(super) struct Declined {
    /// Where the change would land, as far as that is known. A protected place is refused by the policy, which sees it
    /// here, so it is no problem of the examination.
    touches: Vec<Touch>,
    /// The preconditions that do not hold.
    problems: Vec<Problem>,
}

impl Declined {
    /// Takes up the reasons of another part of the same change.
    pub(super) fn add(&mut self, other: Self) {
        self.touches.extend(other.touches);
        self.problems.extend(other.problems);
    }

    /// Takes up where a part that could be drafted would land.
    pub(super) fn add_touch_of(&mut self, draft: &Draft) {
        self.touches.push(draft.touch.clone());
    }

    /// A reason that concerns no single place.
    pub(super) fn because(text: impl Into<String>) -> Self {
        let problem = Problem { guard: Guard::Valid, text: text.into() };
        Self { touches: Vec::new(), problems: vec![problem] }
    }
}

/// The place of a change, before its content is known.
pub(super) struct Place {
    path: String,
    landing: Landing,
}

impl Place {
    /// Finds where a change would land and whether anything may be written there.
    pub(super) fn find(files: &Files, path: &str) -> Result<Self, Declined> {
        let located = files.workspace.locate(path);
        let landing = located.map_err(|problem| Declined { touches: Vec::new(), problems: vec![refusal(&problem)] })?;
        let place = Self { path: path.to_owned(), landing };
        if place.landing.protected.is_some() {
            return Err(Declined { touches: vec![place.touch()], problems: Vec::new() });
        }
        let shown = shown(path);
        match place.landing.kind {
            FileKind::Folder => Err(place.decline(format!("`{shown}` is a folder. Name a file."))),
            FileKind::Special => Err(place.decline(format!("`{shown}` is a device, socket or pipe, not a file."))),
            FileKind::Missing | FileKind::File => Ok(place),
        }
    }

    /// Reads the file that is there; none when there is none.
    pub(super) fn content(&self, files: &Files) -> Result<Option<FileContent>, Declined> {
        if self.landing.kind == FileKind::Missing {
            return Ok(None);
        }
        match files.workspace.read(&self.path, EDIT_LIMIT_BYTES) {
            Ok(content) => Ok(Some(content)),
            Err(PathProblem::Missing(_)) => Ok(None),
            Err(problem) => Err(Declined { touches: vec![self.touch()], problems: vec![refusal(&problem)] }),
        }
    }

    /// Checks that the model knows the content that it would change.
    pub(super) fn require_seen(&self, files: &Files, content: &FileContent) -> Result<(), Declined> {
        let shown = shown(&self.path);
        let seen = files.seen.digest(&content.path);
        if seen.as_ref() == Some(&content.digest) {
            return Ok(());
        }
        // "Read it first" would lead in a circle with a file that `read_file` does not read.
        if let Some(text) = TextKind::of(&content.bytes).obstacle(&shown, content.bytes.len()) {
            return Err(self.decline(text));
        }
        match seen {
            Some(_) => Err(self.decline(PathProblem::Changed(shown).to_string())),
            None => Err(self.decline(format!(
                "`{shown}` exists and was not read in this session. Read it with `read_file`, then repeat the call."
            ))),
        }
    }

    /// Where the place really is.
    pub(super) fn lands(&self) -> &str {
        &self.landing.path
    }

    /// Declines with a sentence for the model.
    pub(super) fn decline(&self, text: impl Into<String>) -> Declined {
        let problem = Problem { guard: Guard::Valid, text: text.into() };
        Declined { touches: vec![self.touch()], problems: vec![problem] }
    }

    /// What a change makes of this file.
    pub(super) fn draft(self, before: Option<FileContent>, after: After) -> Draft {
        Draft { touch: self.touch(), path: self.path, before, after }
    }

    /// The change of this file alone.
    pub(super) fn change(self, before: Option<FileContent>, after: Vec<u8>, report: String) -> Change {
        Change { drafts: vec![self.draft(before, After::Content(after))], report }
    }

    fn touch(&self) -> Touch {
        self.landing.touch(&self.path, Access::Write)
    }
}

/// Says what a change would touch and what each file would be before and after.
pub(super) fn examination(change: Result<Change, Declined>) -> Examination {
    let mut examination = Examination::plain(EffectClass::Reconcilable, Reach::Workspace);
    match change {
        Ok(change) => {
            for draft in change.drafts {
                examination.plans.push(EditPlan {
                    path: draft.touch.lands.clone(),
                    after: draft.digest(),
                    before: draft.before.map(|content| content.digest),
                });
                examination.touches.push(draft.touch);
            }
        }
        Err(Declined { touches, problems }) => {
            examination.touches = touches;
            examination.problems = problems;
        }
    }
    examination
}

/// Makes the change, if every file is still what the drafts were made from.
pub(super) fn commit(files: &Files, change: Result<Change, Declined>) -> ToolResult {
    let Change { mut drafts, report } = match change {
        Ok(change) => change,
        Err(declined) => return refused(declined),
    };
    // Until the last file is written, none is missing: a move that is cut short leaves both of its names.
    drafts.sort_by_key(|draft| matches!(draft.after, After::Removed));
    let mut written: Vec<(&Draft, FileChange)> = Vec::new();
    for draft in &drafts {
        match draft.write(files) {
            Ok(change) => written.extend(change.map(|change| (draft, change))),
            Err(problem) => return rolled_back(files, &problem, written),
        }
    }
    let mut result = ToolResult::ok(report);
    result.changes = written.into_iter().map(|(_, change)| change).collect();
    result.data = sightings(files, drafts.iter().map(|draft| (draft.lands(), draft.digest())));
    files.instructions.mention(&*files.workspace, drafts.iter().map(Draft::lands), &mut result);
    result
}

fn refused(declined: Declined) -> ToolResult {
    if !declined.problems.is_empty() {
        let texts: Vec<&str> = declined.problems.iter().map(|problem| problem.text.as_str()).collect();
        return ToolResult::failed(texts.join("\n"));
    }
    let protected = declined.touches.into_iter().find_map(|touch| Some((touch.path, touch.protected?)));
    let (path, rule) = protected.unwrap_or_default();
    failure(&PathProblem::Protected { path, rule })
}

/// Puts back what was written before the workspace refused a file, and says what became of it.
fn rolled_back(files: &Files, problem: &PathProblem, written: Vec<(&Draft, FileChange)>) -> ToolResult {
    let mut result = failure(problem);
    if written.is_empty() {
        return result;
    }
    let mut text = format!("{} So nothing was changed: what had been written already was put back.", result.text());
    let mut left = Vec::new();
    for (draft, change) in written.into_iter().rev() {
        if let Err(problem) = draft.put_back(files) {
            left.push(format!("`{}` could not be put back and is as the call left it: {problem}", shown(&draft.path)));
            result.changes.push(change);
        }
    }
    if !left.is_empty() {
        text = format!("{} What had been written already was put back, except: {}", result.text(), left.join(" "));
    }
    result.blocks = ToolResult::new(Status::Failed, text).blocks;
    result
}

/// Notes what the model now knows of each file, and writes it down for a restart.
fn sightings<'a>(files: &Files, known: impl Iterator<Item = (&'a str, Option<Digest>)>) -> Value {
    let mut sightings: Vec<Value> = Vec::new();
    for (path, digest) in known {
        match &digest {
            Some(digest) => files.seen.note(path, digest),
            None => files.seen.forget(path),
        }
        sightings.push(sighting(path, digest.as_ref()));
    }
    if sightings.len() == 1 { sightings.remove(0) } else { json!({ "files": sightings }) }
}

/// What the digest of a file tells of its plan.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Found {
    Before,
    After,
    Neither,
}

/// Finds out by the files' digests whether a change happened.
pub(super) fn probe(files: &Files, examined: &Examination) -> Probe {
    let plans = &examined.plans;
    if plans.is_empty() {
        return Probe::Settled(ToolResult::in_doubt("The call recorded no plan by which its effect could be told."));
    }
    let mut found = Vec::with_capacity(plans.len());
    for plan in plans {
        let now = match files.workspace.read(&plan.path, EDIT_LIMIT_BYTES) {
            Ok(content) => Some(content.digest),
            Err(PathProblem::Missing(_)) => None,
            Err(problem) => return Probe::Settled(ToolResult::in_doubt(problem)),
        };
        found.push(match now {
            now if now == plan.after => Found::After,
            now if now == plan.before => Found::Before,
            _ => Found::Neither,
        });
    }
    if found.iter().all(|found| *found == Found::After) {
        let paths: Vec<String> = plans.iter().map(|plan| format!("`{}`", shown(&plan.path))).collect();
        let (paths, were) = (paths.join(", "), if plans.len() == 1 { "was" } else { "were" });
        let mut result = ToolResult::ok(format!("{paths} {were} written as asked before the interruption."));
        result.data = sightings(files, plans.iter().map(|plan| (plan.path.as_str(), plan.after.clone())));
        // The listing that was taken up after the interruption does not know of it yet.
        result.changes = files.workspace.observe().unwrap_or_default();
        return Probe::Settled(result);
    }
    if found.iter().all(|found| *found == Found::Before) {
        return Probe::DidNotHappen;
    }
    let told = plans.iter().zip(&found).map(|(plan, found)| {
        let path = shown(&plan.path);
        match found {
            Found::Before => format!("`{path}` is as it was before the call."),
            Found::After => format!("`{path}` is as the call would have left it."),
            Found::Neither => {
                format!("`{path}` is neither as it was before the call nor as the call would have left it.")
            }
        }
    });
    Probe::Settled(ToolResult::in_doubt(told.collect::<Vec<_>>().join(" ")))
}
