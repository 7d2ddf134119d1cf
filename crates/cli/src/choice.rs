//! Which model is used, and how it is reached.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hames::model::script::{Script, Scripted};
use hames::model::{Client, ClientConfig, Effort, catalogue};
use hames::protocol::port::Model;

use crate::args::EffortLevel;
use crate::config::{KeySource, Origin, Provider, Settings};
use crate::exit::Failure;
use crate::output;

const FORMS: &str = "Name it as `anthropic/NAME` or `scripted:FILE`.";

/// How long a command may take to print a key; a person may have to unlock something.
const KEY_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Finds the model that was asked for, or that of the first key found, which is said on standard error.
pub(crate) async fn model(settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let Some(asked) = settings.model.value.as_deref() else {
        if variable(KEY_VARIABLE).is_none() {
            return Err(Failure::usage(
                "No model: set ANTHROPIC_API_KEY, or name a scripted model with `--model scripted:FILE`.",
            ));
        }
        let name = catalogue::DEFAULT_ANTHROPIC;
        output::note(&format!("Using anthropic/{name}, the default with ANTHROPIC_API_KEY; choose with --model."));
        return anthropic(name, settings);
    };
    if matches!(asked, "anthropic/" | "scripted:") {
        return Err(Failure::usage(format!("`{asked}` is half a model. {FORMS}")));
    }
    if let Some(file) = asked.strip_prefix("scripted:") {
        if settings.effort.value.is_some() {
            output::note("A scripted model plays its replies whatever the effort: it is left out.");
        }
        let script = Script::load(Path::new(file)).map_err(Failure::usage)?;
        return Ok(Arc::new(Scripted::new(script)));
    }
    let Some((provider, name)) = asked.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Err(Failure::usage(format!("`{asked}` names no provider. {FORMS}")));
    };
    match settings.providers.get(provider) {
        _ if provider == "anthropic" => anthropic(name, settings),
        Some(configured) => of_user(provider, configured, name, settings).await,
        None => {
            let known: String = settings.providers.keys().map(|known| format!(", `{known}/NAME`")).collect();
            let known =
                if known.is_empty() { String::new() } else { format!(" Configured{}.", known.replacen(',', ":", 1)) };
            Err(Failure::usage(format!("There is no provider `{provider}`. {FORMS}{known}")))
        }
    }
}

/// The variable of Anthropic's key.
pub(crate) const KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";

/// A variable's value; none when it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
}

fn anthropic(name: &str, settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let key =
        variable(KEY_VARIABLE).ok_or_else(|| Failure::usage("ANTHROPIC_API_KEY is not set. Set it to your key."))?;
    let config = ClientConfig {
        base_url: settings.base_url.value.clone(),
        effort: settings.effort.value.map(level),
        ..ClientConfig::anthropic(name, key)
    };
    Ok(Arc::new(Client::new(config).map_err(Failure::usage)?))
}

async fn of_user(name: &str, provider: &Provider, model: &str, settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let key = key(name, &provider.key).await?;
    // The variable and the user's `base_url` speak of Anthropic; only a flag means whatever provider was chosen.
    let flag = settings.base_url.value.clone().filter(|_| settings.base_url.origin == Origin::Flag);
    let config = ClientConfig {
        provider: name.to_owned(),
        base_url: Some(flag.unwrap_or_else(|| provider.base_url.clone())),
        effort: settings.effort.value.map(level),
        headers: provider.headers.clone(),
        entry: provider.models.get(model).copied(),
        ..ClientConfig::anthropic(model, key)
    };
    Ok(Arc::new(Client::new(config).map_err(Failure::usage)?))
}

/// The key of a configured provider; no text that comes of this holds it.
pub(crate) async fn key(name: &str, source: &KeySource) -> Result<String, Failure> {
    let command = match source {
        KeySource::Variable(name) => {
            return variable(name).ok_or_else(|| Failure::usage(format!("{name} is not set. Set it to your key.")));
        }
        KeySource::Command(command) => command,
    };
    let failed = |why: String| Failure::usage(format!("The key_command of the provider `{name}` {why}."));
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = tokio::time::timeout(KEY_COMMAND_TIMEOUT, shell.output())
        .await
        .map_err(|_| failed(format!("was not done after {} seconds", KEY_COMMAND_TIMEOUT.as_secs())))?
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed ({})", output.status)));
    }
    match String::from_utf8(output.stdout).map(|text| text.trim().to_owned()) {
        Ok(key) if !key.is_empty() && !key.contains('\n') => Ok(key),
        _ => Err(failed("did not print one line, which would be the key".to_owned())),
    }
}

fn level(effort: EffortLevel) -> Effort {
    match effort {
        EffortLevel::Low => Effort::Low,
        EffortLevel::Medium => Effort::Medium,
        EffortLevel::High => Effort::High,
    }
}
