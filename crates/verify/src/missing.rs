//! Tells a missing program from a failed check.
//!
//! Output text is not asked: a check may print `command not found` for any reason. The exit code raises the
//! suspicion, and a look from inside the same view settles it.

use std::path::Path;

use crate::command::{Start, starts};

/// What to ask the sandbox, and what a refusal means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// A command line that exits with `ABSENT` when the program is missing.
    pub(crate) probe: String,
    /// What is missing then, as a clause.
    pub(crate) missing: String,
}

/// The exit code by which a probe says that a program is missing; one that no shell gives of its own accord.
pub(crate) const ABSENT: i32 = 69;

/// Python modules that are programs: someone installs them, no model writes them into a workspace.
const MODULES: [&str; 18] = [
    "bandit", "black", "build", "coverage", "flake8", "hatch", "mypy", "nose2", "nox", "pip", "poetry", "pylint",
    "pyright", "pytest", "ruff", "tox", "twine", "unittest",
];

/// Subcommands of cargo that are programs of their own.
const SUBCOMMANDS: [&str; 12] =
    ["audit", "clippy", "deny", "fmt", "hack", "insta", "llvm-cov", "machete", "miri", "nextest", "tarpaulin", "udeps"];

/// What to ask after a check exited with `code`; empty when no program can be missing.
///
/// A program that lies in the workspace at `root` is one that the model can mend: its absence is a failed check.
pub(crate) fn questions(command: &str, code: i32, root: &Path) -> Vec<Question> {
    let starts = starts(command).into_iter().filter(|start| !is_in_workspace(start, root));
    match code {
        0 => Vec::new(),
        126 | 127 => starts.map(|start| program(&start)).collect(),
        _ => starts.flat_map(|start| [module(&start), subcommand(&start), package(&start)]).flatten().collect(),
    }
}

/// Named by a path in the workspace, or by a name that a search path of the command's own may find there.
fn is_in_workspace(start: &Start, root: &Path) -> bool {
    let program = start.program();
    let is_relative = program.contains('/') && !program.starts_with('/');
    is_relative || Path::new(program).starts_with(root) || start.assignments.iter().any(|one| one.starts_with("PATH="))
}

fn program(start: &Start) -> Question {
    Question {
        probe: format!("command -v {} >/dev/null || exit {ABSENT}", quoted(start.program())),
        missing: format!("the program `{}` is not there", start.program()),
    }
}

fn module(start: &Start) -> Option<Question> {
    let module = start.python_module()?;
    let top = module.split('.').next()?;
    MODULES.contains(&top).then(|| Question {
        probe: format!(
            "{} -c 'import importlib.util, sys; sys.exit({ABSENT} if importlib.util.find_spec(\"{top}\") is None else 0)'",
            quoted(start.program())
        ),
        missing: format!("`{}` has no module `{top}`", start.program()),
    })
}

fn subcommand(start: &Start) -> Option<Question> {
    let subcommand = start.cargo_subcommand()?;
    SUBCOMMANDS.contains(&subcommand).then(|| Question {
        probe: format!(
            "cd / && {{ {} {subcommand} --version >/dev/null 2>&1 || exit {ABSENT}; }}",
            quoted(start.program())
        ),
        missing: format!("cargo has no command `{subcommand}`"),
    })
}

/// Runners that `npx` starts from the installed packages; without a network it cannot fetch them.
fn package(start: &Start) -> Option<Question> {
    const RUNNERS: [&str; 6] = ["jest", "vitest", "mocha", "ava", "playwright", "eslint"];
    if start.program() != "npx" {
        return None;
    }
    let named = start.words.iter().skip(1).find(|word| !word.starts_with('-'))?;
    let name = named.split('@').next().filter(|name| RUNNERS.contains(name))?;
    Some(Question {
        // The packages of a project lie in its folder, which may be further down, or in one above.
        probe: format!(
            "[ -n \"$(find . -path '*/node_modules/.bin/{name}' -print -quit 2>/dev/null)\" ] && exit 0; folder=$PWD; \
             while [ -n \"$folder\" ]; do [ -e \"$folder/node_modules/.bin/{name}\" ] && exit 0; \
             folder=${{folder%/*}}; done; command -v {name} >/dev/null || exit {ABSENT}"
        ),
        missing: format!("`{name}` is not among the installed packages"),
    })
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, code: i32, expected: &[&str]) {
        let found: Vec<String> =
            questions(command, code, Path::new("/work")).into_iter().map(|one| one.missing).collect();
        assert_eq!(found, expected, "{command}");
    }

    #[test]
    fn only_what_lies_outside_the_workspace_can_be_missing() {
        check("frob --all && make", 127, &["the program `frob` is not there", "the program `make` is not there"]);
        check("./build.sh", 127, &[]);
        check("scripts/build.sh", 126, &[]);
        check("/work/build.sh", 127, &[]);
        check("/opt/tool/run", 126, &["the program `/opt/tool/run` is not there"]);
        check("PATH=bin:$PATH frob", 127, &[]);
        check("frob", 0, &[]);
        check("frob", 1, &[]);
    }

    #[test]
    fn modules_and_subcommands_that_someone_installs_are_asked_for() {
        check("python3 -m pytest -q", 1, &["`python3` has no module `pytest`"]);
        check("python3 -m shop.selfcheck", 1, &[]);
        check(".venv/bin/python -m pytest", 1, &[]);
        check("cargo nextest run", 101, &["cargo has no command `nextest`"]);
        check("cargo test", 101, &[]);
        check("npx --no-install jest --ci", 1, &["`jest` is not among the installed packages"]);
        check("npx vitest@3 run", 1, &["`vitest` is not among the installed packages"]);
        check("npx prettify", 1, &[]);
        check("go test ./...", 127, &["the program `go` is not there"]);
    }
}
