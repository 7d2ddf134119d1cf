//! Which model is used, and how it is reached.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hames::model::preset::{KeyNeed, PRESETS};
use hames::model::script::{Script, Scripted};
use hames::model::{Client, ClientConfig, Effort, Preset, Proxies, preset};
use hames::protocol::port::Model;

use crate::args::EffortLevel;
use crate::config::{KeySource, Origin, Provider, Settings};
use crate::exit::Failure;
use crate::output;

/// How a model is named.
fn forms() -> String {
    let names: Vec<String> = PRESETS.iter().map(|preset| format!("`{}/NAME`", preset.name)).collect();
    format!("Name it as {} or `scripted:FILE`.", names.join(", "))
}

/// How long a command may take to print a key; a person may have to unlock something.
const KEY_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Finds the model that was asked for, or that of the first key found, which is said on standard error.
pub(crate) async fn model(settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let Some(asked) = settings.model.value.as_deref() else {
        return of_first_key(settings);
    };
    if asked == "scripted:" || PRESETS.iter().any(|preset| asked.strip_suffix('/') == Some(preset.name)) {
        return Err(Failure::usage(format!("`{asked}` is half a model. {}", forms())));
    }
    if let Some(file) = asked.strip_prefix("scripted:") {
        if settings.effort.value.is_some() {
            output::note("A scripted model plays its replies whatever the effort: it is left out.");
        }
        let script = Script::load(Path::new(file)).map_err(Failure::usage)?;
        return Ok(Arc::new(Scripted::new(script)));
    }
    let Some((provider, name)) = asked.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Err(Failure::usage(format!("`{asked}` names no provider. {}", forms())));
    };
    match (preset::find(provider), settings.providers.get(provider)) {
        (Some(preset), _) => of_preset(preset, name, settings),
        (None, Some(configured)) => of_user(provider, configured, name, settings).await,
        (None, None) => {
            let known: String = settings.providers.keys().map(|known| format!(", `{known}/NAME`")).collect();
            let known =
                if known.is_empty() { String::new() } else { format!(" Configured{}.", known.replacen(',', ":", 1)) };
            Err(Failure::usage(format!("There is no provider `{provider}`. {}{known}", forms())))
        }
    }
}

/// The default model of the first provider whose key is there.
fn of_first_key(settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    for preset in PRESETS {
        let key = preset.key_variables.iter().find(|name| variable(name).is_some());
        if let (Some(name), Some(key)) = (preset.default_model, key) {
            let provider = preset.name;
            output::note(&format!("Using {provider}/{name}, the default with {key}; choose with --model."));
            return of_preset(preset, name, settings);
        }
    }
    let defaults = PRESETS.iter().filter(|preset| preset.default_model.is_some());
    let keys: Vec<&str> = defaults.filter_map(|preset| preset.key_variables.first().copied()).collect();
    Err(Failure::usage(format!(
        "No model: set one of {}, or name a scripted model with `--model scripted:FILE`.",
        keys.join(", ")
    )))
}

/// A variable's value; none when it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|key| key.trim().to_owned()).filter(|key| !key.is_empty())
}

fn of_preset(preset: &Preset, name: &str, settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let found = preset.key_variables.iter().find_map(|name| Some((*name, variable(name)?)));
    let missing = |names: &[&str]| Failure::usage(format!("{} is not set. Set it to your key.", names.join(" or ")));
    let config = match (found, preset.key) {
        (None, KeyNeed::Required) => return Err(missing(preset.key_variables)),
        (None, KeyNeed::Optional) => ClientConfig::new(preset, name, None),
        (Some((variable, key)), _) => {
            ClientConfig { key_source: variable.to_owned(), ..ClientConfig::new(preset, name, Some(key)) }
        }
    };
    let config = ClientConfig {
        base_url: base_url(preset, settings),
        proxies: Proxies::from_variables(variable),
        effort: settings.effort.value.map(level),
        ..config
    };
    Ok(Arc::new(Client::new(config).map_err(Failure::usage)?))
}

/// Where a known provider is: a flag means whatever provider was chosen, the user's `base_url` speaks of Anthropic, and
/// else the provider's own variable tells.
fn base_url(preset: &Preset, settings: &Settings) -> Option<String> {
    let own = *preset == preset::ANTHROPIC || settings.base_url.origin == Origin::Flag;
    let set = settings.base_url.value.clone().filter(|_| own);
    set.or_else(|| preset.base_url_variable.and_then(variable))
}

async fn of_user(name: &str, provider: &Provider, model: &str, settings: &Settings) -> Result<Arc<dyn Model>, Failure> {
    let key = key(name, &provider.key).await?;
    // The variable and the user's `base_url` speak of Anthropic; only a flag means whatever provider was chosen.
    let flag = settings.base_url.value.clone().filter(|_| settings.base_url.origin == Origin::Flag);
    let base = ClientConfig::new(preset::of_dialect(provider.dialect), model, key);
    let config = ClientConfig {
        provider: name.to_owned(),
        key_source: match &provider.key {
            KeySource::Variable(variable) => variable.clone(),
            KeySource::Command(_) => format!("key_command of the provider `{name}`"),
            KeySource::Unneeded => format!("key_env of the provider `{name}`"),
        },
        base_url: Some(flag.unwrap_or_else(|| provider.base_url.clone())),
        base_url_source: format!("base_url of the provider `{name}`"),
        effort: settings.effort.value.map(level),
        headers: provider.headers.clone(),
        proxies: Proxies::from_variables(variable),
        entry: provider.models.get(model).copied(),
        ..base
    };
    Ok(Arc::new(Client::new(config).map_err(Failure::usage)?))
}

/// The key of a configured provider; no text that comes of this holds it.
pub(crate) async fn key(name: &str, source: &KeySource) -> Result<Option<String>, Failure> {
    let command = match source {
        KeySource::Unneeded => return Ok(None),
        KeySource::Variable(name) => {
            let missing = || Failure::usage(format!("{name} is not set. Set it to your key."));
            return variable(name).ok_or_else(missing).map(Some);
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
        Ok(key) if !key.is_empty() && !key.contains('\n') => Ok(Some(key)),
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
