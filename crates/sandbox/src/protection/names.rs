//! What is protected by its name alone: settings that others execute, and what belongs to tests.
//!
//! Everything here is pure and works on paths relative to the workspace root, whether or not they exist. Names that
//! some file system or git itself takes for one of these (`.GIT`, `git~1`) count as that one.

use std::borrow::Cow;

/// Settings at the root that editors, shells and agents execute or obey.
pub(super) const ROOT_SETTINGS: [&str; 6] = [".hames", ".mcp.json", ".envrc", ".vscode", ".claude", ".agents"];
/// The one file below `.hames/` that a run may write.
pub(super) const PROGRESS: &str = ".hames/progress.md";

/// The name of a repository in the folder that it keeps.
const DOT_GIT: &str = ".git";

const SETTINGS_RULE: &str = "settings that other programs obey";
const GIT_RULE: &str = "hooks and settings of a git repository";
const POINTER_RULE: &str = "a `.git` file decides which repository is used";
/// Why a test file is protected.
pub(super) const TEST_RULE: &str = "a test file that was there at the start";
/// Why an addition beside tests is protected.
pub(super) const RUNNER_RULE: &str = "it would change how the tests run";

/// The rule that protects `path` whatever the workspace holds; `is_folder` when a folder is there.
pub(super) fn settings_rule(path: &str, is_folder: bool) -> Option<&'static str> {
    if path == PROGRESS {
        return None;
    }
    let path = folded(path);
    let parts: Vec<&str> = path.split('/').collect();
    if parts.first().is_some_and(|first| ROOT_SETTINGS.contains(first)) {
        return Some(SETTINGS_RULE);
    }
    let git = parts.iter().position(|part| *part == DOT_GIT)?;
    match &parts[git + 1..] {
        [] => (!is_folder).then_some(POINTER_RULE),
        inside => git_rule(inside, is_folder),
    }
}

/// The rule for a path inside a git folder, given as the parts below it.
pub(super) fn git_rule(inside: &[&str], is_folder: bool) -> Option<&'static str> {
    match inside {
        ["hooks" | "info", ..] => Some(GIT_RULE),
        // `commondir` and `gitdir` make git read its settings elsewhere.
        ["config" | "config.worktree" | "commondir" | "gitdir"] if !is_folder => Some(GIT_RULE),
        ["worktrees", _, rest @ ..] => git_rule(rest, is_folder),
        // A submodule's name may hold slashes, so its git folder lies at any depth; what git itself fills with names
        // of branches is not one.
        ["modules", _, rest @ ..] => (0..rest.len())
            .take_while(|&at| !rest[..at].iter().any(|part| matches!(*part, "refs" | "logs" | "objects")))
            .find_map(|at| git_rule(&rest[at..], is_folder)),
        _ => None,
    }
}

/// Whether a git folder holds something of this name that is protected.
pub(super) fn is_git_setting(name: &str) -> bool {
    matches!(name, "hooks" | "info" | "config" | "config.worktree" | "commondir" | "gitdir")
}

/// Whether a rule is one about repositories.
pub(crate) fn is_of_repository(rule: &str) -> bool {
    rule == GIT_RULE || rule == POINTER_RULE
}

/// Whether a name is taken for `.git` by some file system.
pub(crate) fn is_dot_git(name: &str) -> bool {
    folded_name(name) == DOT_GIT
}

/// A path in which each name is spelled as [`folded_name`] has it.
pub(super) fn folded(path: &str) -> Cow<'_, str> {
    if path.split('/').all(|name| matches!(folded_name(name), Cow::Borrowed(_))) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(path.split('/').map(folded_name).collect::<Vec<_>>().join("/"))
}

/// A name as file systems compare it that know no difference of case, drop dots and blanks at the end (FAT, NTFS) or
/// skip characters without width (HFS+). The same as in git's `is_ntfs_dotgit` and `is_hfs_dotgit`.
fn folded_name(name: &str) -> Cow<'_, str> {
    let is_skipped =
        |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let plain = !name.ends_with(['.', ' ']) && !name.chars().any(|c| c.is_ascii_uppercase() || is_skipped(c));
    let folded = if plain {
        Cow::Borrowed(name)
    } else {
        let folded: String = name.chars().filter(|c| !is_skipped(*c)).map(|c| c.to_ascii_lowercase()).collect();
        Cow::Owned(folded.trim_end_matches(['.', ' ']).to_owned())
    };
    if folded == "git~1" { Cow::Owned(DOT_GIT.to_owned()) } else { folded }
}

