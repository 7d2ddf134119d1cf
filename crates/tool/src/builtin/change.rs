//! What `write_file` and `edit_file` share: a draft of the change, its examination, its writing, and its probe.
//!
//! A draft is made at examination, so that what cannot go through is never intended, and made again at the run, which
//! then hands the digest it saw to the workspace: a file that changed between the two is not overwritten.

use hames_protocol::port::{Expected, FileContent, FileKind, Landing, PathProblem};
use hames_protocol::{
    Access, Digest, EditPlan, EffectClass, Examination, Guard, Probe, Problem, Reach, ToolResult, Touch,
};

use crate::files::{EDIT_LIMIT_BYTES, Files, failure, refusal, sighting};
use crate::text::{TextKind, shown};

/// A change that could be made now.
pub(super) struct Draft {
    /// The path as the model wrote it.
    pub(super) path: String,
    /// The file as it is; none when there is none.
    pub(super) before: Option<FileContent>,
    /// The bytes it shall have.
    pub(super) after: Vec<u8>,
    /// What the model reads when it is done.
    pub(super) report: String,
    touch: Touch,
}

/// Why no draft can be made.
pub(super) enum Declined {
    /// A precondition does not hold.
    Problem {
        /// Where the change would land, when that is known.
        touch: Option<Touch>,
        /// The sentence for the model.
        problem: Problem,
    },
    /// The path is protected. The policy refuses that by the touch, so it is no problem of the examination.
    Protected(Touch),
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
        let landing = located.map_err(|problem| Declined::Problem { touch: None, problem: refusal(&problem) })?;
        let place = Self { path: path.to_owned(), landing };
        if place.landing.protected.is_some() {
            return Err(Declined::Protected(place.touch()));
        }
        let shown = shown(path);
        match place.landing.kind {
            FileKind::Folder => Err(place.decline(format!("`{shown}` is a folder. Name a file."))),
            FileKind::Special => Err(place.decline(format!("`{shown}` is a device, socket or pipe, not a file."))),
            _ if place.landing.path.starts_with('/') => Err(place.decline(format!(
                "`{shown}` is in the private /tmp, which file tools only read. Write in the workspace, or use `bash`."
            ))),
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
            Err(problem) => Err(Declined::Problem { touch: Some(self.touch()), problem: refusal(&problem) }),
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

    /// Declines with a sentence for the model.
    pub(super) fn decline(&self, text: impl Into<String>) -> Declined {
        let problem = Problem { guard: Guard::Valid, text: text.into() };
        Declined::Problem { touch: Some(self.touch()), problem }
    }

    /// The draft of the change.
    pub(super) fn draft(self, before: Option<FileContent>, after: Vec<u8>, report: String) -> Draft {
        Draft { touch: self.touch(), path: self.path, before, after, report }
    }

    fn touch(&self) -> Touch {
        self.landing.touch(&self.path, Access::Write)
    }
}

/// Says what a change would touch and what the file would be before and after.
pub(super) fn examination(draft: Result<Draft, Declined>) -> Examination {
    let mut examination = Examination::plain(EffectClass::Reconcilable, Reach::Workspace);
    match draft {
        Ok(draft) => {
            examination.plan = Some(EditPlan {
                path: draft.touch.lands.clone(),
                before: draft.before.map(|content| content.digest),
                after: Digest::of(&draft.after),
            });
            examination.touches.push(draft.touch);
        }
        Err(Declined::Problem { touch, problem }) => {
            examination.touches.extend(touch);
            examination.problems.push(problem);
        }
        Err(Declined::Protected(touch)) => examination.touches.push(touch),
    }
    examination
}

/// Makes the change, if the file is still what the draft was made from.
pub(super) fn commit(files: &Files, draft: Result<Draft, Declined>) -> ToolResult {
    let draft = match draft {
        Ok(draft) => draft,
        Err(Declined::Problem { problem, .. }) => return ToolResult::failed(problem.text),
        Err(Declined::Protected(Touch { path, protected, .. })) => {
            return failure(&PathProblem::Protected { path, rule: protected.unwrap_or_default() });
        }
    };
    let digest = Digest::of(&draft.after);
    let unchanged = draft.before.as_ref().is_some_and(|content| content.digest == digest);
    let mut changes = Vec::new();
    if !unchanged {
        let expected = draft.before.map_or(Expected::Missing, |content| Expected::Content(content.digest));
        match files.workspace.replace(&draft.path, &draft.after, &expected) {
            Ok(change) => changes.push(change),
            Err(problem) => return failure(&problem),
        }
    }
    files.seen.note(&draft.touch.lands, &digest);
    let mut result = ToolResult::ok(draft.report);
    result.data = sighting(&draft.touch.lands, &digest);
    result.changes = changes;
    result
}

/// Finds out by the file's digest whether a change happened.
pub(super) fn probe(files: &Files, examined: &Examination) -> Probe {
    let Some(plan) = &examined.plan else {
        return Probe::Settled(ToolResult::in_doubt("The call recorded no plan by which its effect could be told."));
    };
    let path = shown(&plan.path);
    let now = match files.workspace.read(&plan.path, EDIT_LIMIT_BYTES) {
        Ok(content) => Some(content.digest),
        Err(PathProblem::Missing(_)) => None,
        Err(problem) => return Probe::Settled(ToolResult::in_doubt(problem)),
    };
    if now.as_ref() == Some(&plan.after) {
        files.seen.note(&plan.path, &plan.after);
        let mut result = ToolResult::ok(format!("`{path}` was written as asked before the interruption."));
        result.data = sighting(&plan.path, &plan.after);
        // The listing that was taken up after the interruption does not know of it yet.
        result.changes = files.workspace.observe().unwrap_or_default();
        Probe::Settled(result)
    } else if now == plan.before {
        Probe::DidNotHappen
    } else {
        let known = format!("`{path}` is neither as it was before the call nor as the call would have left it.");
        Probe::Settled(ToolResult::in_doubt(known))
    }
}
