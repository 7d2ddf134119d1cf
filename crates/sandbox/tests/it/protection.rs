//! What is protected, on real workspaces.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use hames_protocol::port::{FileKind, Workspace as _};
use hames_sandbox::{GuardKind, Protection, ProtectionConfig, Since, TestFiles, WorkspaceFiles};

use crate::folder_with;

fn guarded_tests() -> ProtectionConfig {
    ProtectionConfig { tests: TestFiles::Guarded, ..ProtectionConfig::default() }
}

fn config(protect: &[&str], unprotect: &[&str]) -> ProtectionConfig {
    let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect();
    ProtectionConfig { protect: owned(protect), unprotect: owned(unprotect), tests: TestFiles::Open }
}

fn rule(protection: &Protection, path: &str) -> Option<String> {
    let kind = match fs::metadata(protection.root().join(path)) {
        Ok(metadata) if metadata.is_dir() => FileKind::Folder,
        Ok(_) => FileKind::File,
        Err(_) => FileKind::Missing,
    };
    protection.rule(path, kind).map(str::to_owned)
}

fn existing(protection: &Protection) -> Vec<(String, GuardKind)> {
    let guarded = protection.existing().unwrap();
    guarded.into_iter().map(|guarded| (guarded.path.to_str().unwrap().to_owned(), guarded.kind)).collect()
}

#[test]
fn settings_are_protected_whether_or_not_they_exist() {
    let folder = folder_with(&["src/a.rs"]);
    let protection = Protection::new(folder.path(), ProtectionConfig::default()).unwrap();
    for path in
        [".hames/config.toml", ".mcp.json", ".vscode/tasks.json", ".git/hooks/pre-commit", "a/.git/config", ".git"]
    {
        assert!(rule(&protection, path).is_some(), "{path}");
    }
    for path in [".hames/progress.md", "src/a.rs", "new.rs", "a/.vscode/x", "tests/test_a.py", "conftest.py"] {
        assert_eq!(rule(&protection, path), None, "{path}");
    }
}

#[test]
fn tests_that_exist_are_protected_and_new_ones_may_be_added() {
    let folder = folder_with(&["tests/test_a.py", "tests/data.json", "pyproject.toml", "setup.cfg", "testold.py"]);
    fs::write(folder.path().join("testold.py"), "import unittest\n").unwrap();
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    for path in ["tests/test_a.py", "tests/data.json", "testold.py"] {
        assert!(rule(&protection, path).unwrap().contains("at the start"), "{path}");
    }
    for path in ["tests/conftest.py", "conftest.py", "sitecustomize.py", "tests/__init__.py", "pytest.ini", "tox.ini"] {
        assert!(rule(&protection, path).unwrap().contains("how the tests run"), "{path}");
    }
    for path in ["tests/test_b.py", "tests/new/data.json", "pyproject.toml", "setup.cfg"] {
        assert_eq!(rule(&protection, path), None, "{path}");
    }
}

#[test]
fn tests_that_are_ignored_or_belong_to_packages_stay_open() {
    let folder = folder_with(&["build/test_a.py", "node_modules/x/test/a.js", "test_b.py"]);
    fs::write(folder.path().join(".gitignore"), "build/\n").unwrap();
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    assert_eq!(existing(&protection), [("test_b.py".to_owned(), GuardKind::File)]);
}

