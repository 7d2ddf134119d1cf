//! What a command tries on protected paths is reported from what Hames observed, never from what it printed.

use hames_protocol::port::{CommandSpec, Exit, View};

use crate::process::{World, run, runtime, shell, text};
use crate::process_protection::repository;

/// The attempts of a command line, as `path: action`.
fn attempts(world: &World, line: &str) -> Vec<String> {
    let finished = world.bash(line);
    let mut attempts: Vec<_> = finished.attempts.iter().map(|one| format!("{}: {}", one.path, one.action)).collect();
    assert!(finished.attempts.iter().all(|attempt| !attempt.rule.is_empty()), "{:?}", finished.attempts);
    attempts.sort();
    attempts
}

#[test]
fn an_attempt_on_a_protected_path_is_told_whatever_the_way() {
    let world = repository();
    let patch = "printf '%s\\n' '--- a/tests/test_price.py' '+++ b/tests/test_price.py' '@@ -1 +1 @@' \
                 '-import unittest' '+pass'";
    for (line, path, action) in [
        ("echo x > tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("echo x > src/../tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("cd tests; echo x >> ./test_price.py", "tests/test_price.py", "open for writing"),
        ("echo x > $PWD/tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("ln -s tests/test_price.py link; echo x > link", "tests/test_price.py", "open for writing"),
        ("ln -s $PWD/tests /tmp/way; echo x > /tmp/way/test_price.py", "tests/test_price.py", "open for writing"),
        ("sed -i s/unittest/os/ tests/test_price.py", "tests/test_price.py", "rename"),
        (&format!("{patch} | git apply"), "tests/test_price.py", "remove"),
        ("mv tests t2", "tests", "rename"),
        ("mv .git g2", ".git", "rename"),
        ("rm tests/test_price.py", "tests/test_price.py", "remove"),
        ("rm -rf tests", "tests/test_price.py", "remove"),
        ("ln tests/test_price.py second", "tests/test_price.py", "hard link"),
        ("chmod +x tests/test_price.py", "tests/test_price.py", "change the mode"),
        ("touch tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("truncate -s 0 tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("python3 -c 'import os; os.truncate(\"tests/test_price.py\", 0)'", "tests/test_price.py", "truncate"),
        (
            "python3 -c 'import os; os.rename(\"src/price.py\", \"tests/test_price.py\")'",
            "tests/test_price.py",
            "rename",
        ),
        ("git config user.name x", ".git/config", "rename"),
        ("echo x > .git/hooks/pre-commit", ".git/hooks/pre-commit", "open for writing"),
        ("mkdir .vscode/more", ".vscode/more", "create"),
        ("echo x > .envrc", ".envrc", "open for writing"),
        ("ln -s x .claude/settings.json", ".claude/settings.json", "link"),
        ("echo x > tests/conftest.py; rm -f tests/conftest.py", "tests/conftest.py", "open for writing"),
        ("perl -e 'unlink q(tests/test_price.py)'", "tests/test_price.py", "remove"),
        ("echo x > /proc/self/cwd/tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("echo x > /proc/self/root$PWD/tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("echo x > /proc/$$/cwd/tests/test_price.py", "tests/test_price.py", "open for writing"),
        ("exec 3< tests; rm /proc/self/fd/3/test_price.py", "tests/test_price.py", "remove"),
        ("exec 3< tests/test_price.py; echo x > /dev/fd/3", "tests/test_price.py", "open for writing"),
        (
            "ln -s /proc/self/cwd /tmp/way; echo x > /tmp/way/tests/test_price.py",
            "tests/test_price.py",
            "open for writing",
        ),
        (
            "python3 -c 'import threading as t; t.Thread(target=lambda: open(\"tests/test_price.py\", \"w\")).start()'",
            "tests/test_price.py",
            "open for writing",
        ),
    ] {
        let found = attempts(&world, line);
        assert!(found.contains(&format!("{path}: {action}")), "{line}: {found:?}");
        world.bash("rm -rf link /tmp/way second");
    }
}

#[test]
fn what_a_command_prints_or_only_reads_is_no_attempt() {
    let world = repository();
    for line in [
        "echo 'tests/test_price.py: Read-only file system'; exit 1",
        "echo 'mv: cannot move tests: Device or resource busy' >&2",
        "cat tests/test_price.py .git/config; grep -r import tests; ls -la .git/hooks; stat .git/config",
        "git status; git log; git diff; git branch topic; git stash list",
        "echo x > src/price.py; echo y > new; mkdir -p tests; mkdir -p .git/hooks; mv new other; rm other",
        "echo x > tests/test_more.py; python3 -m unittest discover -s tests",
        "cp tests/test_price.py /tmp/copy; echo x > /tmp/copy; cp -r tests /tmp/tests; rm -rf /tmp/tests",
        "echo x > /dev/null; echo y > /dev/stderr",
        "find . -name '*.py' | xargs wc -l",
    ] {
        assert_eq!(attempts(&world, line), Vec::<String>::new(), "{line}");
    }
}

#[test]
fn an_attempt_is_told_once_however_often_it_is_made() {
    let world = repository();
    let found = attempts(&world, "for i in $(seq 50); do echo x > tests/test_price.py; done 2>/dev/null");
    assert_eq!(found, ["tests/test_price.py: open for writing"]);
}

#[test]
fn attempts_of_a_command_that_runs_out_of_time_are_told() {
    let world = repository();
    let command = CommandSpec { timeout_ms: 500, ..shell("echo x > tests/test_price.py; sleep 60") };
    let finished = run(&world.sandbox(), command).unwrap();
    assert_eq!(finished.exit, Exit::TimedOut);
    assert_eq!(finished.attempts.len(), 1);
}

#[test]
fn an_attempt_on_an_original_is_told_and_one_on_a_stand_in_is_none() {
    let world = repository();
    let copy = world.outside().join("copy/tests");
    std::fs::create_dir_all(&copy).unwrap();
    let bytes = copy.join("original");
    std::fs::write(&bytes, "").unwrap();
    let sandbox = world.sandbox();
    let originals = View { originals: [("tests/test_price.py".to_owned(), bytes)].into(), ..View::default() };
    let stand_in = View { stand_in: Some(world.outside().join("copy")), ..View::default() };
    for (view, count) in [(originals, 1), (stand_in, 0)] {
        let finished = run(&sandbox, CommandSpec { view, ..shell("echo x > tests/test_price.py") }).unwrap();
        assert_eq!(finished.attempts.len(), count);
    }
}

#[test]
fn in_the_read_only_mode_attempts_are_told_as_well() {
    let mut world = repository();
    world.mode = hames_sandbox::Mode::ReadOnly;
    assert_eq!(attempts(&world, "echo x > tests/test_price.py; echo x > src/price.py").len(), 1);
}

#[test]
fn commands_that_run_at_once_are_told_apart() {
    let world = repository();
    let sandbox = world.sandbox();
    use hames_protocol::port::Sandbox as _;
    runtime().block_on(async {
        let guilty = sandbox.run(shell("for i in $(seq 30); do rm tests/test_price.py; done"), &|_| {});
        let innocent = sandbox.run(shell("for i in $(seq 30); do echo x > new; rm new; done"), &|_| {});
        let (guilty, innocent) = tokio::join!(guilty, innocent);
        assert_eq!(guilty.unwrap().attempts.len(), 1);
        assert!(innocent.unwrap().attempts.is_empty());
    });
}

#[test]
fn a_high_exit_code_is_not_taken_for_a_signal() {
    let world = World::new();
    for (line, exit) in [
        ("exit 143", Exit::Code(143)),
        ("exit 130", Exit::Code(130)),
        ("python3 -c 'import sys; sys.exit(137)'", Exit::Code(137)),
        ("sleep 5 & kill -9 $!; wait $!", Exit::Code(137)),
        ("kill -9 $$", Exit::Signal(9)),
        ("(exit 137); kill -9 $$", Exit::Signal(9)),
        ("exec sh -c 'kill -TERM $$'", Exit::Signal(15)),
    ] {
        assert_eq!(world.bash(line).exit, exit, "{line}");
    }
}

#[test]
fn a_program_of_many_threads_and_signals_is_not_held_up() {
    let world = World::new();
    let line = "python3 - <<'EOF'
import signal, threading, os
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def work(name):
    for number in range(300):
        with open(f'/tmp/{name}-{number}', 'w') as file:
            file.write('x')
        os.unlink(f'/tmp/{name}-{number}')
threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
print('done')
EOF";
    assert_eq!(text(&world.bash(line)), "done\n");
}

#[test]
fn a_repository_that_a_command_makes_is_its_own_until_it_ends() {
    let world = World::new();
    let line = "git init -q new && git -C new config user.name x && echo 'echo' > new/.git/hooks/pre-commit";
    assert_eq!(attempts(&world, line), Vec::<String>::new(), "nothing was refused, so nothing is told as refused");
    assert!(attempts(&world, "git -C new config user.name y").iter().any(|told| told.starts_with("new/.git/config")));
}

#[test]
fn a_new_file_that_a_rule_covers_is_told_as_changed() {
    let world = World::with(&[("tests/test_a.py", "import unittest\n")]);
    assert_eq!(attempts(&world, "echo > conftest.py; echo > tests/test_b.py"), ["conftest.py: changed"]);
    assert_eq!(attempts(&world, "echo > pytest.ini; rm pytest.ini"), ["pytest.ini: open for writing"]);
}