/// Folders whose files are all part of the tests: sources, fixtures, expected outputs.
const TEST_FOLDERS: [&str; 5] = ["tests", "test", "__tests__", "__snapshots__", "testdata"];
/// Folders of installed packages; their tests are not this project's.
const PACKAGE_FOLDERS: [&str; 4] = ["node_modules", "site-packages", ".venv", "venv"];
/// Folders and endings that runners write while they run.
const CACHES: [&str; 2] = ["__pycache__", ".pytest_cache"];

/// How sure a name alone makes it that a file belongs to the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestName {
    /// It does.
    Yes,
    /// Only its content can tell: unittest finds every `test*.py`, and not every such file is a test.
    Perhaps,
    /// It does not.
    No,
}

/// Tells whether an existing file belongs to the tests by the conventions of the runners.
///
/// Below a test folder every file counts, since tests compare with what lies beside them. Elsewhere: pytest and
/// unittest `test_*.py`, `*_test.py`, `tests.py`; Rust `tests.rs`, `*_test.rs`; Go, Ruby, Elixir, C and C++
/// `*_test.*`; RSpec `*_spec.rb`; Jest and Vitest `*.test.*`, `*.spec.*`; Node `*-test.*`, `*_test.*`, `test-*.*`.
pub(super) fn test_name(path: &str) -> TestName {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let within = |names: &[&str]| folders.split('/').any(|folder| names.contains(&folder));
    if within(&PACKAGE_FOLDERS) || within(&CACHES) || name.ends_with(".pyc") {
        return TestName::No;
    }
    if within(&TEST_FOLDERS) {
        return TestName::Yes;
    }
    let Some((stem, ending)) = name.rsplit_once('.') else { return TestName::No };
    let named = match ending {
        "py" | "rs" => {
            matches!(stem, "test" | "tests")
                || stem.starts_with("test_")
                || stem.ends_with("_test")
                || stem.ends_with("_tests")
        }
        "go" | "exs" | "c" | "cc" | "cpp" | "cxx" | "dart" => stem.ends_with("_test"),
        "rb" => stem.ends_with("_test") || stem.ends_with("_spec"),
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "mjsx" | "cjs" | "mts" | "cts" | "vue" | "svelte" => {
            matches!(stem, "test" | "spec")
                || [".test", ".spec", "-test", "_test"].iter().any(|end| stem.ends_with(end))
                || stem.starts_with("test-")
        }
        _ => false,
    };
    if named || is_runner_file(path) {
        TestName::Yes
    } else if ending == "py" && stem.starts_with("test") {
        TestName::Perhaps
    } else {
        TestName::No
    }
}

/// Whether this is a file that does nothing but decide how programs and tests run: guarded when it exists, refused
/// when it does not.
pub(super) fn is_runner_file(path: &str) -> bool {
    const NAMES: [&str; 9] = [
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "nextest.toml",
        // Python imports these by themselves, from wherever its path leads.
        "sitecustomize.py",
        "usercustomize.py",
    ];
    const CONFIGS: [&str; 7] = ["jest", "vitest", "vitest.workspace", "ava", "karma", "playwright", "cypress"];
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    NAMES.contains(&name)
        || name.starts_with(".mocharc.")
        // A runner or compiler wrapper set here stands in for the tests of `cargo test`.
        || (last(folders) == ".cargo" && matches!(name, "config.toml" | "config"))
        || name.split_once(".conf").is_some_and(|(tool, rest)| {
            CONFIGS.contains(&tool) && (rest.starts_with('.') || rest.starts_with("ig."))
        })
}

