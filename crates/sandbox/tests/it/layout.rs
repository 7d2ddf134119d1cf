//! Every layout of repository and every kind of path that a workspace can have, with real git in the real sandbox.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hames_protocol::port::{CommandSpec, Exit, Expected, Finished, Sandbox as _, View, Workspace as _};
use hames_sandbox::{Bubblewrap, Mode, Protection, ProtectionConfig, SandboxConfig, WorkspaceFiles};

use crate::process::{World, run, runtime, shell, text};
use crate::repository::{git, has_canary, succeed};

/// A sandbox and the file tools for a workspace anywhere in the world's folder.
struct Place {
    sandbox: Bubblewrap,
    files: WorkspaceFiles,
}

impl Place {
    fn at(world: &World, root: &Path, mode: Mode) -> Self {
        let config = ProtectionConfig { protect: vec!["/keep".to_owned()], ..ProtectionConfig::default() };
        let protection = Arc::new(Protection::new(root, config).unwrap());
        let files = WorkspaceFiles::open(root, None, Arc::clone(&protection)).unwrap();
        let sandbox =
            Bubblewrap::new(SandboxConfig { root: root.to_owned(), mode, protection, ..world.config() }).unwrap();
        Self { sandbox, files }
    }

    fn bash(&self, line: &str) -> Finished {
        run(&self.sandbox, shell(line)).unwrap()
    }
}

/// A repository with one commit in a folder of the world beside its workspace.
fn made(world: &World, name: &str) -> PathBuf {
    let root = world.outside().join(name);
    fs::create_dir(&root).unwrap();
    succeed(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join("a"), "one\n").unwrap();
    succeed(&root, &["add", "-A"]);
    succeed(&root, &["commit", "-q", "-m", "one"]);
    root
}

/// Edits a file, looks at it with git, and commits.
fn work(place: &Place) {
    let content = place.files.read("a", 100).unwrap();
    place.files.replace("a", b"two\n", &Expected::Content(content.digest)).unwrap();
    let finished = place.bash(
        "git status --short && git diff --stat | tail -1 && git log --format=%s && git commit -q -a -m two && \
         git checkout -q -b topic && git stash list && git status --short && git log -1 --format=%s",
    );
    let expected = " M a\n 1 file changed, 1 insertion(+), 1 deletion(-)\none\ntwo\n";
    assert_eq!(text(&finished), expected, "{finished:?}");
    assert!(finished.attempts.is_empty() && finished.appeared.is_empty(), "{finished:?}");
}

#[test]
fn a_linked_worktree_is_worked_in_like_any_other_and_the_rest_of_its_repository_stays_read_only() {
    let world = World::new();
    let main = made(&world, "main");
    let root = world.outside().join("linked");
    succeed(&main, &["worktree", "add", "-q", root.to_str().unwrap(), "-b", "side"]);
    let other = world.outside().join("other");
    succeed(&main, &["worktree", "add", "-q", other.to_str().unwrap(), "-b", "third"]);
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    work(&place);
    assert_eq!(succeed(&main, &["log", "topic", "--format=%s"]), "two\none\n");
    let git_folder = main.join(".git");
    let seen = |folder: &Path| fs::read_to_string(folder).unwrap();
    let before = (seen(&git_folder.join("config")), seen(&git_folder.join("HEAD")));
    for line in [
        "echo x > $(git rev-parse --git-common-dir)/hooks/pre-commit",
        "git config core.fsmonitor x",
        "echo x >> $(git rev-parse --git-common-dir)/HEAD",
        "echo x > $(git rev-parse --git-dir)/commondir",
        "rm $(git rev-parse --git-common-dir)/index",
        "mv $(git rev-parse --git-common-dir)/worktrees/other/HEAD $(git rev-parse --git-dir)/x",
        "rm -rf $(git rev-parse --git-common-dir)/worktrees/other",
        "echo x > .git",
        "mv $(git rev-parse --git-dir) $(git rev-parse --git-dir)2",
    ] {
        let finished = place.bash(line);
        assert!(finished.exit != Exit::Code(0) && finished.appeared.is_empty(), "{line}: {finished:?}");
    }
    assert_eq!(before, (seen(&git_folder.join("config")), seen(&git_folder.join("HEAD"))));
    assert!(!git_folder.join("hooks/pre-commit").exists());
    assert_eq!(succeed(&other, &["log", "--format=%s"]), "one\n");
    let finished =
        place.bash("git checkout -q side && git branch -q -D topic 2>/tmp/said && git pack-refs --all && git branch");
    assert_eq!(text(&finished), "+ main\n* side\n+ third\n");
    // Settings that were not there are looked at like those of a new repository.
    succeed(&main, &["config", "extensions.worktreeConfig", "true"]);
    let canary = world.outside().join("canary");
    let line =
        format!("git config -f $(git rev-parse --git-dir)/config.worktree core.fsmonitor 'touch {}'", canary.display());
    let finished = place.bash(&line);
    assert_eq!(finished.appeared.iter().map(|one| one.set_aside.len()).sum::<usize>(), 1, "{finished:?}");
    git(&root, &["status"]);
    assert!(!has_canary(&world));
}

