//! A command ends with its main process, all of it, whatever it left behind or holds open.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hames_protocol::port::{CommandSpec, Exit, Sandbox};
use hames_sandbox::ProcessLimits;

use crate::process::{World, each, run, runtime, shell, text};

/// Processes whose environment holds this word.
pub(crate) fn alive(marker: &str) -> usize {
    let with_marker = |pid: &str| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(marker.len()).any(|part| part == marker.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| with_marker(&entry.file_name().to_string_lossy())).count()
}

pub(crate) fn marked(line: &str, marker: &str) -> CommandSpec {
    CommandSpec { env: vec![("MARKER".to_owned(), marker.to_owned())], ..shell(line) }
}

pub(crate) fn marker(name: &str) -> String {
    format!("hames-test-{name}-{}", std::process::id())
}

/// Runs a command that leaves a child; returns its output.
fn check_left(sandbox: &dyn Sandbox, line: &str, code: i32, strays: u32) -> String {
    let marker = marker("left");
    let began = Instant::now();
    let finished = run(sandbox, marked(line, &marker)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{line}: took {:?}", began.elapsed());
    assert_eq!(finished.exit, Exit::Code(code), "{line}");
    assert_eq!(finished.strays, strays, "{line}");
    assert_eq!(alive(&marker), 0, "{line}");
    text(&finished)
}

#[test]
fn children_that_hold_the_output_are_ended_and_counted() {
    each(&World::new(), |sandbox| {
        assert_eq!(check_left(sandbox, "sleep 300 & echo done", 0, 1), "done\n");
        let noisy = check_left(sandbox, "(while :; do echo tick; sleep 0.05; done) & sleep 0.2; echo done", 0, 2);
        assert!(noisy.contains("done\n"), "{noisy}");
        assert_eq!(check_left(sandbox, "exec > >(cat; sleep 300) 2>&1; echo hi; exit 7", 7, 1), "hi\n");
        assert_eq!(check_left(sandbox, "setsid sleep 300 & echo done", 0, 1), "done\n");
        check_left(sandbox, "(setsid bash -c 'trap \"\" TERM HUP; sleep 300 & sleep 300' &) ; exit 3", 3, 3);
    });
}

#[test]
fn a_child_that_is_waited_for_is_not_a_stray() {
    each(&World::new(), |sandbox| {
        assert_eq!(check_left(sandbox, "(sleep 0.3; echo late) & wait; echo done", 0, 0), "late\ndone\n");
        assert_eq!(check_left(sandbox, "echo deep > >(cat)", 0, 0), "deep\n");
    });
}

#[test]
fn a_server_in_the_background_can_be_reached_until_the_command_ends() {
    let line = "python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &
        for i in $(seq 100); do
            (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null && { echo reached; exit; }; sleep 0.05
        done";
    let finished = run(&World::new().sandbox(), shell(line)).unwrap();
    assert_eq!((text(&finished).as_str(), finished.strays), ("reached\n", 1));
}

#[test]
fn a_time_out_ends_the_whole_tree_and_keeps_the_output() {
    let daemon = "(setsid bash -c 'trap \"\" TERM HUP INT; (setsid sleep 300 &) ; while :; do sleep 1; done' &)";
    for line in [
        format!("echo progress; {daemon}; sleep 300"),
        "echo progress; trap '' TERM; while :; do sleep 1; done".to_owned(),
        "echo progress; mkfifo p; (while :; do echo x; sleep 0.1; done > p) & cat p".to_owned(),
    ] {
        each(&World::new(), |sandbox| {
            let marker = marker("time-out");
            let began = Instant::now();
            let finished = run(sandbox, CommandSpec { timeout_ms: 400, ..marked(&line, &marker) }).unwrap();
            assert_eq!(finished.exit, Exit::TimedOut);
            assert!(text(&finished).starts_with("progress\n"), "{}", text(&finished));
            assert!(began.elapsed() < Duration::from_secs(8));
            assert_eq!(alive(&marker), 0, "{line}");
        });
    }
}

/// Runs `count` commands that end about when their time of `limit_ms` is up, several at once.
fn check_near_the_limit(sandbox: &dyn Sandbox, count: u64, limit_ms: u64) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(round) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|round| *round < count) {
                    let pause = limit_ms / 2 + round % limit_ms;
                    let line = format!("sleep 0.{pause:03}; echo end; exit 4");
                    let finished = run(sandbox, CommandSpec { timeout_ms: limit_ms, ..shell(&line) }).unwrap();
                    match finished.exit {
                        Exit::Code(4) => assert_eq!(text(&finished), "end\n"),
                        exit => assert_eq!(exit, Exit::TimedOut),
                    }
                }
            });
        }
    });
}

#[test]
fn ending_near_the_limit_is_either_the_one_or_the_other() {
    each(&World::new(), |sandbox| check_near_the_limit(sandbox, 100, 60));
}

#[test]
fn dropping_the_future_ends_the_command_before_it_returns() {
    each(&World::new(), |sandbox| {
        let marker = marker("drop");
        runtime().block_on(async {
            let line = "(setsid sleep 300 &); sleep 300 & wait";
            let running = sandbox.run(marked(line, &marker), &|_| {});
            assert!(tokio::time::timeout(Duration::from_millis(300), running).await.is_err());
        });
        assert_eq!(alive(&marker), 0);
    });
}

