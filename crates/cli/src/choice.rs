//! Which model is used, and how it is reached.

use std::path::Path;
use std::sync::Arc;

use hames::model::script::{Script, Scripted};
use hames::model::{Anthropic, AnthropicConfig, Effort, catalogue};
use hames::protocol::port::Model;

use crate::args::EffortLevel;
use crate::exit::Failure;
use crate::output;

const FORMS: &str = "Name it as `anthropic/NAME` or `scripted:FILE`.";

/// Finds the model that was asked for, or that of the first key found, which is said on standard error.
pub(crate) fn model(
    asked: Option<&str>,
    base_url: Option<&str>,
    effort: Option<EffortLevel>,
) -> Result<Arc<dyn Model>, Failure> {
    let Some(asked) = asked else {
        if key().is_none() {
            return Err(Failure::usage(
                "No model: set ANTHROPIC_API_KEY, or name a scripted model with `--model scripted:FILE`.",
            ));
        }
        let name = catalogue::DEFAULT_ANTHROPIC;
        output::note(&format!("Using anthropic/{name}, the default with ANTHROPIC_API_KEY; choose with --model."));
        return anthropic(name, base_url, effort);
    };
    if matches!(asked, "anthropic/" | "scripted:") {
        return Err(Failure::usage(format!("`{asked}` is half a model. {FORMS}")));
    }
    if let Some(file) = asked.strip_prefix("scripted:") {
        if effort.is_some() {
            output::note("A scripted model plays its replies whatever the effort: it is left out.");
        }
        let script = Script::load(Path::new(file)).map_err(Failure::usage)?;
        return Ok(Arc::new(Scripted::new(script)));
    }
    match asked.split_once('/') {
        Some(("anthropic", name)) => anthropic(name, base_url, effort),
        Some((provider, _)) => Err(Failure::usage(format!("There is no provider `{provider}`. {FORMS}"))),
        None => Err(Failure::usage(format!("`{asked}` names no provider. {FORMS}"))),
    }
}

fn key() -> Option<String> {
    std::env::var("ANTHROPIC_API_KEY").ok().filter(|key| !key.trim().is_empty())
}

fn anthropic(name: &str, base_url: Option<&str>, effort: Option<EffortLevel>) -> Result<Arc<dyn Model>, Failure> {
    let key = key().ok_or_else(|| Failure::usage("ANTHROPIC_API_KEY is not set. Set it to your key."))?;
    let from_variable = || std::env::var("ANTHROPIC_BASE_URL").ok().filter(|url| !url.trim().is_empty());
    let base_url = base_url.map(str::to_owned).or_else(from_variable);
    let config = AnthropicConfig { base_url, effort: effort.map(level), ..AnthropicConfig::new(name, key.trim()) };
    Ok(Arc::new(Anthropic::new(config).map_err(Failure::usage)?))
}

fn level(effort: EffortLevel) -> Effort {
    match effort {
        EffortLevel::Low => Effort::Low,
        EffortLevel::Medium => Effort::Medium,
        EffortLevel::High => Effort::High,
    }
}
