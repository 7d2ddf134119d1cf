//! `hames run`: a task, to its end.

use std::process::ExitCode;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use hames::protocol::port::{Model, Observer};
use hames::protocol::{CancelCause, Command, Limits, RunResult};
use hames::session::Store;
use hames::{Agent, Isolation, SessionChoice};

use crate::args::{OutputFormat, RunOptions, SandboxMode};
use crate::exit::{self, Failure};
use crate::outlet::Outlet;
use crate::output::{self, Progress, Stream};
use crate::{choice, identity, prompt, signal};

pub(crate) async fn run(options: Box<RunOptions>) -> Result<ExitCode, Failure> {
    let format = options.output_format;
    let mut told = Told::Nothing;
    let ended = drive(&options, &mut told).await;
    if let (Err(Failure { message: Some(reason), .. }), Told::Nothing) = (&ended, told) {
        // The failure is what the process ends with, whether or not this can be printed.
        let _ = output::no_result(format, reason);
    }
    ended
}

/// Whether the one result was printed, or the attempt made.
enum Told {
    Nothing,
    Result,
}

async fn drive(options: &RunOptions, told: &mut Told) -> Result<ExitCode, Failure> {
    let prompt = prompt::read(options)?;
    let model = choice::model(options.model.as_deref(), options.base_url.as_deref(), options.effort)?;
    let cause = Arc::new(std::sync::Mutex::new(None));
    let outlet = Arc::new(Outlet::default());
    let commands = stream::select(remember_cause(signal::commands()?, Arc::clone(&cause)), unread(&outlet));
    let format = options.output_format;
    let observer: Arc<dyn Observer> = match format {
        OutputFormat::Text | OutputFormat::Json => Arc::new(Progress::new(model.info())),
        OutputFormat::StreamJson => Arc::new(Stream(Arc::clone(&outlet))),
    };
    let mut agent = agent(options, model, observer)?;
    for problem in agent.instructions().problems {
        output::note(&problem);
    }
    let before = agent.result();
    let (result, failure) = match agent.run_with(&prompt, commands).await {
        Ok(result) => (result, None),
        Err(problem @ hames::AgentProblem::NothingToContinue(_)) => return Err(Failure::usage(problem)),
        // The log cannot be written any more: what is known is still told, and the code says that it went wrong.
        Err(problem) => match agent.result().filter(|result| before.as_ref() != Some(result)) {
            Some(result) => {
                let reason = problem.to_string();
                (RunResult { reason, ..result }, Some(Failure::internal(problem)))
            }
            None => return Err(Failure::internal(problem)),
        },
    };
    *told = Told::Result;
    output::result(format, &result)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    outlet.check()?;
    let cause = cause.lock().ok().and_then(|cause| *cause);
    Ok(exit::of_outcome(result.outcome, cause))
}

/// Passes commands on and keeps which signal it was, for the exit code.
fn remember_cause(
    commands: impl futures_util::Stream<Item = Command> + Send,
    cause: Arc<std::sync::Mutex<Option<CancelCause>>>,
) -> impl futures_util::Stream<Item = Command> + Send {
    StreamExt::inspect(commands, move |command| {
        let Command::Cancel { cause: this } = command;
        if let Ok(mut cause) = cause.lock() {
            *cause = Some(*this);
        }
    })
}

/// Cancels the run when nobody takes its events any more.
fn unread(outlet: &Arc<Outlet>) -> impl futures_util::Stream<Item = Command> + Send + use<> {
    let outlet = Arc::clone(outlet);
    stream::once(async move {
        outlet.failed().await;
        Command::Cancel { cause: CancelCause::Terminate }
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
