//! Where the prompt comes from.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hames::context::SystemPrompt;

use crate::args::RunOptions;
use crate::config::Settings;
use crate::exit::Failure;
use crate::output;

/// The longest prompt: beyond any context window, and one entry of the log even when every byte has to be escaped.
const LONGEST_BYTES: usize = 5 << 20;

/// How long standard input may be silent before it is said what is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The prompt as given, else as piped; empty when a session is resumed without one.
///
/// With a prompt given, standard input is not touched: it may be a pipe that never ends.
pub(crate) fn read(options: &RunOptions) -> Result<String, Failure> {
    let resumes = options.resume.is_some() || options.continue_last;
    let given = match &options.prompt {
        Some(prompt) => Some(prompt.clone()),
        None if resumes || std::io::stdin().is_terminal() => None,
        None => Some(piped()?).filter(|prompt| !prompt.trim().is_empty()),
    };
    match given {
        Some(prompt) if prompt.trim().is_empty() => {
            Err(Failure::usage("The prompt is empty. Say what is to be done: hames run \"Fix the failing test\"."))
        }
        Some(prompt) => Ok(prompt),
        None if resumes => Ok(String::new()),
        None => Err(Failure::usage(
            "No prompt. Give one, hames run \"Fix the failing test\", or pipe it into standard input.",
        )),
    }
}

/// The changes that the user makes to the instructions.
pub(crate) fn system(settings: &Settings) -> Result<SystemPrompt, Failure> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!("The instructions in {} cannot be read: {error}.", file.display()))
        })?;
        match text.trim().is_empty() {
            true => Err(Failure::usage(format!("{} is empty. Write instructions into it.", file.display()))),
            false => Ok(text),
        }
    };
    let replacement = settings.system_prompt_file.value.as_ref().map(read).transpose()?;
    Ok(SystemPrompt { replacement, addition: settings.append_system_prompt.value.clone() })
}

/// Reads standard input to its end. It may be a pipe that nobody writes to: whoever waits for that is told so.
fn piped() -> Result<String, Failure> {
    let (done, is_done) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = std::io::stdin().take(LONGEST_BYTES as u64 + 1).read_to_end(&mut bytes);
        let _ = done.send(read.map(|_| bytes));
    });
    let read = is_done.recv_timeout(PATIENCE).or_else(|_| {
        output::note("Reading the prompt from standard input, to its end.");
        is_done.recv()
    });
    let bytes = read
        .unwrap_or_else(|gone| Err(std::io::Error::other(gone)))
        .map_err(|error| Failure::usage(format!("The prompt cannot be read from standard input: {error}.")))?;
    if bytes.len() > LONGEST_BYTES {
        return Err(Failure::usage(format!(
            "The prompt has more than {LONGEST_BYTES} bytes, which no model takes. Put the text into a file of the workspace and name it in the prompt."
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure::usage("The prompt on standard input is not UTF-8 text."))
}
