//! The page: each figure with its floor, their ratio, and whether the goal is met.

use std::fmt::Write as _;
use std::fs;

use super::measure::Cost;

/// What was measured; times in milliseconds, memory in MiB.
pub(super) struct Figures {
    pub(super) start: f64,
    pub(super) start_floor: f64,
    /// A turn and its floor, over 50 and over 1,000 turns.
    pub(super) read: [(f64, f64); 2],
    pub(super) bash: [(f64, f64); 2],
    /// 1,000 turns of `bash` and their floor.
    pub(super) cpu: (Cost, Cost),
    /// After one turn, and after 300.
    pub(super) memory: [f64; 2],
    /// `bash -c true`, and the same in bubblewrap.
    pub(super) spawn: [f64; 2],
    /// 50 MB of output and its floor.
    pub(super) much: (f64, f64),
}

/// The most that Hames may take, as a multiple of the floor.
const FACTOR: f64 = 1.5;
const START_MS: f64 = 20.0;
const MEMORY_MIB: [f64; 2] = [20.0, 40.0];

/// Writes the page.
pub(super) fn page(figures: &Figures) -> String {
    let mut page = format!(
        "# Performance\n\nWhat Hames costs beside a model, made by `cargo xtask bench`. Each figure is a median, measured in turn with its\n\
         *floor*: a bare loop that posts the same bytes to the same server, reads the same file or spawns the same command\n\
         without a sandbox, and writes and syncs the same records.\n\nMeasured on {}.\n\n\
         | what | Hames | floor | ratio | goal | met |\n|---|---|---|---|---|---|\n",
        machine()
    );
    let mut row = |what: &str, value: String, floor: String, ratio: String, goal: &str, met: Option<bool>| {
        let met = met.map_or("–", |met| if met { "yes" } else { "no" });
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {what} | {value} | {floor} | {ratio} | {goal} | {met} |");
    };
    let ms = |value: f64| format!("{value:.2} ms");
    let ratio = |value: f64, floor: f64| format!("{:.2}", value / floor);
    row(
        "start to first request",
        ms(figures.start),
        ms(figures.start_floor),
        ratio(figures.start, figures.start_floor),
        "1.5× the floor, under 20 ms",
        Some(figures.start <= FACTOR * figures.start_floor && figures.start < START_MS),
    );
    for (turns, (value, floor)) in ["50", "1,000"].iter().zip(figures.read) {
        let met = value <= FACTOR * floor;
        row(
            &format!("a turn of `read_file`, over {turns}"),
            ms(value),
            ms(floor),
            ratio(value, floor),
            "1.5× the floor",
            Some(met),
        );
    }
    let added = figures.spawn[1] - figures.spawn[0];
    for (turns, (value, floor)) in ["50", "1,000"].iter().zip(figures.bash) {
        let goal = "1.5× the floor and what bubblewrap adds";
        let met = value <= FACTOR * floor + added;
        row(
            &format!("a turn of `bash` (`echo`), over {turns}"),
            ms(value),
            ms(floor),
            ratio(value, floor),
            goal,
            Some(met),
        );
    }
    let (cpu, floor) = figures.cpu;
    row(
        "processor time of 1,000 turns of `bash`",
        format!("{:.2} s", cpu.cpu_s),
        format!("{:.2} s", floor.cpu_s),
        ratio(cpu.cpu_s, floor.cpu_s),
        "–",
        None,
    );
    for ((what, value), goal) in ["one turn", "300 turns"].iter().zip(figures.memory).zip(MEMORY_MIB) {
        let goal_text = format!("{goal:.0} MiB");
        let value_text = format!("{value:.1} MiB");
        row(&format!("peak memory, {what}"), value_text, "–".into(), "–".into(), &goal_text, Some(value <= goal));
    }
    row(
        "`bash -c true`, bare and in bubblewrap alone",
        ms(figures.spawn[1]),
        ms(figures.spawn[0]),
        ratio(figures.spawn[1], figures.spawn[0]),
        "–",
        None,
    );
    let by_hames = figures.bash[0].0 - figures.read[0].0;
    row(
        "a command by Hames (a turn of `bash` less one of `read_file`)",
        ms(by_hames),
        ms(figures.spawn[0]),
        ratio(by_hames, figures.spawn[0]),
        "–",
        None,
    );
    row(
        "a tool that prints 50 MB",
        ms(figures.much.0),
        ms(figures.much.1),
        ratio(figures.much.0, figures.much.1),
        "–",
        None,
    );
    page
}

/// The machine in words that name nobody's.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "an unnamed processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel: Vec<String> = read("/proc/sys/kernel/osrelease").split('.').take(2).map(str::to_owned).collect();
    let memory = field(&read("/proc/meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    format!("{cores} cores of {model}, {} GiB of memory, Linux {}", memory.unwrap_or_default() >> 20, kernel.join("."))
}