#[test]
fn dropping_the_future_at_any_moment_of_the_start_is_safe() {
    each(&World::new(), |sandbox| {
        let marker = marker("early");
        for step in 0..30 {
            runtime().block_on(async {
                let running = sandbox.run(marked("sleep 300", &marker), &|_| {});
                assert!(tokio::time::timeout(Duration::from_micros(step * 400), running).await.is_err());
            });
            assert_eq!(alive(&marker), 0);
        }
    });
}

#[test]
fn a_command_that_kills_everything_it_can_see_is_still_only_a_command() {
    let world = World::new();
    let sandbox = world.sandbox();
    let finished = run(&sandbox, shell("kill -9 -1; kill -9 $$")).unwrap();
    assert_eq!(finished.exit, Exit::Signal(9));
    let finished = run(&sandbox, shell("trap : TERM; kill -TERM 0; echo survived; exit 5")).unwrap();
    assert_eq!((text(&finished).as_str(), finished.exit), ("survived\n", Exit::Code(5)));
}

#[test]
fn a_command_cannot_report_its_own_end() {
    let world = World::new();
    let sandbox = world.sandbox();
    for report in ["ended:0", "nowhere", "ready"] {
        let finished = run(&sandbox, shell(&format!("printf '{report}\\0' > /proc/$PPID/fd/1; exit 3"))).unwrap();
        assert_eq!(finished.exit, Exit::Code(3), "{report}");
    }
}

#[test]
fn a_printer_of_fifty_megabytes_is_fast_and_bounded() {
    each(&World::new(), |sandbox| {
        let began = Instant::now();
        let command = CommandSpec { capture_bytes: 15_000, ..shell("head -c 50000000 /dev/zero") };
        let finished = run(sandbox, command).unwrap();
        assert_eq!(finished.capture.left_out, 50_000_000 - 30_000);
        // Far above what it takes, for machines that are busy.
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    });
}

#[test]
fn endless_output_does_not_hold_up_the_time_out() {
    each(&World::new(), |sandbox| {
        let command = CommandSpec { timeout_ms: 500, capture_bytes: 1000, ..shell("yes & yes") };
        let began = Instant::now();
        assert_eq!(run(sandbox, command).unwrap().exit, Exit::TimedOut);
        assert!(began.elapsed() < Duration::from_secs(8));
    });
}

#[test]
fn too_many_processes_end_the_command() {
    let limits = ProcessLimits { tree: 50, ..ProcessLimits::default() };
    let world = World { limits, ..World::new() };
    each(&world, |sandbox| {
        let marker = marker("crowd");
        let line = "for i in $(seq 200); do sleep 300 & done; wait";
        let finished = run(sandbox, marked(line, &marker)).unwrap();
        assert_eq!(finished.exit, Exit::Signal(9));
        assert!(text(&finished).contains("more than one may have"), "{}", text(&finished));
        assert_eq!(alive(&marker), 0);
    });
}

#[test]
fn a_file_beyond_the_size_limit_is_not_written() {
    let limits = ProcessLimits { file_bytes: 1 << 20, ..ProcessLimits::default() };
    let world = World { limits, ..World::new() };
    each(&world, |sandbox| {
        assert_ne!(run(sandbox, shell("head -c 3000000 /dev/zero > big")).unwrap().exit, Exit::Code(0));
        assert!(fs::metadata(world.root().join("big")).unwrap().len() <= 1 << 20);
    });
}

#[test]
fn no_descriptor_is_lost_over_many_commands() {
    let world = World::new();
    each(&world, |sandbox| {
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        run(sandbox, shell("true")).unwrap();
        let before = count();
        // The time is up at any moment of the start.
        check_near_the_limit(sandbox, 60, 15);
        // Other tests of this process open and close descriptors at the same time.
        assert!(count() < before + 60, "{before} → {}", count());
    });
}

#[test]
fn a_process_whose_owner_is_gone_is_ended_at_the_next_start() {
    let space = fs::read_link("/proc/self/ns/pid").unwrap();
    let start = |owner: &str| {
        let name = format!("{},{owner}", space.display());
        std::process::Command::new("sleep").arg("300").env("HAMES_OWNER", name).spawn().unwrap()
    };
    // No process has this number, and this one's own started at another time; a foreign namespace cannot be judged.
    let (mut gone, mut reused) = (start("2147483647,1"), start(&format!("{},1", std::process::id())));
    let mut foreign =
        std::process::Command::new("sleep").arg("300").env("HAMES_OWNER", "pid:[1],2147483647,1").spawn().unwrap();
    let world = World::new();
    let sandbox = world.sandbox();
    assert!(!gone.wait().unwrap().success() && !reused.wait().unwrap().success());
    assert!(foreign.try_wait().unwrap().is_none());
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    // What runs now has a living owner.
    runtime().block_on(async {
        let other = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            world.unconfined();
        };
        let (finished, ()) = tokio::join!(sandbox.run(shell("sleep 0.5; echo done"), &|_| {}), other);
        assert_eq!(text(&finished.unwrap()), "done\n");
    });
}

#[test]
fn an_exit_code_cannot_be_forged_through_the_shell_around_the_command() {
    let line = "printf 'ended:0\\0strays:0\\0cwd:/forged\\0' > /proc/$PPID/fd/1; sleep 0.2; exit 9";
    assert_eq!(run(&World::new().sandbox(), shell(line)).unwrap().exit, Exit::Code(9));
}
