//! Protected paths cannot be changed by any command, whether they exist yet or not; everything else can.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use hames_protocol::port::{Attempt, CommandSpec, Exit, Sandbox};

use crate::process::{World, path_exists, run, runtime, shell, text};

const TEST: &str = "import unittest\n";

/// A git repository with a source file and a test.
pub(crate) fn repository() -> World {
    let world = World::with(&[("src/price.py", "price = 1\n"), ("tests/test_price.py", TEST)]);
    let line = "git init -q -b main && git add -A && git -c user.name=T -c user.email=t@example.org commit -q -m one";
    let made = Command::new("sh").args(["-c", line]).current_dir(world.root()).status().unwrap();
    assert!(made.success());
    world
}

/// Every path of the workspace outside git's objects.
fn listing(world: &World) -> BTreeSet<String> {
    let root = world.root();
    let mut found = BTreeSet::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != "objects" {
                folders.push(entry.path());
            }
            found.insert(entry.path().strip_prefix(&root).unwrap().display().to_string());
        }
    }
    found
}

#[test]
fn a_protected_file_withstands_every_way_to_change_it() {
    let world = repository();
    let sandbox = world.sandbox();
    for line in [
        "echo x > tests/test_price.py",
        "echo x >> src/../tests/test_price.py",
        "sed -i s/unittest/os/ tests/test_price.py",
        "rm tests/test_price.py",
        "rm -rf tests",
        "mv tests/test_price.py elsewhere",
        "mv tests t2",
        "mv tests t2; mkdir tests; echo x > tests/test_price.py",
        "ln tests/test_price.py second && echo x > second",
        "ln -s tests/test_price.py link && echo x > link",
        "ln -s tests dir && echo x > dir/test_price.py",
        "cp src/price.py tests/test_price.py",
        "echo x > new && mv -f new tests/test_price.py",
        "chmod 777 tests/test_price.py",
        "truncate -s 0 tests/test_price.py",
        "touch -d 2001-01-01 tests/test_price.py",
        "cd tests && echo x > test_price.py",
        "python3 -c \"import os; os.replace('src/price.py', 'tests/test_price.py')\"",
        "printf '%s\\n' '--- a/tests/test_price.py' '+++ b/tests/test_price.py' '@@ -1 +1 @@' '-import unittest' '+pass' \
         | git apply",
        "printf '%s\\n' '--- a/tests/test_price.py' '+++ b/tests/test_price.py' '@@ -1 +1 @@' '-import unittest' '+pass' \
         | patch -p1",
        "git rm -q -f tests/test_price.py",
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "git config core.editor x",
        "git config --unset core.bare",
        "rm -rf .git",
        "mv .git elsewhere",
        "mv .git/hooks .git/h2",
        "mv .git/config .git/c2",
        "echo x > .git/info/attributes",
        "mount -o remount,rw tests/test_price.py",
        "umount tests/test_price.py",
    ] {
        let before = (
            fs::read(world.root().join("tests/test_price.py")).unwrap(),
            fs::read(world.root().join(".git/config")).unwrap(),
        );
        let finished = run(&sandbox, shell(line)).unwrap();
        assert_ne!(finished.exit, Exit::Code(0), "{line}: {}", text(&finished));
        let after = (
            fs::read(world.root().join("tests/test_price.py")).unwrap(),
            fs::read(world.root().join(".git/config")).unwrap(),
        );
        assert_eq!(before, after, "{line}");
        let mode = fs::metadata(world.root().join("tests/test_price.py")).unwrap().permissions().mode();
        assert_eq!(mode & 0o022, 0, "{line}");
        assert!(!path_exists(&world.root().join(".git/hooks/pre-commit")), "{line}");
        // What else the line did is not to stand in the next one's way.
        run(
            &sandbox,
            shell("rm -rf new second link dir elsewhere t2 tests/.* tests/*.orig tests/*.rej; git checkout -q ."),
        )
        .unwrap();
    }
}

#[test]
fn everything_else_can_be_changed() {
    let world = repository();
    let line = "echo 'price = 2' > src/price.py && mkdir deep && echo new > deep/new && echo more > tests/test_more.py
        mv deep deeper && mv deeper/new src/ && rm -r deeper && echo done";
    let finished = world.bash(line);
    assert_eq!(text(&finished), "done\n");
    assert!(path_exists(&world.root().join("src/new")) && path_exists(&world.root().join("tests/test_more.py")));
}

#[test]
fn git_works_as_far_as_it_writes_no_settings() {
    let world = repository();
    let line = "echo 'price = 2' > src/price.py && git diff --stat | tail -1 && git add -A && git commit -q -m two &&
        git log --format='%an <%ae> %s' -1 && git status --short && git checkout -q -b topic && git stash list &&
        git checkout -q main && git branch";
    let finished = world.bash(line);
    assert_eq!(
        text(&finished),
        " 1 file changed, 1 insertion(+), 1 deletion(-)\nAda \"Countess\" L <ada@example.org> two\n* main\n  topic\n"
    );
    assert!(finished.attempts.is_empty(), "{:?}", finished.attempts);
    let refused = world.bash("git config alias.x '!touch canary'");
    assert_ne!(refused.exit, Exit::Code(0));
}

