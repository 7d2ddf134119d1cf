//! The crash sweep: the bundled example is killed by SIGKILL at every append to its log and at every effect, one run for
//! each, resumed, and compared with the run that was not killed: how it ended, the workspace, the log, the effects.
//!
//! What a crash may change, and nothing else: the log has openings and repairs more; what was in flight is begun twice
//! where that is safe; a command in flight is answered `IN DOUBT` and not repeated. When that command never ran, the rest
//! is as in a run whose command does nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::example::{CHECK, script, strip};
use crate::place::{Place, Ran};
use crate::tracer::{Mark, Point, Side, Traced, trace};

/// The commands of the example that change something, as its script spells them.
const CHANGING: [&str; 2] = ["ln -s", "rm shortcut.py"];
/// Makes a command line do nothing.
const NOTHING: &str = "exit 0; ";

/// A script served over HTTP.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn of(place: &Place, script: &str) -> Self {
        let mut process = place.hames(["script", "serve", script]).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, address: line.trim().strip_prefix("http://").unwrap().to_owned() }
    }
}

/// A way to the server on which the requests that arrive are counted.
struct Relay {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Relay {
    fn to(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, to) = (Arc::<AtomicUsize>::default(), server.address.clone());
        let count = Arc::clone(&requests);
        // Lives as long as this process; nobody comes any more once the run is over.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
                let (mut replies, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut replies, &mut back));
                let count = Arc::clone(&count);
                std::thread::spawn(move || pass_on(client, server, &count));
            }
        });
        Self { url, requests }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Passes requests on until the client is gone.
fn pass_on(mut client: TcpStream, mut server: TcpStream, count: &AtomicUsize) {
    let mut bytes = vec![0; 1 << 20];
    while let Ok(length) = client.read(&mut bytes)
        && length > 0
    {
        count.fetch_add(usize::from(bytes.starts_with(b"POST ")), Ordering::SeqCst);
        if server.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn hames(place: &Place, relay: &Relay, session: Option<&str>, prompt: Prompt) -> Command {
    let mut arguments = vec!["run", "--output-format", "json"];
    if let Some(id) = session {
        arguments.extend(["--resume", id]);
    }
    if prompt == Prompt::Given {
        arguments.extend(["--verify", CHECK, "Fix the checkout total."]);
    }
    let mut command = place.hames(arguments);
    command.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", &relay.url);
    command
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Prompt {
    Given,
    Known,
}

/// Traces a run and returns with it what it printed.
fn traced(place: &Place, command: &Command, at: Option<Point>) -> (Traced, String) {
    let path = place.work().with_file_name("output");
    let traced = trace(command, File::create(&path).unwrap(), at);
    (traced, fs::read_to_string(path).unwrap())
}

/// How a session ended, without what differs from run to run.
#[derive(Debug, Clone, PartialEq)]
struct Ending {
    code: Option<i32>,
    result: Value,
    /// The workspace: paths with contents, links with where they lead.
    files: BTreeMap<String, String>,
    log: Log,
}

/// A log in its normal form: grouped by what the entries are about, each thing once.
#[derive(Debug, Clone, PartialEq, Default)]
struct Log {
    /// What stands once in a run, sorted.
    run: Vec<String>,
    attempts: Vec<String>,
    /// The entries of each call; a call is known by its place.
    calls: BTreeMap<String, Vec<String>>,
}

impl Log {
    fn of(place: &Place) -> Self {
        let work = place.work().to_str().unwrap().to_owned();
        let mut log = Self::default();
        for record in place.log() {
            let mut entry = record["entry"].clone();
            strip(&mut entry);
            // Derived from the script's text.
            if let Some(reply) = entry.pointer_mut("/attempt_ended/result/reply") {
                reply.as_object_mut().unwrap().remove("usage");
            }
            let text = |entry: &Value| entry.to_string().replace(&work, "WORK").replace(NOTHING, "");
            let (kind, value) = entry.as_object().unwrap().iter().next().unwrap();
            let about = [value, &value["call"], &value["id"], &value[0]].into_iter().find_map(Value::as_str);
            match kind.as_str() {
                "opened" | "repaired" => {}
                "attempt_started" | "attempt_ended" => push_new(&mut log.attempts, text(&entry)),
                "probed" => {
                    if let Some(result) = value[1].get("settled") {
                        let ended = json!({"ended": {"call": about, "result": result}});
                        log.calls.entry(about.unwrap().to_owned()).or_default().push(text(&ended));
                    }
                }
                "run_started" | "run_ended" | "baselined" | "counted" | "noticed" | "surveyed" => {
                    log.run.push(text(&entry))
                }
                _ => push_new(log.calls.entry(about.unwrap().to_owned()).or_default(), text(&entry)),
            }
        }
        log.run.sort();
        log
    }
}

/// What was in flight is begun again after a crash.
fn push_new(entries: &mut Vec<String>, entry: String) {
    if entries.last() != Some(&entry) {
        entries.push(entry);
    }
}

impl Ending {
    fn of(place: &Place, code: Option<i32>, output: &str) -> Self {
        let json = output.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("no result: {output}"));
        let mut result: Value = serde_json::from_str(json).unwrap();
        for key in ["session_id", "duration_ms", "usage", "cost_usd"] {
            result.as_object_mut().unwrap().remove(key);
        }
        strip(&mut result);
        let mut files = BTreeMap::new();
        list(&place.work(), "", &mut files);
        Self { code, result, files, log: Log::of(place) }
    }

    /// The calls that were in flight at a crash and are not repeated.
    fn doubtful(&self) -> Vec<String> {
        let in_doubt = |entries: &&Vec<String>| entries.last().is_some_and(|last| last.contains("\"in_doubt\""));
        self.log.calls.iter().filter(|(_, entries)| in_doubt(entries)).map(|(id, _)| id.clone()).collect()
    }

    /// The same without the words of `call`'s result, which are others when a probe found that it had happened.
    fn without_words(&self, call: &str) -> Self {
        let mut ending = self.clone();
        let last = ending.log.calls.get_mut(call).unwrap().last_mut().unwrap();
        let mut ended: Value = serde_json::from_str(last).unwrap();
        if let Some(result) = ended.pointer_mut("/ended/result") {
            result.as_object_mut().unwrap().remove("blocks");
        }
        *last = ended.to_string();
        ending
    }

    /// The same without what is known of `call` only by its end.
    fn without_end(&self, call: &str) -> Self {
        let mut ending = self.clone();
        let entries = ending.log.calls.get_mut(call).unwrap();
        entries.pop();
        let proposed: Value = serde_json::from_str(&entries[0]).unwrap();
        let wire = proposed["proposed"]["provider_id"].clone();
        ending.result["guards"].as_array_mut().unwrap().retain(|fired| fired["call_id"] != wire);
        ending
    }
}

fn list(folder: &Path, name: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.insert(format!("{name}/"), String::new());
            list(&entry.path(), &name, files);
        } else if kind.is_symlink() {
            files.insert(name, format!("→ {}", fs::read_link(entry.path()).unwrap().display()));
        } else {
            files.insert(name, String::from_utf8(fs::read(entry.path()).unwrap()).unwrap());
        }
    }
}

