//! The cost of a process: time, processor time with that of its children, and the peak of its memory.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Usage, UsageWho, getrusage};

/// How often the peak of memory is read; it only grows, so that the last reading counts.
const LOOK: Duration = Duration::from_millis(2);

/// What something cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) wall_ms: f64,
    pub(super) cpu_s: f64,
    pub(super) peak_mib: f64,
}

/// A run of Hames.
pub(super) struct Run {
    pub(super) cost: Cost,
    pub(super) log: Vec<u8>,
}

/// The same thing, measured several times.
pub(super) struct Repeated(pub(super) Vec<Cost>);

impl Repeated {
    pub(super) fn of(times: usize, measure: impl FnMut() -> anyhow::Result<Cost>) -> anyhow::Result<Self> {
        Ok(Self(std::iter::repeat_with(measure).take(times).collect::<anyhow::Result<_>>()?))
    }

    pub(super) fn median(&self) -> Cost {
        let of = |part: fn(&Cost) -> f64| median(&mut self.0.iter().map(part).collect::<Vec<_>>());
        Cost { wall_ms: of(|cost| cost.wall_ms), cpu_s: of(|cost| cost.cpu_s), peak_mib: of(|cost| cost.peak_mib) }
    }

    pub(super) fn wall_ms(&self) -> f64 {
        self.median().wall_ms
    }

    pub(super) fn peak_mib(&self) -> f64 {
        self.median().peak_mib
    }
}

/// The median; zero of nothing.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Runs a command to its successful end.
pub(super) fn cost_of(command: &mut Command) -> anyhow::Result<Cost> {
    let cpu_before = cpu_s(UsageWho::RUSAGE_CHILDREN)?;
    let began = Instant::now();
    let mut child = command.spawn().with_context(|| format!("{command:?} could not be started"))?;
    let status = format!("/proc/{}/status", child.id());
    // Waiting has a thread of its own, so that looking does not delay it.
    let waiting = std::thread::spawn(move || child.wait().map(|status| (status, began.elapsed())));
    let mut peak_kib = 0.0_f64;
    while !waiting.is_finished() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        peak_kib = peak_kib.max(kib.unwrap_or_default());
        std::thread::sleep(LOOK);
    }
    let (status, wall) = waiting.join().map_err(|_| anyhow::anyhow!("waiting for {command:?} failed"))??;
    ensure!(status.success(), "{command:?} failed: {status}");
    let cpu_s = cpu_s(UsageWho::RUSAGE_CHILDREN)? - cpu_before;
    Ok(Cost { wall_ms: wall.as_secs_f64() * 1e3, cpu_s, peak_mib: peak_kib / 1024.0 })
}

/// Processor time of this process or of its children that have ended, in seconds.
pub(super) fn cpu_s(who: UsageWho) -> anyhow::Result<f64> {
    let seconds = |usage: Usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) as f64 + (user.tv_usec() + system.tv_usec()) as f64 / 1e6
    };
    Ok(seconds(getrusage(who)?))
}