#[test]
fn a_submodule_is_worked_in_like_any_other_and_its_settings_stay_read_only() {
    let world = World::new();
    let library = made(&world, "library");
    let above = made(&world, "above");
    succeed(&above, &["submodule", "add", "-q", library.to_str().unwrap(), "deep/sub"]);
    succeed(&above, &["commit", "-q", "-m", "sub"]);
    let root = above.join("deep/sub");
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    work(&place);
    let git_folder = above.join(".git/modules/deep/sub");
    let before = fs::read_to_string(git_folder.join("config")).unwrap();
    for line in [
        "echo x > $(git rev-parse --git-dir)/hooks/pre-commit",
        "git config core.fsmonitor x",
        "rm $(git rev-parse --git-dir)/config",
        "echo x > $(git rev-parse --git-dir)/../../../config",
    ] {
        assert_ne!(place.bash(line).exit, Exit::Code(0), "{line}");
    }
    assert_eq!(before, fs::read_to_string(git_folder.join("config")).unwrap());
    assert_eq!(succeed(&root, &["log", "-1", "--format=%s"]), "two\n");
}

#[test]
fn a_workspace_with_submodules_is_worked_in_with_them() {
    let world = World::new();
    let library = made(&world, "library");
    let root = made(&world, "above");
    succeed(&root, &["submodule", "add", "-q", library.to_str().unwrap(), "sub"]);
    succeed(&root, &["commit", "-q", "-m", "sub"]);
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let line = "cd sub && echo two > a && git commit -q -a -m two && cd .. && git status --short && git add sub &&
                git commit -q -m three && git submodule status | cut -c1,42-";
    let finished = place.bash(line);
    assert!(text(&finished).starts_with(" M sub\n"), "{finished:?}");
    assert!(finished.exit == Exit::Code(0) && finished.appeared.is_empty(), "{finished:?}");
    for line in
        ["git -C sub config core.fsmonitor x", "echo x > .git/modules/sub/hooks/pre-commit", "echo x > sub/.git"]
    {
        assert_ne!(place.bash(line).exit, Exit::Code(0), "{line}");
    }
}