#[test]
fn programs_that_a_repository_names_do_not_run_behind_git() {
    let world = repository();
    let root = world.root();
    let set = |key: &str, value: &str| {
        assert!(Command::new("git").args(["config", key, value]).current_dir(&root).status().unwrap().success());
    };
    set("core.fsmonitor", "touch canary-monitor; false");
    set("core.hooksPath", ".evil");
    set("core.pager", "touch canary-pager");
    fs::create_dir(root.join(".evil")).unwrap();
    fs::write(root.join(".evil/pre-commit"), "#!/bin/sh\ntouch canary-hook\n").unwrap();
    fs::set_permissions(root.join(".evil/pre-commit"), fs::Permissions::from_mode(0o755)).unwrap();
    world.bash("git status; git log; echo x > new; git add new; git commit -m two");
    let names: Vec<_> = fs::read_dir(&root).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("canary")), "{names:?}");
}

#[test]
fn what_does_not_exist_yet_cannot_be_made_and_leaves_nothing() {
    let mut world = repository();
    world.protect.protect = vec!["docs/rules.md".to_owned(), "/secret.txt".to_owned()];
    let before = listing(&world);
    for path in [
        ".envrc",
        ".mcp.json",
        ".vscode/tasks.json",
        ".claude/settings.json",
        ".hames/config",
        "docs/rules.md",
        "secret.txt",
    ] {
        let top = path.split('/').next().unwrap();
        for line in [
            format!("mkdir -p $(dirname {path}); echo x > {path}"),
            format!(
                "mkdir -p own/deep; echo x > own/{0}; rm -rf {top}; mv own/{0} {path}",
                path.rsplit('/').next().unwrap()
            ),
            format!("rm -rf {top}; ln -sT /tmp {top}"),
            format!("mv {top} moved; mkdir {top} && echo x > {path}"),
        ] {
            world.bash(&line);
            assert!(fs::read_to_string(world.root().join(path)).is_err(), "{line}");
            world.bash("rm -rf own moved");
            assert_eq!(listing(&world), before, "{line}");
        }
    }
}

#[test]
fn what_a_crash_left_is_removed_at_the_next_start_and_nothing_else() {
    let world = repository();
    let before = listing(&world);
    let sandbox = world.sandbox();
    runtime().block_on(async {
        let running = sandbox.run(shell("sleep 300"), &|_| {});
        let crash = async {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                if path_exists(&world.root().join(".envrc")) {
                    break;
                }
            }
            // A crash leaves the folders and the journal as they are now.
            (fs::read(world.state().join("placeholders")).unwrap(), listing(&world))
        };
        let (journal, during) = tokio::select! { _ = running => panic!("it ended"), seen = crash => seen };
        assert_eq!(listing(&world), before, "cancelling cleans up");
        assert!(during.is_superset(&before) && during.contains(".vscode"), "{during:?}");
        drop(sandbox);
        for path in during.difference(&before) {
            fs::create_dir(world.root().join(path)).unwrap();
            fs::set_permissions(world.root().join(path), fs::Permissions::from_mode(0o1755)).unwrap();
        }
        fs::write(world.state().join("placeholders"), journal).unwrap();
    });
    // This one somebody has filled meanwhile, and that one somebody has made.
    fs::write(world.root().join(".vscode/settings.json"), "{}").unwrap();
    fs::set_permissions(world.root().join(".claude"), fs::Permissions::from_mode(0o755)).unwrap();
    world.sandbox();
    let left: Vec<_> = listing(&world).difference(&before).cloned().collect();
    assert_eq!(left, [".claude", ".vscode", ".vscode/settings.json"]);
    let mode = fs::metadata(world.root().join(".vscode")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn placeholders_last_as_long_as_the_last_command_that_needs_them() {
    let world = repository();
    let before = listing(&world);
    let sandbox = world.sandbox();
    runtime().block_on(async {
        let late = async {
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            sandbox.run(shell("sleep 0.5; mkdir -p .vscode; echo x > .vscode/tasks.json"), &|_| {}).await.unwrap()
        };
        let (first, second) = tokio::join!(sandbox.run(shell("sleep 0.3"), &|_| {}), late);
        assert_eq!(first.unwrap().exit, Exit::Code(0));
        assert_ne!(second.exit, Exit::Code(0));
    });
    assert_eq!(listing(&world), before);
}

#[test]
fn a_change_that_got_past_the_mounts_is_found_by_comparison() {
    let world = repository();
    let sandbox = world.sandbox();
    let meanwhile = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        fs::write(world.root().join("tests/test_price.py"), "import unittesT\n").unwrap();
    };
    let finished = runtime().block_on(async { tokio::join!(sandbox.run(shell("sleep 0.6"), &|_| {}), meanwhile).0 });
    let attempts = finished.unwrap().attempts;
    assert_eq!(attempts.len(), 1, "{attempts:?}");
    assert_eq!((attempts[0].path.as_str(), attempts[0].action.as_str()), ("tests/test_price.py", "changed"));
    assert!(!attempts[0].rule.is_empty());
    assert!(run(&sandbox, shell("true")).unwrap().attempts.is_empty());
}

