//! Repositories that come into being during a session, with real git: they work, and nothing in them runs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use hames_protocol::Digest;
use hames_protocol::port::{Exit, Expected, Finished, PathProblem, Sandbox as _, Workspace as _};

use crate::open;
use crate::process::{World, run, runtime, shell, text};
use crate::process_protection::repository;

/// Git as the user has it, on the host.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap()
}

pub(crate) fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = git(folder, arguments);
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A line that leaves a canary outside the workspace when the host runs it.
fn canary(world: &World) -> String {
    format!("touch {}", world.outside().join("canary").display())
}

pub(crate) fn has_canary(world: &World) -> bool {
    world.outside().join("canary").exists()
}

/// What the user does in a folder after a run: everything that makes git run what settings and hooks name.
fn use_as_a_user(folder: &Path) {
    for arguments in [
        &["status"][..],
        &["diff"],
        &["log", "-p"],
        &["add", "-A"],
        &["commit", "-m", "by the user", "--allow-empty"],
        &["checkout", "-b", "another"],
        &["fetch", "--all"],
        &["st"],
    ] {
        git(folder, arguments);
    }
}

fn paths(finished: &Finished) -> Vec<&str> {
    finished.appeared.iter().filter(|one| one.is_new).map(|one| one.path.as_str()).collect()
}

fn set_aside(finished: &Finished) -> Vec<&str> {
    let all = finished.appeared.iter().flat_map(|one| &one.set_aside);
    all.map(|part| part.path.as_str()).collect()
}

#[test]
fn a_repository_made_in_good_faith_works_and_is_told() {
    let world = repository();
    let sandbox = world.sandbox();
    for (line, new) in [
        ("git init -q sub && cd sub && echo x > a && git add a && git commit -q -m one", vec!["sub/.git"]),
        ("git clone -q . copy", vec!["copy/.git"]),
        ("git init -q --bare plain.git && git push -q plain.git main", vec!["plain.git"]),
        ("git worktree add -q tree -b topic", vec![".git/worktrees/tree"]),
    ] {
        let finished = run(&sandbox, shell(line)).unwrap();
        assert_eq!(finished.exit, Exit::Code(0), "{line}: {}", text(&finished));
        assert_eq!(paths(&finished), new, "{line}: {:?}", finished.appeared);
        assert!(set_aside(&finished).is_empty(), "{line}: {:?}", finished.appeared);
        assert!(finished.attempts.is_empty(), "{line}: {:?}", finished.attempts);
    }
    let line = "cd sub && echo y > b && git add b && git commit -q -m two && git log --oneline | wc -l && cd ../copy &&
                git status --short && cd ../tree && echo z > c && git add c && git commit -q -m three && git branch";
    let finished = run(&sandbox, shell(line)).unwrap();
    assert_eq!(text(&finished), "2\n+ main\n* topic\n");
    assert!(finished.appeared.is_empty() && finished.attempts.is_empty(), "{finished:?}");
    assert_eq!(succeed(&world.root().join("sub"), &["log", "--format=%s"]), "two\none\n");
    assert_eq!(succeed(&world.root().join("plain.git"), &["log", "main", "--format=%s"]), "one\n");
}

