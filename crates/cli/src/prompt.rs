//! Where the prompt comes from.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hames::context::SystemPrompt;
use hames::protocol::Block;
use hames::{Image, PlainFile, read_beneath};

use crate::args::RunOptions;
use crate::config::Settings;
use crate::exit::Failure;
use crate::output;

/// The longest prompt: beyond any context window, and one entry of the log even when every byte has to be escaped.
const LONGEST_BYTES: usize = 5 << 20;

/// How long standard input may be silent before it is said what is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest image file that is looked at, in bytes; what a model takes is smaller.
const IMAGE_FILE_LIMIT_BYTES: u64 = 64 << 20;

/// The most that all images of a prompt may be in base64, in bytes: providers take requests of 32 MB, and the prompt is
/// a part of every one.
const IMAGES_LIMIT_BYTES: usize = 20 << 20;

/// What the model is given: the images, each after its name, then the prompt. Empty when a session is resumed with
/// neither.
pub(crate) fn blocks(options: &RunOptions) -> Result<Vec<Block>, Failure> {
    let prompt = read(options)?;
    let mut blocks = Vec::new();
    let mut bytes = 0;
    for path in &options.image {
        let image = image(path)?;
        if let Block::Image { data, .. } = &image {
            bytes += data.len();
        }
        blocks.push(Block::text(format!("{}:", path.display())));
        blocks.push(image);
    }
    if bytes > IMAGES_LIMIT_BYTES {
        return Err(Failure::usage(format!(
            "The images are {bytes} bytes together in base64, more than {IMAGES_LIMIT_BYTES}. Give fewer, or smaller ones."
        )));
    }
    if !prompt.is_empty() {
        blocks.push(Block::text(prompt));
    }
    Ok(blocks)
}

fn image(path: &Path) -> Result<Block, Failure> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(IMAGE_FILE_LIMIT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::usage(format!("The image {name} cannot be read: {error}. Name an image file.")))?;
    if bytes.len() as u64 > IMAGE_FILE_LIMIT_BYTES {
        return Err(Failure::usage(format!(
            "The image {name} has more than {IMAGE_FILE_LIMIT_BYTES} bytes. Scale it down or crop it first."
        )));
    }
    Ok(Image::of(&name, &bytes).map_err(Failure::usage)?.block())
}

/// The prompt as given, else as piped; empty when a session is resumed without one.
///
/// With a prompt given, standard input is not touched: it may be a pipe that never ends.
fn read(options: &RunOptions) -> Result<String, Failure> {
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
    let replacement = settings.system_prompt_file.value.as_deref().map(instructions).transpose()?;
    Ok(SystemPrompt { replacement, addition: settings.append_system_prompt.value.clone() })
}

/// Reads instructions from a plain file: a pipe that nobody writes to would be waited for without an end.
fn instructions(file: &Path) -> Result<String, Failure> {
    let refused = |why: &str| {
        let file = file.display();
        Failure::usage(format!("The instructions in {file} cannot be used: {why}. Name a text file in UTF-8."))
    };
    let real = file.canonicalize().map_err(|error| refused(&error.to_string()))?;
    let root = Path::new("/");
    let bytes = match read_beneath(root, real.strip_prefix(root).unwrap_or(&real), LONGEST_BYTES) {
        PlainFile::Read { bytes, .. } => bytes,
        PlainFile::Absent => return Err(refused("there is no such file")),
        PlainFile::TooLarge(size) => return Err(refused(&format!("it has {size} bytes, more than any model takes"))),
        PlainFile::Refused(why) => return Err(refused(&why)),
    };
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8 text"))?;
    if text.trim().is_empty() { Err(refused("it is empty")) } else { Ok(text) }
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
