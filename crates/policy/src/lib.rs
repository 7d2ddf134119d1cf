//! Rules and facts to a decision, as a pure function.
//!
//! Licence of this crate: purity that the compiler proves. Its manifest has no runtime, no files and no clock, so
//! that a decision can depend on nothing but what stands in the log.

use hames_protocol::{Access, Ask, Decision, Examination, Guard, Reach};

/// What the workspace may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkspaceAccess {
    /// Its files may be changed, protected ones aside.
    ReadWrite,
    /// Nothing may be changed.
    ReadOnly,
}

/// Judges an examined call. The first rule that speaks decides; what no rule allows is refused.
///
/// ```
/// use hames_policy::{WorkspaceAccess, decide};
/// use hames_protocol::{Decision, EffectClass, Examination, Reach};
///
/// let look = Examination::plain(EffectClass::Pure, Reach::Workspace);
/// assert!(matches!(decide(&look, WorkspaceAccess::ReadOnly), Decision::Allow { .. }));
/// let mail = Examination::plain(EffectClass::Once, Reach::Outward);
/// assert!(matches!(decide(&mail, WorkspaceAccess::ReadWrite), Decision::Refuse { .. }));
/// ```
pub fn decide(examined: &Examination, access: WorkspaceAccess) -> Decision {
    not_valid(examined)
        .or_else(|| protected_write(examined))
        .or_else(|| read_only_write(examined, access))
        .or_else(|| outward(examined))
        .or_else(|| question(examined))
        .unwrap_or_else(|| Decision::Allow { rule: "stays inside the sandbox".to_owned() })
}

fn not_valid(examined: &Examination) -> Option<Decision> {
    let first = examined.problems.first()?;
    let texts: Vec<&str> = examined.problems.iter().map(|problem| problem.text.as_str()).collect();
    Some(refuse(first.guard, texts.join("\n")))
}

fn protected_write(examined: &Examination) -> Option<Decision> {
    let touch = examined.touches.iter().find(|t| t.access == Access::Write && t.protected.is_some())?;
    let rule = touch.protected.as_deref().unwrap_or_default();
    let lands = if touch.lands == touch.path { String::new() } else { format!(", which is `{}`,", touch.lands) };
    Some(refuse(
        Guard::Protected,
        format!(
            "`{}`{lands} is protected ({rule}) and was not changed. Reach the goal without changing it.",
            touch.path
        ),
    ))
}

fn read_only_write(examined: &Examination, access: WorkspaceAccess) -> Option<Decision> {
    if access == WorkspaceAccess::ReadWrite {
        return None;
    }
    let touch = examined.touches.iter().find(|t| t.access == Access::Write)?;
    Some(refuse(
        Guard::Permitted,
        format!(
            "`{}` was not changed: this run may only read. Describe the change instead; the user can start a run with `--sandbox workspace-write`.",
            touch.path
        ),
    ))
}

fn outward(examined: &Examination) -> Option<Decision> {
    match examined.reach {
        Reach::Workspace | Reach::Private => None,
        Reach::Outward => Some(refuse(
            Guard::Permitted,
            "This would reach beyond the workspace, which no rule allows. Do it with the files at hand, or finish and say what the user should do."
                .to_owned(),
        )),
    }
}

fn question(examined: &Examination) -> Option<Decision> {
    examined.question.clone().map(|question| Decision::Ask(Ask::Question(question)))
}

fn refuse(guard: Guard, reason: String) -> Decision {
    Decision::Refuse { guard, reason }
}

#[cfg(test)]
mod tests {
    use hames_protocol::{EffectClass, Touch};

    use super::*;

    fn write(protected: Option<&str>) -> Examination {
        let touch = Touch {
            path: "tests/../tests/t.py".into(),
            lands: "tests/t.py".into(),
            access: Access::Write,
            protected: protected.map(Into::into),
        };
        Examination { touches: vec![touch], ..Examination::plain(EffectClass::Reconcilable, Reach::Workspace) }
    }

    fn guard(decision: &Decision) -> Option<Guard> {
        match decision {
            Decision::Refuse { guard, .. } => Some(*guard),
            Decision::Allow { .. } | Decision::Ask(_) => None,
        }
    }

    #[test]
    fn a_write_to_a_protected_path_is_refused_wherever_it_was_written() {
        assert_eq!(guard(&decide(&write(Some("a test file")), WorkspaceAccess::ReadWrite)), Some(Guard::Protected));
        assert_eq!(guard(&decide(&write(None), WorkspaceAccess::ReadWrite)), None);
    }

    #[test]
    fn a_read_only_run_changes_nothing() {
        assert_eq!(guard(&decide(&write(None), WorkspaceAccess::ReadOnly)), Some(Guard::Permitted));
    }

    #[test]
    fn a_problem_is_refused_by_the_gate_that_found_it() {
        let examined = Examination::problem(Guard::Jail, "outside");
        assert_eq!(guard(&decide(&examined, WorkspaceAccess::ReadWrite)), Some(Guard::Jail));
    }

    #[test]
    fn a_question_is_put_to_a_person_unless_something_else_speaks_against_it() {
        let examined =
            Examination { question: Some("Which?".into()), ..Examination::plain(EffectClass::Pure, Reach::Private) };
        let asked = Decision::Ask(Ask::Question("Which?".into()));
        assert_eq!(decide(&examined, WorkspaceAccess::ReadOnly), asked, "to ask changes nothing");
        let outward = Examination { reach: Reach::Outward, ..examined };
        assert_eq!(guard(&decide(&outward, WorkspaceAccess::ReadWrite)), Some(Guard::Permitted));
    }

    #[test]
    fn what_reaches_outward_is_refused() {
        let examined = Examination::plain(EffectClass::Once, Reach::Outward);
        assert_eq!(guard(&decide(&examined, WorkspaceAccess::ReadWrite)), Some(Guard::Permitted));
    }
}
