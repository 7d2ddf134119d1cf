//! Paths that try to leave the workspace, and files that are replaced.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hames_protocol::port::{Expected, FileKind, PathProblem, Workspace as _};
use hames_protocol::{ChangeKind, Digest};
use hames_sandbox::{Protection, ProtectionConfig, TestFiles, WorkspaceFiles, WorkspaceProblem};
use tempfile::TempDir;

use crate::{folder_with, open, open_with, put};

const LIMIT: u64 = 1 << 20;

/// `ws` beside `ws-evil` and `out`, with links from the first to the last.
struct Scene {
    folder: TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = folder_with(&["ws/ok.txt", "ws/sub/a.txt", "ws-evil/s.txt", "out/s.txt"]);
        let scene = Self { folder };
        symlink(scene.path("out"), scene.path("ws/l")).unwrap();
        symlink("l", scene.path("ws/d")).unwrap();
        symlink(scene.path("out/new"), scene.path("ws/x")).unwrap();
        symlink("../out/s.txt", scene.path("ws/relative")).unwrap();
        scene
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn files(&self) -> WorkspaceFiles {
        open(&self.path("ws"))
    }

    fn names_outside(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("out")).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn content(bytes: &str) -> Expected {
    Expected::Content(Digest::of(bytes))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_way_out_is_refused_with_one_text_and_leaves_nothing_outside() {
    let scene = Scene::new();
    let files = scene.files();
    let absolute = scene.path("out/s.txt");
    let sibling = scene.path("ws-evil/s.txt");
    for path in [
        "l/s.txt",
        "l/none.txt",
        "l",
        "d/s.txt",
        "d/newdir/f",
        "x",
        "relative",
        "../ws-evil/s.txt",
        "../none",
        "..",
        "sub/../../out/s.txt",
        "missing/../../out/s.txt",
        "/",
        "/etc/hostname",
        "/no/such/file",
        "/proc/self/root/etc/hostname",
        "/proc/self/cwd/../out/s.txt",
        "/tmp/anything",
        absolute.to_str().unwrap(),
        sibling.to_str().unwrap(),
    ] {
        let outside = PathProblem::Outside(path.to_owned());
        assert_eq!(files.locate(path).unwrap_err(), outside, "locate");
        assert_eq!(files.read(path, LIMIT).unwrap_err(), outside, "read");
        assert_eq!(files.replace(path, b"new", &Expected::Missing).unwrap_err(), outside, "create");
        assert_eq!(files.replace(path, b"new", &content("out/s.txt")).unwrap_err(), outside, "replace");
        assert_eq!(files.create(path, b"new", 0o755).unwrap_err(), outside, "create with bits");
        assert_eq!(files.remove(path, &Digest::of("out/s.txt")).unwrap_err(), outside, "remove");
    }
    assert_eq!(scene.names_outside(), ["s.txt"]);
    assert_eq!(fs::read_to_string(absolute).unwrap(), "out/s.txt");
}

#[test]
fn names_that_only_look_special_are_plain() {
    let scene = Scene::new();
    let files = scene.files();
    for path in ["~/x", "%2e%2e/x", "...", "-rf", "a\\b", "$HOME", "new\nline"] {
        assert_eq!(files.locate(path).unwrap().path, path);
        files.replace(path, b"plain", &Expected::Missing).unwrap();
        assert_eq!(files.read(path, LIMIT).unwrap().bytes, b"plain");
    }
}

#[test]
fn a_path_that_cannot_be_one_is_invalid() {
    let scene = Scene::new();
    symlink("b", scene.path("ws/a")).unwrap();
    symlink("a", scene.path("ws/b")).unwrap();
    let files = scene.files();
    for path in ["", "nul\0byte", &"a/".repeat(2100), &"n".repeat(300), "a", "b/c"] {
        let problem = files.locate(path).unwrap_err();
        assert!(matches!(problem, PathProblem::Invalid { .. }), "{problem}");
        assert!(!problem.to_string().contains('\0') && problem.to_string().len() < 600);
    }
    let through_file = files.read("ok.txt/x", LIMIT).unwrap_err().to_string();
    assert!(through_file.contains("a file, not a folder"), "{through_file}");
}

#[test]
fn paths_and_links_that_stay_inside_work_however_they_are_written() {
    let scene = Scene::new();
    symlink(scene.path("ws/sub/a.txt"), scene.path("ws/absolute")).unwrap();
    symlink("../sub/./a.txt", scene.path("ws/sub/up")).unwrap();
    symlink("sub", scene.path("ws/folder")).unwrap();
    symlink(scene.path("ws"), scene.path("alias")).unwrap();
    symlink(scene.path("alias/ok.txt"), scene.path("ws/by-alias")).unwrap();
    let files = open(&scene.path("alias"));
    assert_eq!(files.root(), scene.path("ws"));
    let real = scene.path("ws/sub/a.txt");
    let alias = scene.path("alias/sub/a.txt");
    for path in
        ["sub/a.txt", "./sub//a.txt", "sub/../sub/a.txt", "absolute", "sub/up", "folder/a.txt", "folder/../sub/up"]
            .into_iter()
            .chain([real.to_str().unwrap(), alias.to_str().unwrap()])
    {
        let landing = files.locate(path).unwrap();
        assert_eq!((landing.path.as_str(), landing.kind), ("sub/a.txt", FileKind::File), "{path}");
        let read = files.read(path, LIMIT).unwrap();
        assert_eq!((read.path.as_str(), read.bytes.as_slice()), ("sub/a.txt", &b"ws/sub/a.txt"[..]), "{path}");
        assert_eq!(read.digest, Digest::of("ws/sub/a.txt"));
    }
    assert_eq!(files.locate("by-alias").unwrap().path, "ok.txt");
    assert_eq!(files.locate(".").unwrap().path, ".");
    assert_eq!(files.locate(scene.path("alias").to_str().unwrap()).unwrap().kind, FileKind::Folder);
    assert_eq!(files.locate("none/deep.txt").unwrap().kind, FileKind::Missing);
    assert_eq!(files.locate("none/../ok.txt").unwrap().path, "ok.txt");
}

#[test]
fn only_regular_files_within_the_limit_are_read() {
    let scene = Scene::new();
    let files = scene.files();
    let fifo = std::process::Command::new("mkfifo").arg(scene.path("ws/fifo")).status().unwrap();
    assert!(fifo.success());
    assert!(files.read("sub", LIMIT).unwrap_err().to_string().contains("a folder"));
    assert!(files.read(".", LIMIT).unwrap_err().to_string().contains("a folder"));
    assert!(files.read("fifo", LIMIT).unwrap_err().to_string().contains("pipe"));
    assert_eq!(files.locate("fifo").unwrap().kind, FileKind::Special);
    assert_eq!(files.read("none", LIMIT).unwrap_err(), PathProblem::Missing("none".to_owned()));
    assert_eq!(files.read("none/none", LIMIT).unwrap_err(), PathProblem::Missing("none/none".to_owned()));
    let too_large = PathProblem::TooLarge { path: "ok.txt".to_owned(), bytes: 9, limit: 8 };
    assert_eq!(files.read("ok.txt", 8).unwrap_err(), too_large);
    assert_eq!(files.read("ok.txt", 9).unwrap().bytes, b"ws/ok.txt");
}

#[test]
fn the_private_tmp_is_read_and_never_written() {
    let scene = Scene::new();
    let tmp = folder_with(&["outputs/1.txt", "secret"]);
    symlink("/tmp/outputs/1.txt", tmp.path().join("inside")).unwrap();
    symlink("/etc/hostname", tmp.path().join("away")).unwrap();
    let root = scene.path("ws");
    let protection = Arc::new(Protection::new(&root, ProtectionConfig::default()).unwrap());
    let files = WorkspaceFiles::open(&root, Some(tmp.path().to_owned()), protection).unwrap();
    for path in ["/tmp/outputs/1.txt", "/tmp/inside", "/tmp//outputs/../outputs/1.txt"] {
        let read = files.read(path, LIMIT).unwrap();
        assert_eq!((read.path.as_str(), read.bytes.as_slice()), ("/tmp/outputs/1.txt", &b"outputs/1.txt"[..]));
    }
    assert_eq!(files.locate("/tmp").unwrap().path, "/tmp");
    for path in ["/tmp/away", "/tmp/../etc/hostname", "/tmpx/a"] {
        assert_eq!(files.read(path, LIMIT).unwrap_err(), PathProblem::Outside(path.to_owned()));
    }
    for refused in [
        files.replace("/tmp/new", b"x", &Expected::Missing),
        files.create("/tmp/new", b"x", 0o644),
        files.remove("/tmp/secret", &Digest::of("secret")),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, PathProblem::Protected { rule, .. } if rule.contains("bash")), "{refused}");
    }
    assert_eq!(names(tmp.path()), ["away", "inside", "outputs", "secret"]);
    // The workspace wins where it lies below /tmp itself.
    assert_eq!(files.read(root.join("ok.txt").to_str().unwrap(), LIMIT).unwrap().path, "ok.txt");
}