#[test]
fn a_repository_elsewhere_that_does_not_name_the_workspace_is_not_shown() {
    let world = World::new();
    let main = made(&world, "main");
    let root = world.root();
    fs::write(root.join(".git"), format!("gitdir: {}\n", main.join(".git").display())).unwrap();
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let line = format!("git log; ls {0}/.git {0}/a", main.display());
    let finished = place.bash(&line);
    assert_ne!(finished.exit, Exit::Code(0));
    assert!(!text(&finished).contains("one"), "{}", text(&finished));
    // Nor one that names another worktree.
    let linked = world.outside().join("linked");
    succeed(&main, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    fs::copy(linked.join(".git"), root.join(".git")).unwrap();
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    assert_ne!(place.bash("git log").exit, Exit::Code(0));
}

#[test]
fn a_bare_repository_is_a_workspace_too() {
    let world = World::new();
    let main = made(&world, "main");
    succeed(&world.outside(), &["clone", "-q", "--bare", "main", "plain.git"]);
    let root = world.outside().join("plain.git");
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let finished = place.bash("git log --format=%s && git branch topic && git branch");
    assert_eq!(text(&finished), "one\n* main\n  topic\n", "{finished:?}");
    for line in ["git config core.fsmonitor x", "echo x > hooks/pre-receive", "mv hooks h2"] {
        assert_ne!(place.bash(line).exit, Exit::Code(0), "{line}");
    }
    for path in ["hooks/pre-receive", "config", "info/attributes"] {
        assert!(place.files.locate(path).unwrap().protected.is_some(), "{path}");
    }
    drop(main);
}

#[test]
fn without_git_everything_works_and_a_first_repository_is_protected_from_then_on() {
    let world = World::with(&[("a", "one\n")]);
    let root = world.root();
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let finished =
        place.bash("git status; git init -q -b main && git add -A && git commit -q -m one && git log --format=%s");
    assert!(text(&finished).ends_with("one\n"), "{finished:?}");
    assert_eq!(finished.appeared.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), [".git"]);
    work(&place);
    for line in ["git config core.fsmonitor x", "echo x > .git/hooks/pre-commit", "rm -rf .git"] {
        assert_ne!(place.bash(line).exit, Exit::Code(0), "{line}");
    }
}

#[test]
fn in_a_read_only_sandbox_a_worktree_can_be_looked_at() {
    let world = World::new();
    let main = made(&world, "main");
    let root = world.outside().join("linked");
    succeed(&main, &["worktree", "add", "-q", root.to_str().unwrap()]);
    let place = Place::at(&world, &root, Mode::ReadOnly);
    let finished = place.bash("git log --format=%s && git status --short && git commit --allow-empty -m two");
    assert!(text(&finished).starts_with("one\n") && finished.exit != Exit::Code(0), "{finished:?}");
    // Where the untouched copy stands in, the repository is not to be written to either.
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let copy = world.outside().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(root.join(".git"), copy.join(".git")).unwrap();
    let view = View { stand_in: Some(copy), ..View::default() };
    let command = CommandSpec { view, ..shell("git log --format=%s && git commit --allow-empty -m two") };
    let finished = runtime().block_on(place.sandbox.run(command, &|_| {})).unwrap();
    assert!(text(&finished).starts_with("one\n") && finished.exit != Exit::Code(0), "{finished:?}");
}

#[test]
fn a_workspace_may_have_any_path() {
    let long = format!("{}/{}", "l".repeat(200), "m".repeat(200));
    for name in [
        "with space",
        " lead and trail ",
        "it's \"quoted\" $HOME `x` \\ *?[a]",
        "line\nbreak",
        "-rf",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{65e5}\u{672c}/\u{1f600}",
        "a:b",
        "#{x}%20",
        &long,
    ] {
        let world = World::new();
        let root = world.outside().join(name);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("a"), "one\n").unwrap();
        fs::write(root.join("keep"), "kept\n").unwrap();
        succeed(&root, &["init", "-q", "-b", "main"]);
        succeed(&root, &["add", "-A"]);
        succeed(&root, &["commit", "-q", "-m", "one"]);
        let place = Place::at(&world, &root, Mode::WorkspaceWrite);
        work(&place);
        let inside = root.join("a");
        assert_eq!(place.files.read(inside.to_str().unwrap(), 100).unwrap().bytes, b"two\n", "{name:?}");
        let finished = place.bash("echo x > keep; echo x > .git/hooks/pre-commit; echo x > .envrc; cat keep");
        assert!(text(&finished).ends_with("kept\n"), "{name:?}: {finished:?}");
        assert_eq!(finished.attempts.len(), 3, "{name:?}: {finished:?}");
        assert!(place.files.replace("keep", b"x", &Expected::Missing).is_err(), "{name:?}");
        let finished = place.bash("git init -q sub && git -C sub config core.fsmonitor x && pwd");
        assert_eq!(text(&finished), format!("{}\n", root.display()), "{name:?}");
        assert_eq!(finished.appeared[0].set_aside[0].path, "sub/.git/config", "{name:?}");
        assert_eq!(fs::read_to_string(root.join("keep")).unwrap(), "kept\n", "{name:?}");
    }
}