/// Runs the example to its end without a crash.
fn uninterrupted(script: &str) -> (Ending, BTreeMap<Mark, usize>) {
    let place = Place::example();
    let server = Server::of(&place, script);
    let (run, output) = traced(&place, &hames(&place, &Relay::to(&server), None, Prompt::Given), None);
    (Ending::of(&place, run.code, &output), run.counts)
}

/// The runs to compare with.
struct Expected {
    whole: Ending,
    /// Runs in which one of the changing commands did nothing, by the call.
    without: BTreeMap<String, Ending>,
    requests: usize,
}

/// Runs the example, dies at `point`, resumes, and compares.
fn check(server: &Server, point: Point, expected: &Expected) -> Result<(), String> {
    let (place, relay) = (Place::example(), Relay::to(server));
    let (killed, _) = traced(&place, &hames(&place, &relay, None, Prompt::Given), Some(point));
    if killed.code.is_some() {
        return Err("the point was never met".to_owned());
    }
    let log = place.raw_log();
    let session = place.sessions().pop().map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned());
    let prompt = if log.contains("\"entry\":{\"run_started\"") { Prompt::Known } else { Prompt::Given };
    let resumed = Ran::of(hames(&place, &relay, session.as_deref(), prompt).output().unwrap());
    if resumed.code != 0 {
        return Err(format!("it could not be resumed ({}): {}{}", resumed.code, resumed.stdout, resumed.stderr));
    }
    let ending = Ending::of(&place, Some(resumed.code), &resumed.stdout);
    let session = session.unwrap_or_else(|| place.sessions()[0].file_name().unwrap().to_str().unwrap().to_owned());
    let verified = place.run(["session", "verify", &session]);
    if verified.code != 0 {
        return Err(format!("the log does not verify: {}", verified.stdout));
    }
    // A request in flight may have left before the end or not; it is sent again.
    let (requests, in_flight) = (relay.requests(), usize::from(is_asking(&log)));
    if !(expected.requests..=expected.requests + in_flight).contains(&requests) {
        return Err(format!("{requests} requests were sent instead of {}", expected.requests));
    }
    let (mut ending, mut whole) = (ending, expected.whole.clone());
    for call in probed(&place) {
        (ending, whole) = (ending.without_words(&call), whole.without_words(&call));
    }
    let (ending, references) = match ending.doubtful().as_slice() {
        [] => (ending, vec![whole]),
        [call] => {
            let references = [Some(&whole), expected.without.get(call)];
            (ending.without_end(call), references.into_iter().flatten().map(|one| one.without_end(call)).collect())
        }
        calls => return Err(format!("more than one call is in doubt: {calls:?}")),
    };
    if references.contains(&ending) { Ok(()) } else { Err(difference(&ending, references.last().unwrap())) }
}

