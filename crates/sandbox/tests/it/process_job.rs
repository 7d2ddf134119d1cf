//! A job goes on beside other commands, can be reached by those that may meet it, and ends when it is told to.

use std::fs;
use std::time::{Duration, Instant};

use hames_protocol::port::*;

use crate::process::{World, direct, each, run, runtime, shell, text};
use crate::process_end::{alive, marked, marker};

/// Far above what anything here takes, for machines that are busy.
const LONG_MS: u64 = 60_000;

/// A server on 127.0.0.1 that says what it was asked for, once it listens.
const SERVER: &str = "python3 -u -c '
import http.server, socketserver
server = http.server.HTTPServer((\"127.0.0.1\", 8080), http.server.SimpleHTTPRequestHandler)
print(\"listening\")
server.serve_forever()'";

/// Asks it, and says what came of that.
const CLIENT: &str = "(exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null && echo reached || echo refused";

fn printed(news: &News) -> String {
    String::from_utf8_lossy(&news.output.head).into_owned()
}

/// Waits until a job has printed this.
async fn until_printed(job: &dyn Job, wanted: &str) -> String {
    let (began, mut seen) = (Instant::now(), String::new());
    while !seen.contains(wanted) {
        assert!(began.elapsed() < Duration::from_millis(LONG_MS), "{seen}");
        let news = job.news(Until::Output, LONG_MS).await.unwrap();
        seen.push_str(&printed(&news));
        assert!(news.exit.is_none() || seen.contains(wanted), "{:?}: {seen}", news.exit);
    }
    seen
}

#[test]
fn a_later_command_reaches_the_server_of_a_job_and_the_other_way_round() {
    each(&World::new(), |sandbox| {
        // Outside a sandbox every test of the machine shares the ports.
        let port = if sandbox.mode() == "off" { 20_000 + std::process::id() % 10_000 } else { 8080 };
        let with_port = |line: &str| line.replace("8080", &port.to_string());
        let (server, client) = (with_port(SERVER), with_port(CLIENT));
        runtime().block_on(async {
            let job = sandbox.start(shell(&server)).await.unwrap();
            until_printed(&*job, "listening").await;
            for _ in 0..2 {
                let finished = sandbox.run(shell(&client), &|_| {}).await.unwrap();
                assert_eq!((text(&finished).as_str(), finished.strays), ("reached\n", 0));
            }
            let other = sandbox.start(shell(&client)).await.unwrap();
            until_printed(&*other, "reached").await;
            job.end().await;
            let finished = sandbox.run(shell(&client), &|_| {}).await.unwrap();
            assert_eq!(text(&finished), "refused\n");
        });
    });
}

#[test]
fn a_command_without_peers_does_not_reach_a_job() {
    let world = World::new();
    let sandbox = world.sandbox();
    runtime().block_on(async {
        let job = sandbox.start(shell(SERVER)).await.unwrap();
        until_printed(&*job, "listening").await;
        for tmp in [Tmp::Session, Tmp::Fresh] {
            let alone = CommandSpec { peers: Peers::Nobody, tmp, ..shell(CLIENT) };
            assert_eq!(text(&sandbox.run(alone, &|_| {}).await.unwrap()), "refused\n");
        }
    });
}

#[test]
fn the_shared_network_gives_no_right_and_no_way_out() {
    let world = World::new();
    let sandbox = world.sandbox();
    let look = "grep ^Cap /proc/self/status; tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/self/uid_map; \
                grep -c . /proc/net/route";
    let before = text(&run(&sandbox, shell(look)).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    runtime().block_on(async {
        let job = sandbox.start(shell(&format!("{look}; sleep 300"))).await.unwrap();
        let of_job = until_printed(&*job, "1\n").await;
        let later = text(&sandbox.run(shell(look), &|_| {}).await.unwrap());
        assert_eq!(later, before, "a command that shares it");
        assert!(
            of_job.contains("CapEff:\t0000000000000000") && of_job.contains("CapBnd:\t0000000000000000"),
            "{of_job}"
        );
        let line = format!(
            "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; \
             unshare -n true 2>/dev/null && echo unshared; nsenter -t 1 -n true 2>/dev/null && echo entered; \
             ip link add d type dummy 2>/dev/null && echo added; echo done"
        );
        assert_eq!(text(&sandbox.run(shell(&line), &|_| {}).await.unwrap()), "done\n");
    });
}

#[test]
fn what_a_job_prints_is_told_once_with_head_and_tail() {
    each(&World::new(), |sandbox| {
        runtime().block_on(async {
            let line = "seq 1 100000; while [ ! -e go ]; do sleep 0.02; done; rm go; echo late; exit 3";
            let spec =
                CommandSpec { capture_bytes: 100, keep_output: Some("/tmp/outputs/job.txt".to_owned()), ..shell(line) };
            let job = sandbox.start(spec).await.unwrap();
            let (mut total, began) = (0, Instant::now());
            while total < 588_895 {
                assert!(began.elapsed() < Duration::from_millis(LONG_MS), "{total}");
                let news = job.news(Until::Output, LONG_MS).await.unwrap();
                let output = &news.output;
                assert!(output.head.len() <= 200 && output.tail.len() <= 100 && news.exit.is_none());
                total += output.head.len() as u64 + output.tail.len() as u64 + output.left_out;
            }
            assert_eq!(job.news(Until::Output, 0).await.unwrap(), News::default(), "told already");
            run_now(sandbox, "touch go").await;
            let news = job.news(Until::End, LONG_MS).await.unwrap();
            assert_eq!((printed(&news).as_str(), news.exit), ("late\n", Some(Exit::Code(3))));
            let again = job.news(Until::End, LONG_MS).await.unwrap();
            assert_eq!((printed(&again).as_str(), again.exit), ("", Some(Exit::Code(3))));
        });
    });
}

async fn run_now(sandbox: &dyn Sandbox, line: &str) {
    assert_eq!(sandbox.run(shell(line), &|_| {}).await.unwrap().exit, Exit::Code(0), "{line}");
}

#[test]
fn the_whole_tree_of_a_job_ends_when_it_is_ended_dropped_or_its_time_is_up() {
    each(&World::new(), |sandbox| {
        let marker = marker("job");
        let line = "(setsid bash -c 'trap \"\" TERM HUP INT; (setsid sleep 300 &) ; while :; do sleep 1; done' &)
            echo up; sleep 300";
        runtime().block_on(async {
            let job = sandbox.start(marked(line, &marker)).await.unwrap();
            until_printed(&*job, "up").await;
            assert!(alive(&marker) > 0);
            job.end().await;
            assert_eq!(alive(&marker), 0);
            assert_eq!(job.news(Until::End, 0).await.unwrap().exit, Some(Exit::Signal(9)));
            job.end().await;

            let job = sandbox.start(marked(line, &marker)).await.unwrap();
            until_printed(&*job, "up").await;
            drop(job);
            assert_eq!(alive(&marker), 0);

            let short = CommandSpec { timeout_ms: 400, ..marked(line, &marker) };
            let job = sandbox.start(short).await.unwrap();
            assert_eq!(job.news(Until::End, LONG_MS).await.unwrap().exit, Some(Exit::TimedOut));
            assert_eq!(alive(&marker), 0);
        });
    });
}

#[test]
fn a_job_that_cannot_begin_says_why() {
    each(&World::new(), |sandbox| {
        runtime().block_on(async {
            let job = sandbox.start(CommandSpec { cwd: "gone".into(), ..shell("true") }).await.unwrap();
            let problem = job.news(Until::End, LONG_MS).await.unwrap_err();
            assert!(problem.0.contains("working directory"), "{problem}");
            let job = sandbox.start(direct(&["no-such-program"])).await.unwrap();
            assert_eq!(job.news(Until::End, LONG_MS).await.unwrap().exit, Some(Exit::Code(127)));
        });
    });
}

#[test]
fn a_protected_file_withstands_a_job_and_the_attempt_is_told_while_it_runs() {
    let world = World::with(&[("tests/test_a.py", "assert True")]);
    let sandbox = world.sandbox();
    runtime().block_on(async {
        let line = "while :; do echo x > tests/test_a.py; touch .envrc; echo tried; sleep 0.05; done";
        let job = sandbox.start(shell(line)).await.unwrap();
        let mut attempts = Vec::new();
        let began = Instant::now();
        while attempts.len() < 2 {
            assert!(began.elapsed() < Duration::from_millis(LONG_MS), "{attempts:?}");
            attempts.extend(job.news(Until::Output, LONG_MS).await.unwrap().attempts);
        }
        // Another command comes and goes meanwhile, with the same protection.
        run_now(&sandbox, "! touch .envrc").await;
        job.end().await;
        attempts.extend(job.news(Until::End, 0).await.unwrap().attempts);
        let count = attempts.len();
        attempts.sort_by(|a, b| (&a.path, &a.action).cmp(&(&b.path, &b.action)));
        attempts.dedup();
        assert_eq!(attempts.len(), count, "each is told once: {attempts:?}");
        let mut paths: Vec<_> = attempts.iter().map(|attempt| attempt.path.as_str()).collect();
        paths.dedup();
        assert_eq!(paths, [".envrc", "tests/test_a.py"]);
    });
    assert_eq!(fs::read_to_string(world.root().join("tests/test_a.py")).unwrap(), "assert True");
    assert!(!world.root().join(".envrc").exists());
}