#[test]
fn a_protected_file_is_not_written_under_any_name() {
    let folder = folder_with(&["tests/test_a.py", "free.txt"]);
    let files = open_with(folder.path(), ProtectionConfig { tests: TestFiles::Guarded, ..Default::default() });
    symlink("tests/test_a.py", folder.path().join("link")).unwrap();
    symlink("tests", folder.path().join("folder")).unwrap();
    fs::hard_link(folder.path().join("tests/test_a.py"), folder.path().join("twin")).unwrap();
    let absolute = folder.path().join("tests/test_a.py");
    for path in
        ["tests/test_a.py", "tests/../tests/test_a.py", "link", "folder/test_a.py", "twin", absolute.to_str().unwrap()]
    {
        assert!(files.locate(path).unwrap().protected.is_some(), "{path}");
        let refused = files.replace(path, b"pass", &content("tests/test_a.py")).unwrap_err();
        assert!(matches!(refused, PathProblem::Protected { .. }), "{refused}");
        let refused = files.remove(path, &Digest::of("tests/test_a.py")).unwrap_err();
        assert!(matches!(refused, PathProblem::Protected { .. }), "{refused}");
    }
    for path in
        [".git/hooks/pre-commit", ".hames/config.toml", ".vscode/tasks.json", "conftest.py", "folder/conftest.py"]
    {
        let refused = files.replace(path, b"x", &Expected::Missing).unwrap_err();
        assert!(matches!(refused, PathProblem::Protected { .. }), "{refused}");
    }
    assert_eq!(names(folder.path()), ["folder", "free.txt", "link", "tests", "twin"]);
    assert_eq!(fs::read_to_string(absolute).unwrap(), "tests/test_a.py");
    files.replace("folder/test_b.py", b"new", &Expected::Missing).unwrap();
    files.replace(".hames/progress.md", b"new", &Expected::Missing).unwrap();
    assert_eq!(files.protected_files().unwrap(), ["tests/test_a.py"]);
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_links() {
    let folder = folder_with(&["run.sh", "secret.cfg", "docs/real.md"]);
    let root = folder.path();
    for (file, mode) in [("run.sh", 0o755), ("secret.cfg", 0o600), ("docs/real.md", 0o664)] {
        fs::set_permissions(root.join(file), Permissions::from_mode(mode)).unwrap();
    }
    symlink("docs/real.md", root.join("link.md")).unwrap();
    let files = open(root);
    for (path, lands, mode) in
        [("run.sh", "run.sh", 0o755), ("secret.cfg", "secret.cfg", 0o600), ("link.md", "docs/real.md", 0o664)]
    {
        let change = files.replace(path, b"new", &content(lands)).unwrap();
        assert_eq!((change.path.as_str(), change.change), (lands, ChangeKind::Modified));
        let read = files.read(path, LIMIT).unwrap();
        assert_eq!((read.bytes.as_slice(), read.mode), (&b"new"[..], mode), "{path}");
    }
    assert!(root.join("link.md").is_symlink());
    assert_eq!(names(root), ["docs", "link.md", "run.sh", "secret.cfg"]);
    assert_eq!(names(&root.join("docs")), ["real.md"]);
}

#[test]
fn a_removed_file_is_gone_and_accounted_for() {
    let folder = folder_with(&["a.txt", "run.sh", "docs/real.md", "other.txt"]);
    let root = folder.path();
    fs::set_permissions(root.join("run.sh"), Permissions::from_mode(0o755)).unwrap();
    symlink("docs/real.md", root.join("link.md")).unwrap();
    let files = open(root);
    files.begin().unwrap();
    for (path, lands) in [("a.txt", "a.txt"), ("run.sh", "run.sh"), ("link.md", "docs/real.md")] {
        let change = files.remove(path, &Digest::of(lands)).unwrap();
        assert_eq!((change.path.as_str(), change.change, change.after), (lands, ChangeKind::Deleted, None));
        assert_eq!(files.remove(path, &Digest::of(lands)).unwrap_err(), PathProblem::Missing(path.to_owned()));
    }
    assert_eq!(names(root), ["docs", "link.md", "other.txt"]);
    assert_eq!(names(&root.join("docs")), [""; 0]);
    assert!(root.join("link.md").is_symlink());
    assert_eq!(files.observe().unwrap(), []);
}

#[test]
fn what_is_not_as_expected_is_not_removed() {
    let folder = folder_with(&["a.txt", "twin", "ro.txt", "sub/a.txt"]);
    fs::hard_link(folder.path().join("twin"), folder.path().join("other")).unwrap();
    fs::set_permissions(folder.path().join("ro.txt"), Permissions::from_mode(0o444)).unwrap();
    let files = open(folder.path());
    let refusal = |path: &str, held: &str| files.remove(path, &Digest::of(held)).unwrap_err();
    assert_eq!(refusal("a.txt", "older"), PathProblem::Changed("a.txt".to_owned()));
    assert_eq!(refusal("none", ""), PathProblem::Missing("none".to_owned()));
    assert_eq!(refusal("none/none", ""), PathProblem::Missing("none/none".to_owned()));
    for (path, says) in
        [("twin", "2 names"), ("ro.txt", "read-only (mode 0444)"), ("sub", "a folder"), (".", "a folder")]
    {
        let refused = refusal(path, path).to_string();
        assert!(refused.contains(says), "{refused}");
    }
    assert_eq!(names(folder.path()), ["a.txt", "other", "ro.txt", "sub", "twin"]);
    assert_eq!(names(&folder.path().join("sub")), ["a.txt"]);
}

#[test]
fn a_file_can_be_created_with_the_permissions_of_another() {
    let folder = folder_with(&["taken"]);
    let files = open(folder.path());
    files.begin().unwrap();
    for (path, mode) in [("bin/run.sh", 0o755), ("secret.cfg", 0o600), ("shared", 0o666)] {
        let change = files.create(path, b"new", mode).unwrap();
        assert_eq!((change.path.as_str(), change.change), (path, ChangeKind::Added));
        assert_eq!(files.read(path, LIMIT).unwrap().mode, mode, "whatever the umask");
    }
    files.create("no-bits-beyond-permissions", b"new", 0o4755).unwrap();
    assert_eq!(files.read("no-bits-beyond-permissions", LIMIT).unwrap().mode, 0o755);
    assert_eq!(files.create("taken", b"new", 0o644).unwrap_err(), PathProblem::Changed("taken".to_owned()));
    assert_eq!(fs::read_to_string(folder.path().join("taken")).unwrap(), "taken");
    assert_eq!(files.observe().unwrap(), []);
}

#[test]
fn a_new_file_gets_its_folders_and_the_permissions_of_any_new_file() {
    let folder = folder_with(&["made-by-std"]);
    let files = open(folder.path());
    let usual = fs::metadata(folder.path().join("made-by-std")).unwrap().mode();
    let change = files.replace("a/b/new.txt", b"new", &Expected::Missing).unwrap();
    assert_eq!((change.path.as_str(), change.change, change.before), ("a/b/new.txt", ChangeKind::Added, None));
    assert_eq!(change.after, Some(Digest::of("new")));
    assert_eq!(fs::metadata(folder.path().join("a/b/new.txt")).unwrap().mode(), usual);
    symlink("a/later", folder.path().join("dangling")).unwrap();
    assert_eq!(files.replace("dangling", b"new", &Expected::Missing).unwrap().path, "a/later");
    assert_eq!(fs::read(folder.path().join("a/later")).unwrap(), b"new");
    assert!(folder.path().join("dangling").is_symlink());
}

#[test]
fn a_file_that_is_not_as_expected_is_left_alone() {
    let folder = folder_with(&["a.txt", "twin", "ro.txt"]);
    fs::hard_link(folder.path().join("twin"), folder.path().join("other")).unwrap();
    fs::set_permissions(folder.path().join("ro.txt"), Permissions::from_mode(0o444)).unwrap();
    let files = open(folder.path());
    let changed = |path: &str| PathProblem::Changed(path.to_owned());
    assert_eq!(files.replace("a.txt", b"new", &content("older")).unwrap_err(), changed("a.txt"));
    assert_eq!(files.replace("a.txt", b"new", &Expected::Missing).unwrap_err(), changed("a.txt"));
    let slash = files.replace("new/", b"new", &Expected::Missing).unwrap_err().to_string();
    assert!(slash.contains("a folder"), "{slash}");
    assert_eq!(files.replace("none", b"new", &content("older")).unwrap_err(), changed("none"));
    let linked = files.replace("twin", b"new", &content("twin")).unwrap_err().to_string();
    assert!(linked.contains("`twin`") && linked.contains("2 names"), "{linked}");
    let read_only = files.replace("ro.txt", b"new", &content("ro.txt")).unwrap_err().to_string();
    assert!(read_only.contains("read-only (mode 0444)"), "{read_only}");
    assert_eq!(names(folder.path()), ["a.txt", "other", "ro.txt", "twin"]);
    assert_eq!(fs::read_to_string(folder.path().join("other")).unwrap(), "twin");
}

#[test]
fn what_a_crash_left_of_a_write_is_never_a_change_and_is_removed_on_resumption() {
    let folder = folder_with(&["a.txt", "sub/.hames-write-notes"]);
    let files = open(folder.path());
    let manifest = files.begin().unwrap();
    put(folder.path(), "sub/.hames-write-0123456789abcdef", "half");
    assert_eq!(files.observe().unwrap(), []);
    files.adopt(&manifest, &[]).unwrap();
    assert_eq!(names(&folder.path().join("sub")), [".hames-write-notes"]);
}

#[test]
fn the_workspace_and_its_protection_must_be_the_same_folder() {
    let (one, other) = (folder_with(&[]), folder_with(&[]));
    let protection = Arc::new(Protection::new(one.path(), ProtectionConfig::default()).unwrap());
    let problem = WorkspaceFiles::open(other.path(), None, Arc::clone(&protection)).unwrap_err();
    assert!(matches!(problem, WorkspaceProblem::OtherRoot { .. }), "{problem}");
    let problem = WorkspaceFiles::open(&other.path().join("none"), None, protection).unwrap_err().to_string();
    assert!(problem.contains("none") && problem.contains("cannot be opened"), "{problem}");
}

/// Does `work` twenty thousand times while another thread swaps what two names mean, ten thousand times at least.
fn while_swapping(one: &Path, other: &Path, work: impl Fn(usize)) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let swapped = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                swapped.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Also when an assertion of `work` fails, or the scope would wait for ever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..).take_while(|round| *round < 20_000 || swapped.load(Ordering::Relaxed) < 10_000).for_each(work);
        }));
        done.store(true, Ordering::Relaxed);
        result.unwrap();
    });
}