#[test]
fn a_wholly_protected_folder_is_listed_once_and_tests_singly() {
    let folder = folder_with(&[
        ".git/HEAD",
        ".git/config",
        ".git/hooks/pre-commit",
        ".git/info/exclude",
        ".git/objects/a/b",
        ".git/refs/x",
        ".vscode/a",
        ".vscode/b/c",
        "tests/a/test_1.py",
        "tests/test_2.py",
        "vendor/x/.git/config",
        "sub/.git",
    ]);
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    let expected = [
        (".git/config", GuardKind::File),
        (".git/hooks", GuardKind::Folder),
        (".git/info", GuardKind::Folder),
        (".vscode", GuardKind::Folder),
        ("sub/.git", GuardKind::File),
        ("tests/a/test_1.py", GuardKind::File),
        ("tests/test_2.py", GuardKind::File),
        ("vendor/x/.git/config", GuardKind::File),
    ];
    assert_eq!(existing(&protection), expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn what_came_past_the_protection_is_told_from_what_was_there() {
    let folder = folder_with(&[".envrc"]);
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    for late in ["x/.git/hooks/pre-commit", "conftest.py", "bare/HEAD", "bare/objects/a", "bare/refs/a", "bare/config"]
    {
        fs::create_dir_all(folder.path().join(late).parent().unwrap()).unwrap();
        fs::write(folder.path().join(late), "").unwrap();
    }
    let found: Vec<_> =
        protection.existing().unwrap().into_iter().map(|guarded| (guarded.path, guarded.since)).collect();
    let expected = [
        (".envrc", Since::Start),
        ("bare/config", Since::Later),
        ("conftest.py", Since::Later),
        ("x/.git/hooks", Since::Later),
    ];
    assert_eq!(found, expected.map(|(path, since)| (path.into(), since)));
}

#[test]
fn progress_stays_writable_in_the_protected_folder() {
    let folder = folder_with(&[".hames/config.toml", ".hames/progress.md"]);
    let protection = Protection::new(folder.path(), ProtectionConfig::default()).unwrap();
    let guarded = protection.existing().unwrap();
    assert_eq!(guarded.len(), 1);
    assert_eq!(guarded[0].path, Path::new(".hames"));
    assert_eq!(guarded[0].writable, [Path::new(".hames/progress.md")]);
}

#[test]
fn named_paths_that_do_not_exist_are_listed() {
    let folder = folder_with(&[".git/HEAD", ".vscode/x", "a/.git/config"]);
    let protection =
        Protection::new(folder.path(), config(&["deploy/key.pem", "*.lock", "/plan"], &[".claude"])).unwrap();
    let absent: Vec<_> = protection.absent().into_iter().map(|absent| absent.path).collect();
    let expected = [
        ".agents",
        ".envrc",
        ".git/hooks",
        ".git/info",
        ".hames",
        ".mcp.json",
        "a/.git/hooks",
        "a/.git/info",
        "deploy/key.pem",
        "plan",
    ];
    assert_eq!(absent, expected.map(std::path::PathBuf::from));
}

#[test]
fn the_globs_of_the_user_add_and_take_away() {
    let folder = folder_with(&["secret/a", "secret/open/b", "x/Cargo.lock", ".vscode/settings.json"]);
    let globs = config(&["secret/", "*.lock", "./top.txt"], &["secret/open", ".vscode/settings.json"]);
    let protection = Protection::new(folder.path(), globs).unwrap();
    assert_eq!(rule(&protection, "secret/a").unwrap(), "`--protect secret/`");
    assert_eq!(rule(&protection, "x/Cargo.lock").unwrap(), "`--protect *.lock`");
    assert_eq!(rule(&protection, "top.txt").unwrap(), "`--protect ./top.txt`");
    assert_eq!(rule(&protection, "x/top.txt"), None);
    assert_eq!(rule(&protection, "secret/open/b"), None);
    assert_eq!(rule(&protection, ".vscode/settings.json"), None);
    let guarded = protection.existing().unwrap();
    let secret = guarded.iter().find(|guarded| guarded.path == Path::new("secret")).unwrap();
    assert_eq!(secret.writable, [Path::new("secret/open")]);
}

#[test]
fn a_glob_that_cannot_work_is_refused_by_name() {
    let folder = folder_with(&[]);
    for glob in ["", "#x", "a/../../b", "x[", "!"] {
        let problem = Protection::new(folder.path(), config(&[glob], &[])).unwrap_err().to_string();
        assert!(problem.contains(&format!("`{glob}`")) && problem.contains("--protect"), "{problem}");
    }
    let problem = Protection::new(&folder.path().join("none"), ProtectionConfig::default()).unwrap_err();
    assert!(problem.to_string().contains("none"), "{problem}");
}

#[test]
fn a_second_name_of_a_protected_file_is_protected_as_well() {
    let folder = folder_with(&["tests/test_a.py", "envs/dev"]);
    fs::hard_link(folder.path().join("tests/test_a.py"), folder.path().join("twin")).unwrap();
    symlink("envs/dev", folder.path().join(".envrc")).unwrap();
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    assert!(rule(&protection, "twin").unwrap().contains("tests/test_a.py"));
    assert!(rule(&protection, "envs/dev").unwrap().contains(".envrc"));
    let paths: Vec<_> = existing(&protection).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, [".envrc", "envs/dev", "tests/test_a.py", "twin"]);
}

#[test]
fn a_test_folder_that_links_to_the_sources_does_not_protect_them() {
    let folder = folder_with(&["src/a.py", "tests/test_a.py", "checks/b.py"]);
    symlink("../src", folder.path().join("tests/src")).unwrap();
    symlink("../src/a.py", folder.path().join("tests/a.py")).unwrap();
    symlink("../checks/b.py", folder.path().join("tests/test_b.py")).unwrap();
    let protection = Protection::new(folder.path(), guarded_tests()).unwrap();
    assert_eq!(rule(&protection, "src/a.py"), None);
    assert_eq!(rule(&protection, "src/new.py"), None);
    assert!(rule(&protection, "checks/b.py").unwrap().contains("tests/test_b.py"));
}

#[test]
fn a_protected_link_that_leads_out_is_not_followed() {
    let (folder, outside) = (folder_with(&[]), folder_with(&["secret"]));
    symlink(outside.path(), folder.path().join(".vscode")).unwrap();
    let protection = Protection::new(folder.path(), ProtectionConfig::default()).unwrap();
    assert_eq!(existing(&protection), [(".vscode".to_owned(), GuardKind::Link)]);
    let files = WorkspaceFiles::open(folder.path(), None, Arc::new(protection)).unwrap();
    assert_eq!(files.protected_files().unwrap(), Vec::<String>::new());
}

#[test]
fn editable_configuration_stays_protected_when_the_user_says_so() {
    let folder = folder_with(&["setup.cfg", "test_a.py"]);
    let globs = ProtectionConfig { tests: TestFiles::Guarded, ..config(&["setup.cfg"], &[]) };
    let protection = Protection::new(folder.path(), globs).unwrap();
    assert_eq!(rule(&protection, "setup.cfg").unwrap(), "`--protect setup.cfg`");
    assert!(protection.existing().unwrap().iter().all(|guarded| guarded.since == Since::Start));
}

#[test]
fn what_comes_and_goes_is_seen_at_the_next_look() {
    let folder = folder_with(&["deep/a/b/x", "deep/c/config", "deep/c/objects/x"]);
    let root = folder.path();
    let protection = Protection::new(root, ProtectionConfig::default()).unwrap();
    let seen = || {
        // So long that what was found the time before may be relied on.
        std::thread::sleep(std::time::Duration::from_millis(60));
        existing(&protection).into_iter().map(|(path, _)| path).collect::<Vec<_>>()
    };
    assert!(seen().is_empty() && seen().is_empty());
    fs::create_dir_all(root.join("deep/a/b/.git/hooks")).unwrap();
    assert_eq!(seen(), ["deep/a/b/.git/hooks"]);
    fs::write(root.join("deep/a/b/.git/config"), "").unwrap();
    assert_eq!(seen(), ["deep/a/b/.git/config", "deep/a/b/.git/hooks"]);
    fs::rename(root.join("deep/a"), root.join("deep/z")).unwrap();
    assert_eq!(seen(), ["deep/z/b/.git/config", "deep/z/b/.git/hooks"]);
    fs::remove_dir_all(root.join("deep/z/b")).unwrap();
    assert!(seen().is_empty());
    fs::create_dir(root.join("deep/c/refs")).unwrap();
    assert!(seen().is_empty());
    fs::write(root.join("deep/c/HEAD"), "").unwrap();
    assert_eq!(seen(), ["deep/c/config"]);
    fs::remove_dir_all(root.join("deep/c/objects")).unwrap();
    assert!(seen().is_empty());
}