/// The calls whose result is what a probe found.
fn probed(place: &Place) -> Vec<String> {
    let settled = |record: &Value| {
        let probed = &record["entry"]["probed"];
        probed[1].get("settled").map(|_| probed[0].as_str().unwrap().to_owned())
    };
    place.log().iter().filter_map(settled).collect()
}

/// Whether a request was in flight when the log ended.
fn is_asking(log: &str) -> bool {
    let whole = &log[..log.rfind('\n').map_or(0, |end| end + 1)];
    let count = |entry: &str| whole.matches(&format!("\"entry\":{{\"{entry}\"")).count();
    count("attempt_started") > count("attempt_ended")
}

/// The lines in which two endings differ.
fn difference(found: &Ending, expected: &Ending) -> String {
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    let only = |mark: &str, mine: &str, other: &str| {
        let other: Vec<&str> = other.lines().collect();
        let lines = mine.lines().filter(|line| !other.contains(line));
        lines
            .map(|line| format!("  {mark} {}\n", line.trim().chars().take(600).collect::<String>()))
            .collect::<String>()
    };
    format!("it ended differently:\n{}{}", only("-", &expected, &found), only("+", &found, &expected))
}

/// Every point to die at, for a run in which each mark was met so often.
///
/// Each append is died at once, in turn before, within and after it: after one is, but for effects, before the next.
/// That an effect is about to begin is a record of its own, so it is died at when it has begun.
fn points(counts: &BTreeMap<Mark, usize>) -> Vec<Point> {
    let sides = |mark: Mark, number: usize| match mark {
        Mark::Append => &[[Side::Before], [Side::Torn], [Side::After]][number % 3][..],
        Mark::Request | Mark::Command => &[Side::After],
        Mark::Reply | Mark::UnderWay => &[Side::Before],
        Mark::Replace => &[Side::Before, Side::After],
    };
    let of_mark = |(&mark, &count): (&Mark, &usize)| {
        (1..=count).flat_map(move |number| sides(mark, number).iter().map(move |&side| Point { mark, number, side }))
    };
    // After its last record a run is over: there is nothing to resume.
    let is_over = |point: &Point| {
        point.mark == Mark::Append && point.side == Side::After && counts.get(&Mark::Append) == Some(&point.number)
    };
    counts.iter().flat_map(of_mark).filter(|point| !is_over(point)).collect()
}

#[test]
fn killed_at_every_append_and_every_effect_the_example_ends_as_if_it_had_not_been() {
    let text = fs::read_to_string(script()).unwrap();
    let (whole, counts) = uninterrupted(&script());
    let without = CHANGING.map(|command| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script.yaml");
        let script = text.replace(command, &format!("{NOTHING}{command}"));
        assert_ne!(script, text);
        fs::write(&path, script).unwrap();
        let (ending, _) = uninterrupted(path.to_str().unwrap());
        let is_it = |entries: &&Vec<String>| entries[0].contains(&format!("\"command\":\"{command}"));
        let call = ending.log.calls.iter().find(|(_, entries)| is_it(entries)).unwrap().0.clone();
        (call, ending)
    });
    let expected = Expected { whole, without: without.into(), requests: counts[&Mark::Request] };
    let points = points(&counts);
    let place = Place::empty();
    let server = Server::of(&place, &script());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(&point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = check(&server, point, &expected) {
                        failures.lock().unwrap().push(format!("{point:?}: {why}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} points:\n{}", failures.len(), points.len(), failures.join("\n"));
}
