//! `hames run`: a task, to its end.

use std::process::ExitCode;
use std::sync::Arc;

use hames::protocol::port::{Model, Observer};
use hames::protocol::{CancelCause, Command, Limits};
use hames::session::Store;
use hames::{Agent, Isolation, SessionChoice};

use crate::args::{OutputFormat, RunOptions, SandboxMode};
use crate::exit::{self, Failure};
use crate::output::{self, Progress, Stream};
use crate::{choice, identity, prompt, signal};

pub(crate) async fn run(options: Box<RunOptions>) -> Result<ExitCode, Failure> {
    let prompt = prompt::read(&options)?;
    let model = choice::model(options.model.as_deref(), options.base_url.as_deref(), options.effort)?;
    let cause = Arc::new(std::sync::Mutex::new(None));
    let commands = remember_cause(signal::commands()?, Arc::clone(&cause));
    let format = options.output_format;
    let observer: Arc<dyn Observer> = match format {
        OutputFormat::Text | OutputFormat::Json => Arc::new(Progress::new(model.info())),
        OutputFormat::StreamJson => Arc::new(Stream),
    };
    let mut agent = agent(&options, model, observer)?;
    for problem in agent.instructions().problems {
        output::note(&problem);
    }
    let ended = agent.run_with(&prompt, commands).await;
    let result = match ended {
        Ok(result) => result,
        Err(hames::AgentProblem::NothingToContinue(text)) => {
            return Err(Failure::usage(hames::AgentProblem::NothingToContinue(text)));
        }
        Err(problem) => match agent.result() {
            // The log cannot be written any more: what is known is still told, and the code says that it went wrong.
            Some(result) => {
                output::result(format, &result)?;
                return Err(Failure::internal(problem));
            }
            None => return Err(Failure::internal(problem)),
        },
    };
    output::result(format, &result)?;
    let cause = cause.lock().ok().and_then(|cause| *cause);
    Ok(exit::of_outcome(result.outcome, cause))
}

/// Passes commands on and keeps which signal it was, for the exit code.
fn remember_cause(
    commands: impl futures_util::Stream<Item = Command> + Send,
    cause: Arc<std::sync::Mutex<Option<CancelCause>>>,
) -> impl futures_util::Stream<Item = Command> + Send {
    futures_util::StreamExt::inspect(commands, move |command| {
        let Command::Cancel { cause: this } = command;
        if let Ok(mut cause) = cause.lock() {
            *cause = Some(*this);
        }
    })
}

fn agent(options: &RunOptions, model: Arc<dyn Model>, observer: Arc<dyn Observer>) -> Result<Agent, Failure> {
    let limits = Limits {
        max_turns: options.max_turns,
        max_time_ms: options.max_time,
        max_tokens: options.max_tokens,
        max_cost_usd: options.max_cost,
    };
    let mut builder = Agent::builder(model)
        .limits(limits)
        .identity(identity::of_user())
        .session(session(options)?)
        .observer(observer)
        .system_prompt(prompt::system(options)?);
    if let Some(mode) = options.place.sandbox {
        builder = builder.isolation(isolation(mode));
    }
    if let Some(folder) = &options.place.workspace {
        builder = builder.workspace(folder);
    }
    builder = options.verify.iter().fold(builder, |builder, check| builder.check(check));
    builder = options.place.protect.iter().fold(builder, |builder, glob| builder.protect(glob));
    builder = options.place.unprotect.iter().fold(builder, |builder, glob| builder.unprotect(glob));
    builder.build().map_err(Failure::usage)
}

fn session(options: &RunOptions) -> Result<SessionChoice, Failure> {
    match &options.resume {
        Some(text) => {
            let folder = hames::sessions_folder()
                .ok_or_else(|| Failure::usage("Neither XDG_STATE_HOME nor HOME is set. Set one of them."))?;
            Ok(SessionChoice::Resume(Store::new(folder).resolve(text).map_err(Failure::usage)?))
        }
        None if options.continue_last => Ok(SessionChoice::Latest),
        None => Ok(SessionChoice::New),
    }
}

/// The mode as the library calls it.
pub(crate) fn isolation(mode: SandboxMode) -> Isolation {
    match mode {
        SandboxMode::WorkspaceWrite => Isolation::WorkspaceWrite,
        SandboxMode::ReadOnly => Isolation::ReadOnly,
        SandboxMode::Off => Isolation::Off,
    }
}
