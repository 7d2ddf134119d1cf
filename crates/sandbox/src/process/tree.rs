//! Process trees as /proc shows them: who descends from whom, and ending all of them.

use std::collections::VecDeque;
use std::fs;

use rustix::process::{Pid, Signal};

/// The living descendants of a process, at most about `limit` of them; zombies are not counted.
pub(crate) fn descendants(root: Pid, limit: usize) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut queue = VecDeque::from([root]);
    while let Some(parent) = queue.pop_front() {
        for child in children(parent) {
            if !is_zombie(child) {
                found.push(child);
            }
            queue.push_back(child);
        }
        if found.len() >= limit {
            break;
        }
    }
    found
}

/// Ends every descendant of a process that adopts orphans, until none is left or the rounds are used up.
///
/// All are stopped before any is ended, so that a process which keeps forking is caught in a later round.
pub(crate) fn end_descendants(subreaper: Pid) {
    for _ in 0..1_000 {
        let tree = descendants(subreaper, usize::MAX);
        if tree.is_empty() {
            return;
        }
        for signal in [Signal::STOP, Signal::KILL] {
            for &process in &tree {
                // A process that is gone by now is what was wanted.
                let _ = rustix::process::kill_process(process, signal);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// The children of all threads of a process.
fn children(parent: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else { return found };
    for task in tasks.flatten() {
        let listed = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(listed.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    found
}

fn is_zombie(process: Pid) -> bool {
    // `pid (name) state …`; the name may hold anything, so the state is found from the right.
    let stat = fs::read(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    let end_of_name = stat.iter().rposition(|&byte| byte == b')');
    end_of_name.is_none_or(|end| matches!(stat.get(end + 2), None | Some(b'Z' | b'X')))
}