#[test]
fn an_exception_in_a_protected_folder_stays_writable() {
    let world = World::with(&[(".hames/config.toml", "a"), (".hames/progress.md", "b")]);
    let finished =
        world.bash("echo x >> .hames/progress.md && echo ok; echo x > .hames/config.toml; echo x > .hames/new");
    assert!(text(&finished).starts_with("ok\n"), "{}", text(&finished));
    assert_eq!(fs::read_to_string(world.root().join(".hames/config.toml")).unwrap(), "a");
    assert!(!path_exists(&world.root().join(".hames/new")));
}

#[test]
fn a_workspace_of_many_tests_still_runs_commands() {
    let world = World::new();
    for number in 0..500 {
        world.write(&format!("tests/test_{number}.py"), TEST);
    }
    let finished = world.bash("ls tests | wc -l; echo x > tests/test_0.py");
    assert!(text(&finished).starts_with("500\n"), "{}", text(&finished));
    assert_eq!(fs::read_to_string(world.root().join("tests/test_0.py")).unwrap(), TEST);
    let finished = world.bash("for file in tests/*; do echo x > $file; done 2>/dev/null; true");
    assert_eq!(finished.attempts.len(), 500);
    assert!(finished.attempts.iter().all(|attempt| attempt.action == "open for writing"));
}

#[test]
fn the_session_folder_must_lie_outside_the_workspace() {
    let world = World::new();
    let mut config = world.config();
    config.state = world.root().join("state");
    assert!(hames_sandbox::Bubblewrap::new(config).unwrap_err().0.contains("lies in the workspace"));
}

#[test]
fn a_command_started_in_a_protected_folder_runs_there() {
    let world = repository();
    let finished =
        run(&world.sandbox(), CommandSpec { cwd: "tests".into(), ..shell("ls; touch test_new.py && ls") }).unwrap();
    assert_eq!(text(&finished), "test_price.py\ntest_new.py\ntest_price.py\n");
}

#[test]
fn more_tests_than_can_be_bound_and_links_withstand_as_well() {
    let world = World::with(&[("shared/real.py", TEST), ("src/price.py", "price = 1\n")]);
    for number in 0..400 {
        world.write(&format!("tests/part{}/test_{number:03}.py", number % 200), TEST);
    }
    std::os::unix::fs::symlink("../shared/real.py", world.root().join("tests/test_link.py")).unwrap();
    let sandbox = world.sandbox();
    let files: Vec<_> = listing(&world).into_iter().filter(|path| path.ends_with(".py")).collect();
    for line in [
        "for f in tests/*/*.py tests/*.py; do echo x > $f && exit 0; done; exit 1",
        "for f in tests/*/*.py tests/*.py; do rm $f && exit 0; done; exit 1",
        "for f in tests/*/*.py tests/*.py; do mv src/price.py $f && exit 0; done; exit 1",
        "for f in tests/*; do mv -T $f src/moved && exit 0; rm -rf src/moved; done; exit 1",
        "for f in tests/*/*.py; do exec 3< $f; echo x > /dev/fd/3 && exit 0; done; exit 1",
        "cp src/price.py tests/part199/test_399.py",
        "python3 -c 'import os; os.rename(\"tests\", \"t2\")'",
    ] {
        let finished = run(&sandbox, shell(line)).unwrap();
        assert_eq!(finished.exit, Exit::Code(1), "{line}: {}", text(&finished));
        assert!(!finished.attempts.is_empty(), "{line}");
        assert!(finished.attempts.iter().all(|one| one.action != Attempt::CHANGED), "{line}");
    }
    let left: Vec<_> = listing(&world).into_iter().filter(|path| path.ends_with(".py")).collect();
    assert!(left == files);
    assert!(
        files
            .iter()
            .filter(|path| path.contains("test"))
            .all(|path| { fs::read_to_string(world.root().join(path)).unwrap() == TEST })
    );
    let finished = run(&sandbox, shell("echo x > tests/part7/test_new.py; echo y > src/new.py")).unwrap();
    assert_eq!((finished.exit, finished.attempts.len()), (Exit::Code(0), 0));
}

#[test]
fn the_end_of_one_sandbox_leaves_the_placeholders_of_another_of_its_session() {
    let world = World::new();
    let (one, other) = (world.sandbox(), world.sandbox());
    // From now on something waits for its end, to remove what it may leave; after a crash that runs late.
    run(&other, shell("true")).unwrap();
    let root = world.root();
    std::thread::scope(|scope| {
        let line =
            "touch begun; while [ ! -e go ]; do sleep 0.05; done; mkdir .vscode 2>/dev/null && echo made || echo held";
        let command = scope.spawn(|| text(&run(&one, shell(line)).unwrap()));
        while !root.join("begun").exists() {
            assert!(!command.is_finished(), "it ended before it began");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(other);
        fs::write(root.join("go"), "").unwrap();
        assert_eq!(command.join().unwrap(), "held\n");
    });
    assert!(!root.join(".vscode").exists(), "nothing is left");
}