#[test]
fn a_folder_that_keeps_turning_into_a_link_never_leads_out() {
    let scene = Scene::new();
    put(&scene.path("ws"), "flip/s.txt", "inside");
    let files = scene.files();
    while_swapping(&scene.path("ws/flip"), &scene.path("ws/l"), |round| {
        if let Ok(read) = files.read("flip/s.txt", LIMIT) {
            assert_eq!(read.bytes, b"inside");
        }
        // A write waits for the disk, so most rounds only read.
        if round % 256 > 0 {
            return;
        }
        let _ = files.replace("flip/s.txt", b"inside", &content("inside"));
        let _ = files.replace(&format!("flip/new-{round}"), b"inside", &Expected::Missing);
        let _ = files.replace(&format!("flip/new-folder-{round}/new"), b"inside", &Expected::Missing);
        let _ = files.remove("flip/s.txt", &Digest::of("out/s.txt"));
    });
    assert_eq!(scene.names_outside(), ["s.txt"]);
    assert_eq!(fs::read_to_string(scene.path("out/s.txt")).unwrap(), "out/s.txt");
}

#[test]
fn a_file_that_keeps_turning_into_a_link_is_never_read_or_written_outside() {
    let scene = Scene::new();
    let files = scene.files();
    let (file, link) = (scene.path("ws/ok.txt"), scene.path("ws/relative"));
    while_swapping(&file, &link, |_| {
        if let Ok(read) = files.read("ok.txt", LIMIT) {
            assert_eq!(read.bytes, b"ws/ok.txt");
        }
    });
    // A write may replace the link itself, after which there is nothing left to follow: it comes last.
    while_swapping(&file, &link, |round| {
        if round % 256 == 0 {
            let _ = files.replace("ok.txt", b"ws/ok.txt", &content("ws/ok.txt"));
        }
    });
    assert_eq!(fs::read_to_string(scene.path("out/s.txt")).unwrap(), "out/s.txt");
}
