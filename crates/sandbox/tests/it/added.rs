//! Folders added to the workspace: reached by file tools and commands alike, and no further than was said.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use hames_protocol::port::*;
use hames_protocol::{ChangeKind, Digest};
use hames_sandbox::{AddedFolders, Mode, Protection, ProtectionConfig, WorkspaceFiles};

use crate::process::{World, run, shell, text};
use crate::put;

const LIMIT: u64 = 1_000;

/// A workspace beside a folder `lib` to be read, a folder `out` to be changed, and one that was not added.
fn world() -> World {
    let mut world = World::with(&[("a.txt", "a")]);
    let outside = world.outside();
    for file in ["lib/l.txt", "out/o.txt", "out/.git/HEAD", "out/.git/hooks/x", "out/.git/config", "other/secret"] {
        put(&outside, file, file);
    }
    let protection = Protection::new(&outside.join("out"), ProtectionConfig::default()).unwrap();
    world.added = AddedFolders { read_only: vec![outside.join("lib")], writable: vec![Arc::new(protection)] };
    world
}

fn files(world: &World) -> WorkspaceFiles {
    files_with(world, None)
}

fn files_with(world: &World, tmp: Option<PathBuf>) -> WorkspaceFiles {
    let protection = Arc::new(Protection::new(&world.root(), ProtectionConfig::default()).unwrap());
    WorkspaceFiles::open(&world.root(), tmp, protection).unwrap().with_folders(&world.added).unwrap()
}

fn shown(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_added_folder_is_reached_by_whole_paths_and_changed_only_where_that_was_said() {
    let world = world();
    let files = files(&world);
    let at = |path: &str| shown(world.outside().join(path));
    assert_eq!(files.read(&at("lib/l.txt"), LIMIT).unwrap().path, at("lib/l.txt"));
    assert_eq!(files.locate(&at("lib")).unwrap().kind, FileKind::Folder);
    assert_eq!(files.added(), [world.outside().join("lib"), world.outside().join("out")]);
    for refused in [
        files.replace(&at("lib/l.txt"), b"x", &Expected::Content(Digest::of("lib/l.txt"))),
        files.create(&at("lib/new"), b"x", 0o644),
        files.remove(&at("lib/l.txt"), &Digest::of("lib/l.txt")),
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("added to be read only"), "{refused}");
    }
    assert!(files.locate(&at("lib/new")).unwrap().protected.is_some());
    let change = files.replace(&at("out/o.txt"), b"new", &Expected::Content(Digest::of("out/o.txt"))).unwrap();
    assert_eq!((change.path, change.change), (at("out/o.txt"), ChangeKind::Modified));
    assert_eq!(files.create(&at("out/d/n"), b"n", 0o600).unwrap().path, at("out/d/n"));
    assert_eq!(files.remove(&at("out/d/n"), &Digest::of("n")).unwrap().path, at("out/d/n"));
    for path in ["out/.git/hooks/x", "out/.git/hooks/pre-commit", "out/.git/config", "out/.envrc", "out/.vscode/t.json"]
    {
        let refused = files.create(&at(path), b"x", 0o755).unwrap_err();
        assert!(matches!(refused, PathProblem::Protected { .. }), "{path}: {refused}");
    }
    for path in ["other/secret", "lib/../other/secret", "libx", "lib/../lib/../../etc/passwd"] {
        assert_eq!(files.read(&at(path), LIMIT).unwrap_err(), PathProblem::Outside(at(path)));
    }
}

#[test]
fn a_link_leads_from_one_folder_to_another_and_nowhere_else() {
    let world = world();
    let at = |path: &str| shown(world.outside().join(path));
    let link = |target: &str, path: &str| symlink(target, world.outside().join(path)).unwrap();
    link(&at("lib/l.txt"), "ws/absolute");
    link("../lib", "ws/relative");
    link(&at("ws/a.txt"), "lib/back");
    link("../out", "lib/onward");
    link(&at("other/secret"), "lib/away");
    link("../other", "out/away");
    link("../none", "ws/none");
    link(&at("lib/round"), "ws/round");
    link(&at("ws/round"), "lib/round");
    let files = files(&world);
    let lands = |path: &str| files.locate(path).map(|landing| landing.path);
    assert_eq!(lands("absolute"), Ok(at("lib/l.txt")));
    assert_eq!(lands("relative/l.txt"), Ok(at("lib/l.txt")));
    assert_eq!(lands(&at("lib/back")), Ok("a.txt".to_owned()));
    assert_eq!(lands("relative/onward/o.txt"), Ok(at("out/o.txt")));
    // Where the workspace lies beneath /tmp, so does this; the session's private folder is not meant by it.
    let with_tmp = files_with(&world, Some(world.outside().join("out")));
    for path in ["none", "../none"] {
        assert_eq!(with_tmp.locate(path), Err(PathProblem::Outside(path.to_owned())));
    }
    for path in [at("lib/away"), at("out/away/secret"), "relative/away".to_owned(), "relative/../other".to_owned()] {
        assert_eq!(lands(&path), Err(PathProblem::Outside(path)));
    }
    assert!(matches!(lands("round"), Err(PathProblem::Invalid { .. })));
    // What holds is what holds where the path lands.
    assert!(files.locate("absolute").unwrap().protected.is_some());
    assert!(files.locate(&at("lib/back")).unwrap().protected.is_none());
    assert!(files.locate("relative/onward/.git/hooks/x").unwrap().protected.is_some());
    let refused = files.replace("absolute", b"x", &Expected::Missing).unwrap_err().to_string();
    assert!(refused.contains("read only"), "{refused}");
}