#[test]
fn nothing_in_a_new_repository_runs_on_the_host() {
    for (name, line, parts) in [
        ("hook", "git init -q sub; hook sub/.git/hooks/pre-commit; hook sub/.git/hooks/post-checkout", 2),
        ("monitor", "git init -q sub; git -C sub config core.fsmonitor \"$RUN\"", 1),
        ("alias", "git init -q sub; git -C sub config alias.st \"!$RUN\"", 1),
        (
            "pager and editor",
            "git init -q sub; cd sub; git config core.pager \"$RUN\"; git config core.editor \"$RUN\"",
            1,
        ),
        (
            "filter",
            "git init -q sub; git -C sub config filter.x.clean \"$RUN\"; echo '* filter=x' > sub/.gitattributes; \
             echo > sub/f",
            1,
        ),
        (
            "hooks elsewhere",
            "git init -q sub; git -C sub config core.hooksPath ../evil; mkdir evil; hook evil/pre-commit",
            1,
        ),
        (
            "hooks by link",
            "git init -q sub; rm -rf sub/.git/hooks; ln -s ../../evil sub/.git/hooks; mkdir evil; \
             hook evil/pre-commit",
            1,
        ),
        (
            "included",
            "git init -q sub; git -C sub config include.path ../../more; git config -f more core.fsmonitor \"$RUN\"",
            1,
        ),
        ("written cunningly", "git init -q sub; printf '[core] fsmonitor = \"%s\"\\n' \"$RUN\" >> sub/.git/config", 1),
        (
            "settings by link",
            "git init -q sub; git config -f more core.fsmonitor \"$RUN\"; ln -sf ../../more sub/.git/config",
            1,
        ),
        (
            "no settings for all",
            "git init -q sub; git -C sub config core.fsmonitor \"$RUN\"; chmod 000 sub/.git/config",
            1,
        ),
        ("closed", "git init -q sub; git -C sub config core.fsmonitor \"$RUN\"; chmod 555 sub/.git", 1),
        (
            "bare",
            "git init -q --bare sub; git -C sub config core.fsmonitor \"$RUN\"; \
             git -C sub config core.worktree \"$PWD\"",
            1,
        ),
        (
            "a bare one put together by hand",
            "mkdir -p sub/objects sub/refs; echo ref: refs/heads/x > sub/HEAD; \
             git config -f sub/config core.worktree ..; git config -f sub/config core.fsmonitor \"$RUN\"",
            1,
        ),
        (
            "a common folder",
            "mkdir -p sub/.git evil/objects evil/refs; echo ref: refs/heads/x > sub/.git/HEAD; \
             echo ../../evil > sub/.git/commondir; git config -f evil/config core.fsmonitor \"$RUN\"",
            1,
        ),
        (
            "a pointer that is easily misread",
            "mkdir -p 'sub/ ..'; git init -q --bare '.git/objects/evil'; \
             git -C .git/objects/evil config core.fsmonitor \"$RUN\"; \
             git -C .git/objects/evil config --unset core.bare; ln -s ../../.git/objects 'sub/ ../o'; \
             git init -q --bare o/evil; echo 'gitdir:  ../o/evil' > sub/.git",
            1,
        ),
        (
            "a pointer to where nobody looks",
            "mkdir sub; git init -q --bare .git/objects/evil; \
             git -C .git/objects/evil config core.fsmonitor \"$RUN\"; \
             git -C .git/objects/evil config --unset core.bare; echo gitdir: ../.git/objects/evil > sub/.git",
            1,
        ),
        (
            "in an ignored folder",
            "echo node_modules > .gitignore; git init -q node_modules/sub; ln -s node_modules/sub sub; \
             git -C sub config core.fsmonitor \"$RUN\"",
            1,
        ),
        (
            "as part of the index",
            "git init -q sub; cd sub; echo x > a; git add a; git commit -q -m one; \
             git config core.fsmonitor \"$RUN\"; cd ..; git add sub",
            1,
        ),
    ] {
        let world = repository();
        let run_it = canary(&world);
        let prelude = format!("RUN='{run_it}'; hook() {{ printf '#!/bin/sh\\n%s\\n' \"$RUN\" > $1; chmod +x $1; }}; ");
        let sandbox = world.sandbox();
        let finished = run(&sandbox, shell(&format!("{prelude}{line}"))).unwrap();
        assert!(!finished.appeared.is_empty(), "{name}: {}", text(&finished));
        assert_eq!(set_aside(&finished).len(), parts, "{name}: {:?}", finished.appeared);
        for part in finished.appeared.iter().flat_map(|one| &one.set_aside) {
            assert!(world.root().join(&part.kept).symlink_metadata().is_ok(), "{name}: {part}");
        }
        use_as_a_user(&world.root().join("sub"));
        use_as_a_user(&world.root());
        assert!(!has_canary(&world), "{name}");
    }
}

#[test]
fn settings_without_what_runs_programs_stay_in_force() {
    let world = repository();
    let line = "git init -q sub; cd sub; git config user.name Someone; git config core.fsmonitor ./x;
                git remote add origin ../else; git config core.autocrlf input";
    let finished = world.bash(line);
    assert_eq!(set_aside(&finished), ["sub/.git/config"]);
    let part = &finished.appeared[0].set_aside[0];
    assert!(part.why.contains("`core.fsmonitor`") && !part.why.contains("user.name"), "{part}");
    assert_eq!(part.kept, "sub/.git/config.quarantined");
    let sub = world.root().join("sub");
    assert!(fs::read_to_string(sub.join(".git/config.quarantined")).unwrap().contains("fsmonitor = ./x"));
    for (key, value) in [("user.name", "Someone\n"), ("remote.origin.url", "../else\n"), ("core.autocrlf", "input\n")] {
        let output = Command::new("git").args(["config", "--local", key]).current_dir(&sub).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), value, "{key}");
    }
    assert_eq!(succeed(&sub, &["rev-parse", "--is-bare-repository"]), "false\n");
}

