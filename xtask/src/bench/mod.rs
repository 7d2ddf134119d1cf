//! `cargo xtask bench`: what Hames costs beside a model, against a floor measured in the same run.
//!
//! The floor is a bare loop that posts the same bytes to the same server, reads the same file or spawns the same command,
//! and writes and syncs the same records. Everything is repeated in turn, Hames and floor after each other, so that a
//! machine that gets slower slows both; the medians go to `docs/performance.md`.

mod floor;
mod measure;
mod relay;
mod report;
mod script;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use self::floor::Work;
use self::measure::{Cost, Repeated, Run};
use self::relay::Relay;
use self::report::Figures;
use self::script::{Action, Server};

/// How often each is measured.
const REPETITIONS: usize = 5;
/// The same for what takes long.
const LONG_REPETITIONS: usize = 3;
/// What a tool prints at most here, in bytes.
const MUCH: usize = 50_000_000;

/// Measures everything and writes the page.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let hames = build(root)?;
    let bench = Bench { hames, folder: Folder::new()? };
    let figures = bench.figures()?;
    let page = root.join("docs/performance.md");
    fs::write(&page, report::page(&figures)).with_context(|| format!("`{}` cannot be written", page.display()))?;
    println!("Wrote {}.", page.display());
    Ok(())
}

/// Builds the binary as it is released.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built =
        Command::new(cargo).args(["build", "--release", "--locked", "-p", "hames-cli"]).current_dir(root).status()?;
    ensure!(built.success(), "The release binary could not be built.");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("release/hames"))
}

/// A temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("hames-bench-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Bench {
    hames: PathBuf,
    folder: Folder,
}

