//! What the scripts around a command report: records that end in NUL, on a pipe of their own.
//!
//! A command could write there too, through /proc. In a sandbox all that it could forge is where it
//! was and how much it left: its exit code is never taken from here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// What the scripts around the command report.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    pending: Vec<u8>,
    /// Everything is set up, the command starts.
    pub(crate) ready: bool,
    /// The working directory could not be entered.
    pub(crate) nowhere: bool,
    /// Where the command was at its end.
    pub(crate) cwd: Option<PathBuf>,
    /// How many processes it left.
    pub(crate) strays: Option<u32>,
    /// The code with which it ended, from a shell that stays.
    pub(crate) ended: Option<i32>,
}

impl Reports {
    /// Takes the next bytes of the reports.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.iter().position(|&byte| byte == 0) {
            let record: Vec<u8> = self.pending.drain(..=end).take(end).collect();
            self.take(&record);
        }
        // Records are short; whatever else a command wrote here is nothing.
        if self.pending.len() > 64 << 10 {
            self.pending.clear();
        }
    }

    fn take(&mut self, record: &[u8]) {
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<u32>().ok());
        if record == b"ready" {
            self.ready = true;
        } else if record == b"nowhere" {
            // After the first report it is the command that writes.
            self.nowhere = !self.ready;
        } else if let Some(path) = record.strip_prefix(b"cwd:") {
            self.cwd = Some(OsString::from_vec(path.to_vec()).into());
        } else if let Some(count) = record.strip_prefix(b"strays:") {
            self.strays = number(count);
        } else if let Some(code) = record.strip_prefix(b"ended:") {
            self.ended = number(code).and_then(|code| i32::try_from(code).ok());
        }
    }
}