#[test]
fn what_commands_change_in_an_added_folder_is_observed_also_after_a_restart() {
    let world = world();
    let at = |path: &str| shown(world.outside().join(path));
    let before = files(&world);
    let kept = before.begin().unwrap();
    assert_eq!(before.observe().unwrap(), []);
    let line =
        format!("echo 1 > {}; echo 2 > {}; echo 3 > b.txt; cat {}", at("out/o.txt"), at("out/n.txt"), at("lib/l.txt"));
    let finished = world.bash(&line);
    assert_eq!((finished.exit, text(&finished).as_str()), (Exit::Code(0), "lib/l.txt"));
    let names = |changes: &[hames_protocol::FileChange]| {
        changes.iter().map(|change| (change.path.clone(), change.change)).collect::<Vec<_>>()
    };
    let expected = [
        ("b.txt".to_owned(), ChangeKind::Added),
        (at("out/n.txt"), ChangeKind::Added),
        (at("out/o.txt"), ChangeKind::Modified),
    ];
    let seen = before.observe().unwrap();
    assert_eq!(names(&seen), expected);
    let after = files(&world);
    after.adopt(&kept, &[]).unwrap();
    assert_eq!(names(&after.observe().unwrap()), expected);
    let after = files(&world);
    after.adopt(&kept, &seen).unwrap();
    assert_eq!(after.observe().unwrap(), []);
}

#[test]
fn a_folder_added_to_be_read_withstands_a_command_and_neither_leaves_its_neighbour_open() {
    let world = world();
    let at = |path: &str| shown(world.outside().join(path));
    let line = format!(
        "touch {}; rm -f {}; mv {} {}; cat {}",
        at("lib/new"),
        at("lib/l.txt"),
        at("lib"),
        at("gone"),
        at("other/secret")
    );
    let finished = world.bash(&line);
    assert_ne!(finished.exit, Exit::Code(0));
    assert!(!text(&finished).contains("other/secret\n"), "{}", text(&finished));
    assert_eq!(fs::read_to_string(world.outside().join("lib/l.txt")).unwrap(), "lib/l.txt");
    assert!(!world.outside().join("lib/new").exists());
}

#[test]
fn settings_in_an_added_folder_withstand_a_command_and_the_attempts_are_told() {
    let world = world();
    let out = world.outside().join("out");
    let line = format!(
        "cd {}; echo evil > .git/hooks/x; echo evil > .git/hooks/post-commit; mv .git .git2; echo evil > .envrc; mkdir -p \
         .vscode/a; echo fine > .git/index",
        out.display()
    );
    let finished = world.bash(&line);
    assert_eq!(fs::read_to_string(out.join(".git/hooks/x")).unwrap(), "out/.git/hooks/x");
    assert_eq!(fs::read_to_string(out.join(".git/index")).unwrap(), "fine\n");
    assert!(!out.join(".git/hooks/post-commit").exists() && !out.join(".git2").exists());
    // What kept these from being made is gone again.
    assert!(!out.join(".envrc").exists() && !out.join(".vscode").exists());
    let tried: Vec<&str> = finished.attempts.iter().map(|attempt| attempt.path.as_str()).collect();
    for path in [".git/hooks/x", ".git/hooks/post-commit", ".git", ".envrc"] {
        assert!(tried.contains(&shown(out.join(path)).as_str()), "{path}: {tried:?}");
    }
}

#[test]
fn a_check_and_a_read_only_sandbox_change_nothing_in_an_added_folder() {
    let mut world = world();
    let file = world.outside().join("out/o.txt");
    let line = format!("echo x > {}", file.display());
    let mut check = shell(&line);
    check.view.added = AddedView::ReadOnly;
    assert_ne!(run(&world.sandbox(), check).unwrap().exit, Exit::Code(0));
    world.mode = Mode::ReadOnly;
    assert_ne!(world.bash(&line).exit, Exit::Code(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "out/o.txt");
    assert_eq!(text(&world.bash(&format!("cat {}", file.display()))), "out/o.txt");
    world.mode = Mode::WorkspaceWrite;
    assert_eq!(world.bash(&line).exit, Exit::Code(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "x\n");
}
