//! The `hames` binary: arguments, output, exit codes. The first user of the library's face.

mod args;
mod choice;
mod config;
mod doctor;
mod duration;
mod exit;
mod export;
mod folder;
mod identity;
mod outlet;
mod output;
mod person;
mod prompt;
mod run;
mod sandbox;
mod script;
mod session;
mod signal;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, OutputFormat, Verb};
use crate::exit::Failure;

fn main() -> ExitCode {
    let arguments = args::with_short_run(std::env::args_os());
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(said) => return end(said_by_clap(&said, args::asked_format(&arguments))),
    };
    let done = match cli.verb {
        Verb::Run(options) => block_on(run::run(options)),
        Verb::Sandbox(options) => block_on(sandbox::run(options)),
        Verb::Config(flags) => config::show(&flags),
        Verb::Doctor(flags) => block_on(async move { doctor::examine(&flags).await }),
        Verb::Session(verb) => session::look(verb),
        Verb::Script(verb) => block_on(script::run(verb)),
    };
    end(done)
}

fn end(done: Result<ExitCode, Failure>) -> ExitCode {
    done.unwrap_or_else(|failure| {
        if let Some(message) = &failure.message {
            output::complain(message);
        }
        failure.code()
    })
}

/// Prints help, which is data, or what is wrong with the arguments, to which a format for programs has its object as well.
fn said_by_clap(said: &clap::Error, format: OutputFormat) -> Result<ExitCode, Failure> {
    match said.print() {
        Err(error) if !said.use_stderr() => return Err(Failure::output(&error)),
        _ if said.use_stderr() => {
            let text = said.to_string();
            output::no_result(format, text.lines().next().unwrap_or_default().trim_start_matches("error: "))?;
        }
        _ => {}
    }
    Ok(ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)))
}

/// One thread drives everything: the waiting is elsewhere, and a second thread would cost start time and memory.
fn block_on(future: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("The runtime cannot start: {error}.")))?;
    let done = runtime.block_on(future);
    // A blocking read of a stopped effect must not hold up the end of the process.
    runtime.shutdown_background();
    done
}
