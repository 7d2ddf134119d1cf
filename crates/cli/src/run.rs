//! `hames run`: a task, to its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use hames::protocol::port::{Model, Observer};
use hames::protocol::{CancelCause, Command, Entry, Limits, Network, RunResult, SessionId};
use hames::session::Store;
use hames::{Agent, Isolation, SessionChoice, Standing};

use crate::args::{NetworkAccess, OutputFormat, RunOptions, SandboxMode};
use crate::config::{Origin, Setting, Settings};
use crate::exit::{self, Failure};
use crate::outlet::Outlet;
use crate::output::{self, Progress, Stream};
use crate::{choice, config, folder, identity, person, prompt, signal};

pub(crate) async fn run(options: Box<RunOptions>) -> Result<ExitCode, Failure> {
    let mut told = Told::Nothing(options.flags.output_format.unwrap_or(OutputFormat::Text));
    let ended = drive(&options, &mut told).await;
    if let (Err(Failure { message: Some(reason), .. }), Told::Nothing(format)) = (&ended, told) {
        // The failure is what the process ends with, whether or not this can be printed.
        let _ = output::no_result(format, reason);
    }
    ended
}

/// Whether the one result was printed, or the attempt made.
enum Told {
    /// Not yet; this is how it would be.
    Nothing(OutputFormat),
    Result,
}

async fn drive(options: &RunOptions, told: &mut Told) -> Result<ExitCode, Failure> {
    let prompt = prompt::blocks(options)?;
    let session = session(options)?;
    let workspace = workspace(options.flags.place.workspace.as_deref(), &session)?;
    let settings = config::load(&options.flags, &workspace)?;
    let format = settings.output_format.value;
    *told = Told::Nothing(format);
    let model = choice::model(&settings).await?;
    let cause = Arc::new(std::sync::Mutex::new(None));
    let outlet = Arc::new(Outlet::default());
    let commands = stream::select(remember_cause(signal::commands()?, Arc::clone(&cause)), unread(&outlet));
    let observer: Arc<dyn Observer> = match format {
        OutputFormat::Text | OutputFormat::Json => Arc::new(Progress::new(model.info())),
        OutputFormat::StreamJson => Arc::new(Stream(Arc::clone(&outlet))),
    };
    let mut agent = agent(&settings, &workspace, session, model, observer)?;
    for problem in agent.instructions().problems {
        output::note(&problem);
    }
    let before = agent.result();
    let (result, failure) = match agent.run_with(prompt, commands).await {
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
        if let (Command::Cancel { cause: this }, Ok(mut cause)) = (command, cause.lock()) {
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

fn agent(
    settings: &Settings,
    workspace: &Path,
    session: SessionChoice,
    model: Arc<dyn Model>,
    observer: Arc<dyn Observer>,
) -> Result<Agent, Failure> {
    let limits = Limits {
        max_turns: settings.max_turns.value,
        max_time_ms: settings.max_time.value,
        max_tokens: settings.max_tokens.value,
        max_cost_usd: settings.max_cost.value,
    };
    // What a resumed session was started with gives way to flags, and files add to either.
    let of = |list: &[Setting<String>], flags: bool| -> Vec<String> {
        let wanted = list.iter().filter(|setting| (setting.origin == Origin::Flag) == flags);
        wanted.map(|setting| setting.value.clone()).collect()
    };
    let isolation = isolation(settings.sandbox.value);
    let folders = folder::of(&settings.add_dir);
    let standing = Standing {
        checks: of(&settings.verify, false),
        protect: of(&settings.protect, false),
        unprotect: of(&settings.unprotect, false),
        added: folders.standing,
        isolation: Some(isolation),
        network: Some(network(settings.network.value)),
    };
    let mut builder = Agent::builder(model)
        .workspace(workspace)
        .limits(limits)
        .identity(identity::of_user())
        .session(session)
        .approver(person::approver(settings.output_format.value))
        .observer(observer)
        .system_prompt(prompt::system(settings)?)
        .standing(standing);
    if settings.sandbox.origin == Origin::Flag {
        builder = builder.isolation(isolation);
    }
    if settings.network.origin == Origin::Flag {
        builder = builder.network(network(settings.network.value));
    }
    builder = of(&settings.verify, true).into_iter().fold(builder, |builder, check| builder.check(check));
    builder = of(&settings.protect, true).into_iter().fold(builder, |builder, glob| builder.protect(glob));
    builder = of(&settings.unprotect, true).into_iter().fold(builder, |builder, glob| builder.unprotect(glob));
    builder = folders.asked.into_iter().fold(builder, hames::Builder::add_folder);
    builder.build().map_err(Failure::usage)
}

/// The real path of the folder to work in: as named, else that of the resumed session, else the current one.
pub(crate) fn workspace(named: Option<&Path>, session: &SessionChoice) -> Result<PathBuf, Failure> {
    let of_session = match (named, session) {
        (None, SessionChoice::Resume(id)) => last_workspace(id)?,
        _ => None,
    };
    let folder = named.map(Path::to_owned).or(of_session).unwrap_or_else(|| ".".into());
    folder.canonicalize().map_err(|error| {
        let folder = folder.display();
        Failure::usage(format!("The workspace {folder} cannot be opened: {error}. Name a folder that exists."))
    })
}

/// Where a session was last at work.
fn last_workspace(id: &SessionId) -> Result<Option<PathBuf>, Failure> {
    let records = store()?.read(id).map_err(Failure::usage)?;
    let opened = records.filter_map(Result::ok).filter_map(|record| match record.entry {
        Entry::Opened(opened) => Some(PathBuf::from(opened.workspace)),
        _ => None,
    });
    Ok(opened.last())
}

/// The store of all sessions.
pub(crate) fn store() -> Result<Store, Failure> {
    let folder = hames::sessions_folder()
        .ok_or_else(|| Failure::usage("Neither XDG_STATE_HOME nor HOME is set. Set one of them."))?;
    Ok(Store::new(folder))
}

fn session(options: &RunOptions) -> Result<SessionChoice, Failure> {
    match &options.resume {
        Some(text) => Ok(SessionChoice::Resume(store()?.resolve(text).map_err(Failure::usage)?)),
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

/// The network as the library calls it.
pub(crate) fn network(access: NetworkAccess) -> Network {
    match access {
        NetworkAccess::None => Network::None,
        NetworkAccess::Full => Network::Full,
    }
}