#[test]
fn settings_added_to_a_repository_that_was_there_are_set_aside() {
    let world = repository();
    succeed(&world.root(), &["config", "extensions.worktreeConfig", "true"]);
    let run_it = canary(&world);
    let sandbox = world.sandbox();
    let line = format!("git config -f .git/config.worktree core.fsmonitor '{run_it}'");
    let finished = run(&sandbox, shell(&line)).unwrap();
    assert_eq!(set_aside(&finished), [".git/config.worktree"], "{finished:?}");
    let line = format!(
        "mkdir -p evil/objects evil/refs; git config -f evil/config core.fsmonitor '{run_it}'; \
         echo ../evil > .git/commondir"
    );
    let finished = run(&sandbox, shell(&line)).unwrap();
    assert_eq!(set_aside(&finished), [".git/commondir"], "{finished:?}");
    use_as_a_user(&world.root());
    assert!(!has_canary(&world));
    assert_eq!(succeed(&world.root(), &["log", "-1", "--format=%s"]), "by the user\n");
}

#[test]
fn what_the_user_makes_meanwhile_stays_as_it_is() {
    let world = repository();
    let sandbox = world.sandbox();
    run(&sandbox, shell("true")).unwrap();
    succeed(&world.root(), &["init", "-q", "mine"]);
    let hook = world.root().join("mine/.git/hooks/pre-commit");
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    succeed(&world.root().join("mine"), &["config", "core.editor", "vim"]);
    let finished = run(&sandbox, shell("echo x > mine/a; echo x > mine/.git/hooks/pre-push")).unwrap();
    assert!(finished.appeared.is_empty(), "{:?}", finished.appeared);
    assert!(hook.exists() && !world.root().join("mine/.git/hooks/pre-push").exists());
    assert_eq!(succeed(&world.root().join("mine"), &["config", "core.editor"]), "vim\n");
}

#[test]
fn what_was_made_before_a_crash_is_looked_at_when_the_session_is_taken_up() {
    let world = repository();
    let sandbox = world.sandbox();
    let note = world.state().join("repositories");
    let kept = runtime().block_on(async {
        let running = sandbox.run(shell("sleep 300"), &|_| {});
        let crash = async {
            while !note.exists() || fs::read(&note).unwrap().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            fs::read(&note).unwrap()
        };
        tokio::select! { _ = running => panic!("it ended"), kept = crash => kept }
    });
    assert!(!note.exists(), "nothing is noted when no command runs");
    drop(sandbox);
    succeed(&world.root(), &["init", "-q", "sub"]);
    succeed(&world.root().join("sub"), &["config", "core.fsmonitor", &canary(&world)]);
    fs::write(&note, kept).unwrap();
    let sandbox = world.sandbox();
    use_as_a_user(&world.root().join("sub"));
    assert!(!has_canary(&world));
    let finished = run(&sandbox, shell("true")).unwrap();
    assert_eq!(set_aside(&finished), ["sub/.git/config"]);
    assert!(run(&sandbox, shell("true")).unwrap().appeared.is_empty());
}

#[test]
fn what_a_command_makes_beside_another_is_looked_at_until_both_are_over() {
    let world = repository();
    let sandbox = world.sandbox();
    let line = format!("git init -q sub; sleep 1; git -C sub config core.fsmonitor '{}'", canary(&world));
    let (first, second) = runtime().block_on(async {
        let beside = async {
            while !world.root().join("sub/.git/config").exists() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            sandbox.run(shell("true"), &|_| {}).await.unwrap()
        };
        let (first, second) = tokio::join!(sandbox.run(shell(&line), &|_| {}), beside);
        (first.unwrap(), second)
    });
    assert!(set_aside(&second).is_empty());
    assert_eq!(set_aside(&first), ["sub/.git/config"], "{first:?}");
    use_as_a_user(&world.root().join("sub"));
    assert!(!has_canary(&world));
}

#[test]
fn who_leaves_a_path_open_keeps_what_comes_there() {
    let mut world = repository();
    world.protect.unprotect = vec!["/sub/".to_owned()];
    let finished =
        world.bash("git init -q sub; git -C sub config core.fsmonitor ./x; echo > sub/.git/hooks/pre-commit");
    assert!(set_aside(&finished).is_empty(), "{:?}", finished.appeared);
    assert!(world.root().join("sub/.git/hooks/pre-commit").exists());
}

#[test]
fn file_tools_put_no_repository_together() {
    let world = repository();
    let workspace = open(&world.root());
    let write = |path: &str| workspace.replace(path, b"x", &Expected::Missing);
    for path in ["sub/config", "sub/objects/a", "sub/refs/a", "other/HEAD", "third/HEAD", "third/objects/a"] {
        write(path).unwrap();
    }
    for path in ["sub/HEAD", "other/commondir", "third/refs/heads/x", "sub/.git/hooks/x", ".GIT/config", "sub/.git"] {
        let refused = write(path).unwrap_err();
        assert!(matches!(refused, PathProblem::Protected { .. }), "{path}: {refused}");
        assert!(workspace.locate(path).unwrap().protected.is_some(), "{path}");
        assert!(!world.root().join(path).exists(), "{path}");
    }
    let changed = workspace.replace("other/HEAD", b"y", &Expected::Content(Digest::of("x")));
    assert!(changed.is_ok(), "{changed:?}");
}
