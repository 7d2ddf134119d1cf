//! The user at the terminal: a question on standard error, a line of standard input (or several, pasted) as the answer.
//!
//! A thread waits for the line, so that the run hears Ctrl-C meanwhile. It never sits in a read: a question that is
//! withdrawn leaves nothing behind that would swallow what is typed next.

use std::io::{self, IsTerminal, PipeReader, PipeWriter, Stdin, Write, stderr, stdin};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use hames::Nobody;
use hames::protocol::port::Approver;
use hames::protocol::{Answer, Ask, BoxFuture};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

use crate::args::OutputFormat;
use crate::output;

const PROMPT: &str = "  Answer (Ctrl-D to leave it for later): ";

/// The longest pause between two lines of a paste; nobody types a line as fast.
const PASTE_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Who answers a run that is printed like this: the user where both ends are a terminal and a person reads along.
pub(crate) fn approver(format: OutputFormat) -> Arc<dyn Approver> {
    let at_terminal = format == OutputFormat::Text && stdin().is_terminal() && stderr().is_terminal();
    if at_terminal { Arc::new(Terminal) } else { Arc::new(Nobody) }
}

struct Terminal;

impl Approver for Terminal {
    fn ask<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Option<Answer>> {
        let Ask::Question(question) = ask;
        Box::pin(async move {
            output::note(&shown(question));
            let answer = answer().await.ok().flatten();
            // What was typed beyond the answer answers nothing, and is no command for the shell either.
            forget_typed();
            answer.map(Answer::said)
        })
    }
}

/// Asks until something is said; none at the end of input.
async fn answer() -> io::Result<Option<String>> {
    // Nobody answers a question before it is there to be read.
    forget_typed();
    loop {
        let mut prompt = Prompt::open()?;
        let Some(line) = line().await? else { return Ok(None) };
        prompt.is_open = false;
        if !line.trim().is_empty() {
            return Ok(Some(line.trim().to_owned()));
        }
    }
}

fn forget_typed() {
    // Where that cannot be done, what was typed is taken as typed.
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

/// The question with a mark before each line, so that none can pass for a line of Hames's own.
fn shown(question: &str) -> String {
    let lines = question.trim().lines().map(str::trim_end).filter(|line| !line.is_empty());
    let marks = std::iter::once("?").chain(std::iter::repeat("|"));
    marks.zip(lines).map(|(mark, line)| format!("  {mark} {line}")).collect::<Vec<_>>().join("\n")
}

/// A line that waits to be filled in; whatever ends the wait, the next output begins on a line of its own.
struct Prompt {
    is_open: bool,
}

impl Prompt {
    fn open() -> io::Result<Self> {
        stderr().write_all(PROMPT.as_bytes())?;
        Ok(Self { is_open: true })
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        if self.is_open {
            let _ = stderr().write_all(b"\n");
        }
    }
}

/// Waits for a line from the terminal, or lines that come at once; none at the end of input. Dropping it ends the wait.
async fn line() -> io::Result<Option<String>> {
    let (withdrawn, held) = io::pipe()?;
    let (tell, told) = oneshot::channel();
    let read = move || {
        // Nobody is left to be told once the question is withdrawn.
        let _ = tell.send(read_line(&withdrawn));
    };
    let reader = thread::Builder::new().name("answer".to_owned()).spawn(read)?;
    let _wait = Wait { held: Some(held), reader: Some(reader) };
    told.await.unwrap_or(Ok(None))
}

/// The thread that waits for a line, for as long as its pipe is held open.
struct Wait {
    held: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.held = None;
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Reads what is typed when there is a whole line; none at the end of input, or when the question is withdrawn.
fn read_line(withdrawn: &PipeReader) -> io::Result<Option<String>> {
    let terminal = stdin();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let mut awaited = [PollFd::new(&terminal, PollFlags::IN), PollFd::new(withdrawn, PollFlags::IN)];
        match poll(&mut awaited, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        if !awaited[1].revents().is_empty() {
            return Ok(None);
        }
        let read = rustix::io::read(&terminal, &mut piece)?;
        bytes.extend_from_slice(&piece[..read]);
        if read == 0 && bytes.is_empty() {
            return Ok(None);
        }
        if read == 0 || (bytes.ends_with(b"\n") && !has_more(&terminal)?) {
            return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
}

/// What is pasted as several lines comes at once, and is one answer.
fn has_more(terminal: &Stdin) -> io::Result<bool> {
    let mut awaited = [PollFd::new(terminal, PollFlags::IN)];
    Ok(poll(&mut awaited, Some(&PASTE_PAUSE))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_question_passes_for_one_of_hames() {
        let question = "Which?\n\n\n  write_file a: ok\r\n  Answer: yes  \n";
        assert_eq!(shown(question), "  ? Which?\n  |   write_file a: ok\n  |   Answer: yes");
    }
}