/// Whether a file that was not there at the start would change how the tests run.
///
/// `beside_tests` tells whether its folder held test files at the start. A manifest that exists (`pyproject.toml`,
/// `package.json`, `Cargo.toml`, `setup.cfg`) stays editable; a new one beside tests takes them over.
pub(super) fn changes_runs(path: &str, beside_tests: bool) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    if folders.split('/').any(|folder| PACKAGE_FOLDERS.contains(&folder)) {
        return matches!(name, "sitecustomize.py" | "usercustomize.py");
    }
    is_runner_file(path)
        || name == "setup.cfg"
        // These would be imported instead of the runner.
        || matches!(name, "unittest.py" | "pytest.py" | "_pytest.py")
        || (name == "__init__.py" && matches!(last(folders), "unittest" | "pytest" | "_pytest"))
        || (beside_tests && matches!(name, "__init__.py" | "pyproject.toml" | "package.json" | "Cargo.toml"))
}

fn last(folders: &str) -> &str {
    folders.rsplit('/').next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_every_kind_of_git_folder_are_protected() {
        for path in [
            ".git",
            "vendor/x/.git",
            ".git/hooks",
            ".git/hooks/pre-commit",
            "vendor/x/.git/config",
            ".git/info/attributes",
            ".git/commondir",
            ".git/config.worktree",
            ".git/modules/a/b/hooks/post-checkout",
            ".git/modules/a/config",
            ".git/modules/a/modules/b/config",
            ".git/worktrees/w/config.worktree",
            ".git/worktrees/w/gitdir",
        ] {
            assert!(settings_rule(path, false).is_some(), "{path}");
        }
        for path in [".git/index", ".git/refs/heads/config", ".git/modules/a/refs/heads/config", ".gitignore", "config"]
        {
            assert_eq!(settings_rule(path, false), None, "{path}");
        }
        assert_eq!(settings_rule(".git", true), None);
    }

    #[test]
    fn a_name_that_some_file_system_takes_for_another_is_that_one() {
        for path in [
            ".GIT/hooks/pre-commit",
            ".Git/config",
            ".git/HOOKS/x",
            ".git/Config",
            ".git /hooks/x",
            ".git./config",
            ".gi\u{200c}t/config",
            "sub/GIT~1/config",
            ".VSCode/tasks.json",
            ".Envrc",
            ".hames/Progress.md",
        ] {
            assert!(settings_rule(path, false).is_some(), "{path}");
        }
        for path in [".hames/progress.md", "src/.gitt", "Hooks", "GIT", ". git/config", "caf\u{e9}/a"] {
            assert_eq!(settings_rule(path, false), None, "{path}");
        }
    }

    #[test]
    fn test_files_are_known_by_the_conventions_of_their_runners() {
        for path in [
            "test_a.py",
            "a/b_test.py",
            "tests.py",
            "tests/data/expected.json",
            "src/tests.rs",
            "tests/it/main.rs",
            "a_test.go",
            "x.test.tsx",
            "x.spec.js",
            "test.mjs",
            "src/x-test.js",
            "src/x_test.cjs",
            "test-x.js",
            "__tests__/x.js",
            "src/__snapshots__/x.snap",
            "spec/a_spec.rb",
            "conftest.py",
            "jest.config.js",
            "vitest.config.mts",
            "karma.conf.js",
        ] {
            assert_eq!(test_name(path), TestName::Yes, "{path}");
        }
        for path in
            ["latest.py", "src/lib.rs", "tests/__pycache__/a.pyc", "node_modules/x/test/a.js", "attest.js", "latest.ts"]
        {
            assert_eq!(test_name(path), TestName::No, "{path}");
        }
        assert_eq!(test_name("testcheckout.py"), TestName::Perhaps);
    }

    #[test]
    fn an_addition_that_changes_how_tests_run_is_told_from_a_new_test() {
        for path in [
            "conftest.py",
            "a/b/conftest.py",
            "sitecustomize.py",
            ".venv/lib/site-packages/usercustomize.py",
            "pytest.ini",
            "tox.ini",
            "setup.cfg",
            "jest.config.ts",
            "unittest/__init__.py",
            "pytest.py",
            ".cargo/config.toml",
        ] {
            assert!(changes_runs(path, false), "{path}");
        }
        for path in ["tests/test_new.py", "pyproject.toml", "pkg/__init__.py", "node_modules/x/jest.config.js"] {
            assert!(!changes_runs(path, false), "{path}");
        }
        for path in ["tests/__init__.py", "tests/pyproject.toml"] {
            assert!(changes_runs(path, true), "{path}");
        }
    }
}
