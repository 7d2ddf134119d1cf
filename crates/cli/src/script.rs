//! `hames script`: a scripted model served as a provider.

use std::process::ExitCode;

use hames::model::script::{Script, ScriptServer};

use crate::args::{ScriptDialect, ScriptVerb};
use crate::exit::Failure;
use crate::{output, signal};

pub(crate) async fn run(verb: ScriptVerb) -> Result<ExitCode, Failure> {
    let ScriptVerb::Serve { file, dialect: ScriptDialect::Anthropic, listen } = verb;
    let script = Script::load(&file).map_err(Failure::usage)?;
    let server = ScriptServer::bind(script, listen)
        .await
        .map_err(|error| Failure::usage(format!("Cannot listen on {listen}: {error}. Choose another --listen.")))?;
    output::print_line(&server.base_url())?;
    output::note(
        "Serving until interrupted. Use: ANTHROPIC_API_KEY=any ANTHROPIC_BASE_URL=<the line above> hames run …",
    );
    let mut commands = std::pin::pin!(signal::commands()?);
    futures_util::StreamExt::next(&mut commands).await;
    Ok(ExitCode::SUCCESS)
}
