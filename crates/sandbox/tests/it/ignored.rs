//! Ignored files that were created or changed: told at the end, and no others.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hames_protocol::port::Workspace;
use hames_protocol::{ChangeKind, Survey};
use hames_sandbox::{AddedFolders, Protection, ProtectionConfig, WorkspaceFiles};
use tempfile::TempDir;

use crate::{folder_with, open, put};

/// A workspace with ignored files that were there well before a run.
fn folder() -> TempDir {
    let folder = folder_with(&["a.txt", ".env", "target/old", "node_modules/p/old.js", ".git/HEAD"]);
    put(folder.path(), ".gitignore", "/target\n.env\nnode_modules/\n*.log\n");
    settle();
    folder
}

/// Longer than a tick of the clock by which files are stamped.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

fn told(survey: &Survey) -> Vec<(&str, ChangeKind)> {
    survey.ignored.iter().map(|file| (file.path.as_str(), file.change)).collect()
}

fn change(root: &Path) {
    put(root, "a.txt", "new");
    put(root, ".env", "new");
    put(root, "target/debug/new", "new");
    put(root, "node_modules/p/old.js", "new");
    put(root, ".git/index", "new");
    fs::remove_file(root.join("target/old")).unwrap();
}

const CHANGED: [(&str, ChangeKind); 3] = [
    (".env", ChangeKind::Modified),
    ("target/debug/new", ChangeKind::Added),
    ("node_modules/p/old.js", ChangeKind::Modified),
];

#[test]
fn ignored_files_that_were_created_or_changed_are_told_apart_from_the_others() {
    let folder = folder();
    let files = open(folder.path());
    files.begin().unwrap();
    assert_eq!(files.survey().unwrap(), Survey::default());
    change(folder.path());
    let survey = files.survey().unwrap();
    assert_eq!(told(&survey), CHANGED);
    assert!(survey.ignored.iter().all(|file| file.ignored) && survey.not_listed == 0);
    let ordinary: Vec<&str> = survey.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(ordinary, ["a.txt"]);
}

#[test]
fn after_a_restart_the_same_is_told() {
    let folder = folder();
    let kept = open(folder.path()).begin().unwrap();
    change(folder.path());
    let files = open(folder.path());
    files.adopt(&kept, &[]).unwrap();
    assert_eq!(told(&files.survey().unwrap()), CHANGED);
}

#[test]
fn an_ignored_file_that_a_tool_wrote_is_told_once() {
    let folder = folder();
    let files = open(folder.path());
    files.begin().unwrap();
    let change = files.create("x.log", b"x", 0o644).unwrap();
    assert_eq!(change.path, "x.log");
    put(folder.path(), "x.log", "more");
    let survey = files.survey().unwrap();
    assert_eq!((told(&survey), survey.changes.len()), (Vec::new(), 1));
}

#[test]
fn beyond_a_hundred_they_are_counted_and_what_is_no_package_or_cache_is_listed_first() {
    let folder = folder();
    let files = open(folder.path());
    files.begin().unwrap();
    for n in 0..130 {
        put(folder.path(), &format!("node_modules/p/{n}.js"), "new");
        put(folder.path(), &format!("target/{n}.o"), "new");
    }
    put(folder.path(), "target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55");
    put(folder.path(), "zz.log", "new");
    let survey = files.survey().unwrap();
    assert_eq!((survey.ignored.len(), survey.not_listed), (Survey::LISTED, 162));
    assert_eq!(survey.ignored[0].path, "zz.log");
}

#[test]
fn those_of_an_added_folder_are_told_by_whole_paths() {
    let (folder, other) = (folder(), folder());
    let root = other.path().canonicalize().unwrap();
    let protection = Arc::new(Protection::new(&root, ProtectionConfig::default()).unwrap());
    let own = Arc::new(Protection::new(folder.path(), ProtectionConfig::default()).unwrap());
    let added = AddedFolders { read_only: Vec::new(), writable: vec![protection] };
    let files = WorkspaceFiles::open(folder.path(), None, own).unwrap().with_folders(&added).unwrap();
    files.begin().unwrap();
    put(&root, ".env", "new");
    let env = root.join(".env");
    assert_eq!(told(&files.survey().unwrap()), [(env.to_str().unwrap(), ChangeKind::Modified)]);
}