impl Bench {
    fn figures(&self) -> anyhow::Result<Figures> {
        let (start, start_floor) = self.start()?;
        let nothing = Repeated::of(REPETITIONS, || self.hames(Action::Answer, 0).map(|run| run.cost))?;
        let start_ms = nothing.wall_ms();
        let (read_50, _) = self.turns(Action::Read, 50, REPETITIONS, start_ms)?;
        let (read_1000, _) = self.turns(Action::Read, 1_000, LONG_REPETITIONS, start_ms)?;
        let (bash_50, _) = self.turns(Action::Bash, 50, REPETITIONS, start_ms)?;
        let (bash_1000, bash_cost) = self.turns(Action::Bash, 1_000, LONG_REPETITIONS, start_ms)?;
        let memory_300 = self.hames(Action::Read, 300)?.cost.peak_mib;
        let (mut bare, mut wrapped) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            bare.push(spawned(Command::new("bash").args(["-c", "true"]))?);
            wrapped.push(spawned(&mut bubblewrap())?);
        }
        let mut much = Vec::new();
        let mut much_floor = Vec::new();
        for _ in 0..REPETITIONS {
            much.push(
                (self.hames(Action::Print(MUCH), 1)?.cost.wall_ms - self.hames(Action::Bash, 1)?.cost.wall_ms).max(0.0),
            );
            much_floor.push(spawned(Command::new("bash").args(["-c", &format!("head -c {MUCH} /dev/zero")]))?);
        }
        Ok(Figures {
            start,
            start_floor,
            read: [read_50, read_1000],
            bash: [bash_50, bash_1000],
            cpu: bash_cost,
            memory: [nothing.peak_mib(), memory_300],
            spawn: [measure::median(&mut bare), measure::median(&mut wrapped)],
            much: (measure::median(&mut much), measure::median(&mut much_floor)),
        })
    }

    /// From the start of the process to its first request, and of one that does nothing else; in milliseconds.
    fn start(&self) -> anyhow::Result<(f64, f64)> {
        let server = Server::start(&self.hames, &self.folder.0, Action::Answer, 0)?;
        let (mut starts, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..4 * REPETITIONS {
            let relay = Relay::to(&server.address)?;
            let began = Instant::now();
            self.run(&relay.url())?;
            starts.push(relay.first_after(began)?);
            let request = relay.requests().into_iter().next().context("no request was sent")?;
            let file = self.folder.0.join("request");
            fs::write(&file, &request)?;
            let relay = Relay::to(&server.address)?;
            let began = Instant::now();
            let me = std::env::current_exe()?;
            let posted = Command::new(me).args(["bench-post", &relay.address()]).arg(&file).status()?;
            ensure!(posted.success(), "The floor's request failed.");
            floors.push(relay.first_after(began)?);
        }
        Ok((measure::median(&mut starts), measure::median(&mut floors)))
    }

    /// The time of a turn beyond the start, and the floor's, in milliseconds; and what the whole cost.
    fn turns(
        &self,
        action: Action,
        turns: usize,
        times: usize,
        start_ms: f64,
    ) -> anyhow::Result<((f64, f64), (Cost, Cost))> {
        let (mut costs, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..times {
            let recorded = self.record(action, turns)?;
            costs.push(self.hames(action, turns)?.cost);
            floors.push(recorded.replay(&self.hames, &self.folder.0)?);
        }
        let (cost, floor) = (Repeated(costs), Repeated(floors));
        let count = turns as f64;
        let per_turn = ((cost.wall_ms() - start_ms) / count, floor.wall_ms() / count);
        eprintln!("{action:?} × {turns}: {:.2} ms a turn, floor {:.2} ms", per_turn.0, per_turn.1);
        Ok((per_turn, (cost.median(), floor.median())))
    }

    /// Runs Hames on a script, straight on the server.
    fn hames(&self, action: Action, turns: usize) -> anyhow::Result<Run> {
        let server = Server::start(&self.hames, &self.folder.0, action, turns)?;
        self.run(&format!("http://{}", server.address))
    }

    /// Runs Hames once and keeps what it sent and logged.
    fn record(&self, action: Action, turns: usize) -> anyhow::Result<Work> {
        let server = Server::start(&self.hames, &self.folder.0, action, turns)?;
        let relay = Relay::to(&server.address)?;
        let run = self.run(&relay.url())?;
        Ok(Work { action, turns, requests: relay.requests(), log: run.log, workspace: self.folder.0.join("work") })
    }

    fn run(&self, url: &str) -> anyhow::Result<Run> {
        let (home, work) = (self.folder.0.join("home"), self.folder.0.join("work"));
        for folder in [&home, &work] {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
            fs::create_dir_all(folder)?;
        }
        fs::write(work.join("file.txt"), "A line of the file that is read.\n")?;
        let mut command = Command::new(&self.hames);
        command.args(["run", "--model", "anthropic/any", "--output-format", "json", "--max-turns", "100000"]);
        command.args(["--max-tokens", "1000000000", "go"]).current_dir(&work).env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", &home);
        command.env("ANTHROPIC_API_KEY", "any").env("ANTHROPIC_BASE_URL", url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let cost = measure::cost_of(&mut command)?;
        Ok(Run { cost, log: log_beneath(&home.join(".local/state/hames/sessions"))? })
    }
}

/// The only log beneath a folder.
fn log_beneath(folder: &Path) -> anyhow::Result<Vec<u8>> {
    for shelf in fs::read_dir(folder).context("Hames left no session")? {
        for session in fs::read_dir(shelf?.path())? {
            let log = session?.path().join("log.jsonl");
            if log.is_file() {
                return Ok(fs::read(log)?);
            }
        }
    }
    anyhow::bail!("Hames left no log.")
}

/// Bubblewrap with what any sandbox of commands needs, and nothing of Hames.
fn bubblewrap() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    command.args(["--tmpfs", "/tmp", "bash", "-c", "true"]);
    command
}

/// How long a command takes to its end, its output read, in milliseconds.
fn spawned(command: &mut Command) -> anyhow::Result<f64> {
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

pub(crate) use self::floor::post;