#[test]
fn names_in_the_workspace_may_be_anything_as_well() {
    let world = World::new();
    let place = Place::at(&world, &world.root(), Mode::WorkspaceWrite);
    for name in ["sp ace", "caf\u{e9}", "cafe\u{301}", "-n", "new\nline", "quo'te\"", "$(x)", "\u{202e}txt", "tab\t"] {
        place.files.replace(name, b"one", &Expected::Missing).unwrap();
        let quoted = format!("'{}'", name.replace('\'', "'\\''"));
        let finished = place.bash(&format!(
            "cat -- {quoted}; rm -- {quoted}; git init -q -- ./{quoted}; git -C ./{quoted} config core.pager x"
        ));
        assert!(text(&finished).starts_with("one"), "{name:?}: {finished:?}");
        assert_eq!(finished.appeared[0].set_aside[0].path, format!("{name}/.git/config"), "{finished:?}");
        assert!(
            fs::read_to_string(world.root().join(name).join(".git/config")).is_ok_and(|text| !text.contains("pager"))
        );
    }
}

#[test]
fn a_workspace_may_be_given_through_a_link_and_lie_below_any_folder_for_temporary_files() {
    let world = World::with(&[("a", "one\n"), ("keep", "kept\n")]);
    let link = world.outside().join("link");
    symlink(world.root(), &link).unwrap();
    let in_var = tempfile::Builder::new().prefix("hames-").tempdir_in("/var/tmp").unwrap();
    fs::write(in_var.path().join("a"), "one\n").unwrap();
    fs::write(in_var.path().join("keep"), "kept\n").unwrap();
    let private = format!("hames-layout-{}", std::process::id());
    for root in [link, in_var.path().to_owned()] {
        let place = Place::at(&world, &root, Mode::WorkspaceWrite);
        let content = place.files.read(root.join("a").to_str().unwrap(), 100).unwrap();
        place.files.replace(root.join("a").to_str().unwrap(), b"two\n", &Expected::Content(content.digest)).unwrap();
        let finished = place.bash(&format!(
            "cat a; echo three > a; echo x > keep; echo x > /tmp/{private}; echo x > /var/tmp/{private}"
        ));
        assert!(text(&finished).starts_with("two\n"), "{finished:?}");
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "three\n");
        assert_eq!(fs::read_to_string(root.join("keep")).unwrap(), "kept\n");
        assert_eq!(finished.attempts.len(), 1, "{finished:?}");
    }
    assert!(!Path::new("/tmp").join(&private).exists() && !Path::new("/var/tmp").join(&private).exists());
}

#[test]
fn a_repository_of_another_user_is_worked_in() {
    let world = World::new();
    let root = made(&world, "main");
    succeed(&world.outside(), &["clone", "-q", "--bare", "main", root.join("plain.git").to_str().unwrap()]);
    // Only root can give files away; for everyone else they stay who runs this.
    let _ = std::process::Command::new("chown").args(["-R", "1234:1234"]).arg(&root).output().unwrap();
    let place = Place::at(&world, &root, Mode::WorkspaceWrite);
    let finished =
        place.bash("git log --format=%s && git clone -q plain.git /tmp/copy && git -C /tmp/copy log --format=%s");
    assert_eq!(text(&finished), "one\none\n", "{finished:?}");
}
