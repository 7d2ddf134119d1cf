//! What changed in a workspace, by whatever hand.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use hames_protocol::ChangeKind::{Added, Deleted, Modified};
use hames_protocol::port::{Expected, Workspace as _};
use hames_protocol::{ChangeKind, Digest, FileChange};

use crate::{folder_with, open, put};

fn told(changes: &[FileChange]) -> Vec<(&str, ChangeKind)> {
    changes.iter().map(|change| (change.path.as_str(), change.change)).collect()
}

#[test]
fn every_kind_of_change_is_observed_once() {
    let folder = folder_with(&["same", "text", "gone", "script", "target", "was-file", ".hidden/a"]);
    let root = folder.path();
    symlink("same", root.join("link")).unwrap();
    let files = open(root);
    files.begin().unwrap();
    assert_eq!(files.observe().unwrap(), []);

    put(root, "text", "TEXT");
    put(root, "new/deep", "new");
    put(root, ".hidden/a", "changed");
    fs::remove_file(root.join("gone")).unwrap();
    fs::set_permissions(root.join("script"), Permissions::from_mode(0o755)).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("target", root.join("link")).unwrap();
    fs::remove_file(root.join("was-file")).unwrap();
    symlink("same", root.join("was-file")).unwrap();
    put(root, "same", "same");

    let changes = files.observe().unwrap();
    let expected = [
        (".hidden/a", Modified),
        ("gone", Deleted),
        ("link", Modified),
        ("new/deep", Added),
        ("script", Modified),
        ("text", Modified),
        ("was-file", Modified),
    ];
    assert_eq!(told(&changes), expected);
    assert_eq!(changes[5].before, Some(Digest::of("text")));
    assert_eq!(changes[5].after, Some(Digest::of("TEXT")));
    assert_eq!(files.observe().unwrap(), []);
}

#[test]
fn a_change_of_the_same_size_that_hides_its_time_is_observed() {
    let folder = folder_with(&["abc"]);
    let path = folder.path().join("abc");
    let files = open(folder.path());
    files.begin().unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "xyz").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(told(&files.observe().unwrap()), [("abc", Modified)]);
}

#[test]
fn what_the_ignore_files_of_the_workspace_leave_out_is_not_observed() {
    let folder = folder_with(&["ws/src/a", ".gitignore", "ws/.git/HEAD"]);
    fs::write(folder.path().join(".gitignore"), "*\n").unwrap();
    let root = folder.path().join("ws");
    put(&root, ".gitignore", "build/\n");
    put(&root, "src/.gitignore", "*.tmp\n");
    put(&root, ".ignore", "src/\n");
    let files = open(&root);
    files.begin().unwrap();
    for path in ["build/out", "src/x.tmp", ".git/index", "src/b"] {
        put(&root, path, "new");
    }
    assert_eq!(told(&files.observe().unwrap()), [("src/b", Added)]);
}

#[test]
fn editing_an_ignore_file_hides_no_change_and_invents_none() {
    let folder = folder_with(&["src/a", "src/b", "old/x"]);
    let root = folder.path();
    put(root, ".gitignore", "old/\n");
    // Files younger than a tick of the file system's clock cannot be told from new ones.
    std::thread::sleep(Duration::from_millis(60));
    let files = open(root);
    files.begin().unwrap();
    put(root, ".gitignore", "src/\n");
    put(root, "src/a", "changed");
    put(root, "old/y", "new");
    let changes = files.observe().unwrap();
    assert_eq!(told(&changes), [(".gitignore", Modified), ("old/y", Added), ("src/a", Modified)]);
    fs::remove_file(root.join("src/b")).unwrap();
    put(root, "old/x", "changed");
    assert_eq!(told(&files.observe().unwrap()), [("old/x", Modified), ("src/b", Deleted)]);
}

#[test]
fn a_replaced_file_is_not_reported_again() {
    let folder = folder_with(&["a", "b"]);
    let files = open(folder.path());
    files.begin().unwrap();
    let change = files.replace("a", b"new", &Expected::Content(Digest::of("a"))).unwrap();
    assert_eq!((change.before, change.after), (Some(Digest::of("a")), Some(Digest::of("new"))));
    files.replace("c", b"new", &Expected::Missing).unwrap();
    put(folder.path(), "b", "by shell");
    assert_eq!(told(&files.observe().unwrap()), [("b", Modified)]);
}

#[test]
fn after_a_restart_exactly_what_the_log_has_not_seen_is_reported() {
    let folder = folder_with(&["logged", "gone", "later", "same"]);
    let root = folder.path();
    let before = open(root);
    let manifest = before.begin().unwrap();
    put(root, "logged", "one");
    put(root, "fresh", "two");
    fs::remove_file(root.join("gone")).unwrap();
    let mut logged = before.observe().unwrap();
    logged.push(before.replace("written", b"three", &Expected::Missing).unwrap());
    drop(before);

    put(root, "later", "after the crash");
    fs::remove_file(root.join("fresh")).unwrap();
    let after = open(root);
    after.adopt(&manifest, &logged).unwrap();
    assert_eq!(told(&after.observe().unwrap()), [("fresh", Deleted), ("later", Modified)]);
    assert_eq!(after.observe().unwrap(), []);
    assert!(after.adopt(b"{}", &[]).is_err());
    assert!(
        after.adopt(br#"{"version":9,"began_ns":0,"files":[]}"#, &[]).unwrap_err().to_string().contains("format 9")
    );
}

#[test]
fn a_name_that_is_no_text_is_observed_like_any_other() {
    let folder = folder_with(&[]);
    let name = std::ffi::OsStr::from_bytes(b"bad\xff");
    fs::write(folder.path().join(name), "one").unwrap();
    let files = open(folder.path());
    let manifest = files.begin().unwrap();
    fs::write(folder.path().join(name), "two").unwrap();
    let changes = files.observe().unwrap();
    assert_eq!(told(&changes), [("bad\\xFF", Modified)]);
    files.adopt(&manifest, &changes).unwrap();
    assert_eq!(files.observe().unwrap(), []);
    fs::remove_file(folder.path().join(name)).unwrap();
    assert_eq!(told(&files.observe().unwrap()), [("bad\\xFF", Deleted)]);
}

#[test]
fn a_large_file_is_known_by_its_outside() {
    let folder = folder_with(&[]);
    let large = fs::File::create(folder.path().join("large")).unwrap();
    large.set_len(65 << 20).unwrap();
    let files = open(folder.path());
    files.begin().unwrap();
    assert_eq!(files.observe().unwrap(), []);
    large.set_len(66 << 20).unwrap();
    assert_eq!(told(&files.observe().unwrap()), [("large", Modified)]);
}

#[test]
fn among_many_files_exactly_those_that_changed_are_told() {
    let folder = folder_with(&[]);
    for group in 0..40 {
        let group = folder.path().join(group.to_string());
        fs::create_dir(&group).unwrap();
        (0..100).for_each(|file| fs::write(group.join(file.to_string()), file.to_string()).unwrap());
    }
    let files = open(folder.path());
    files.begin().unwrap();
    assert_eq!(files.observe().unwrap(), []);
    for group in 0..40 {
        put(folder.path(), &format!("{group}/{group}"), "changed");
    }
    fs::remove_dir_all(folder.path().join("7")).unwrap();
    let changes = files.observe().unwrap();
    let count = |kind| changes.iter().filter(|change| change.change == kind).count();
    assert_eq!((count(Modified), count(Deleted), count(Added)), (39, 100, 0));
}
