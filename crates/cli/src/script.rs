//! `hames script`: a scripted model served as a provider.

use std::process::ExitCode;

use hames::model::preset;
use hames::model::script::{Script, ScriptServer};
use hames::protocol::Dialect;

use crate::args::{ScriptDialect, ScriptVerb};
use crate::exit::Failure;
use crate::{output, signal};

pub(crate) async fn run(verb: ScriptVerb) -> Result<ExitCode, Failure> {
    let ScriptVerb::Serve { file, dialect, listen } = verb;
    let dialect = match dialect {
        ScriptDialect::Anthropic => Dialect::Anthropic,
        ScriptDialect::OpenAi => Dialect::OpenAi,
        ScriptDialect::OpenAiChat => Dialect::OpenAiChat,
        ScriptDialect::Gemini => Dialect::Gemini,
    };
    let script = Script::load(&file).map_err(Failure::usage)?;
    let server = ScriptServer::bind_as(dialect, script, listen)
        .await
        .map_err(|error| Failure::usage(format!("Cannot listen on {listen}: {error}. Choose another --listen.")))?;
    output::print_line(&server.base_url())?;
    let preset = preset::of_dialect(dialect);
    let key = preset.key_variables.first().copied().unwrap_or_default();
    output::note(&format!(
        "Serving until interrupted. Use: {key}=any hames run --model {}/any --base-url <the line above> …",
        preset.name
    ));
    let mut commands = std::pin::pin!(signal::commands()?);
    futures_util::StreamExt::next(&mut commands).await;
    Ok(ExitCode::SUCCESS)
}
