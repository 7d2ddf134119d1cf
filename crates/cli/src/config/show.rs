//! `hames config`: each setting, its value, and where it came from. No key and no header's value is shown.

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use hames::SessionChoice;
use hames::model::preset::PRESETS;

use super::{KeySource, Origin, Provider, Setting, Settings, WORKSPACE_FILE, load, user_file};
use crate::args::SettingFlags;
use crate::choice;
use crate::exit::Failure;
use crate::{duration, output, run};

/// The column at which origins stand.
const ORIGIN_COLUMN: usize = 40;

pub(crate) fn show(flags: &SettingFlags) -> Result<ExitCode, Failure> {
    let workspace = run::workspace(flags.place.workspace.as_deref(), &SessionChoice::New)?;
    let settings = load(flags, &workspace)?;
    for line in (Page { workspace: &workspace }).lines(&settings) {
        output::print_line(&output::plain(&line))?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Page<'a> {
    workspace: &'a Path,
}

impl Page<'_> {
    fn lines(&self, settings: &Settings) -> Vec<String> {
        let optional = |name: &str, setting: &Setting<Option<String>>| match &setting.value {
            Some(value) => self.line(name, &quoted(value), setting.origin),
            None => format!("# {name} is not set"),
        };
        let map = |setting: &Setting<Option<String>>, to: fn(&str) -> String| Setting {
            value: setting.value.as_deref().map(to),
            origin: setting.origin,
        };
        let file = Setting {
            value: settings.system_prompt_file.value.as_ref().map(|file| file.display().to_string()),
            origin: settings.system_prompt_file.origin,
        };
        let effort = Setting { value: settings.effort.value.map(word), origin: settings.effort.origin };
        let cost = settings.max_cost.value.map_or_else(
            || "# max_cost is not set".to_owned(),
            |usd| self.line("max_cost", &usd.to_string(), settings.max_cost.origin),
        );
        let mut lines = vec![format!("# workspace {}", self.workspace.display())];
        lines.extend(keys());
        lines.extend([
            optional("model", &settings.model),
            optional("base_url", &map(&settings.base_url, without_credentials)),
            optional("effort", &effort),
            optional("system_prompt_file", &file),
            optional("append_system_prompt", &settings.append_system_prompt),
            self.line("max_turns", &settings.max_turns.value.to_string(), settings.max_turns.origin),
            self.line("max_time", &quoted(&duration::written(settings.max_time.value)), settings.max_time.origin),
            self.line("max_tokens", &settings.max_tokens.value.to_string(), settings.max_tokens.origin),
            cost,
            self.line("sandbox", &quoted(&word(settings.sandbox.value)), settings.sandbox.origin),
            self.line("network", &quoted(&word(settings.network.value)), settings.network.origin),
            self.line("output_format", &quoted(&word(settings.output_format.value)), settings.output_format.origin),
        ]);
        for (name, list) in [
            ("verify", &settings.verify),
            ("protect", &settings.protect),
            ("unprotect", &settings.unprotect),
            ("add_dir", &settings.add_dir),
        ] {
            lines.extend(self.list(name, list));
        }
        lines.extend(settings.providers.iter().flat_map(|(name, provider)| self.provider(name, provider)));
        lines
    }

    fn line(&self, name: &str, value: &str, origin: Origin) -> String {
        self.with_origin(&format!("{name} = {value}"), origin)
    }

    fn list(&self, name: &str, list: &[Setting<String>]) -> Vec<String> {
        if list.is_empty() {
            return vec![format!("# {name} is not set")];
        }
        let items = list.iter().map(|item| self.with_origin(&format!("  {},", quoted(&item.value)), item.origin));
        std::iter::once(format!("{name} = [")).chain(items).chain(["]".to_owned()]).collect()
    }

    fn provider(&self, name: &str, provider: &Provider) -> Vec<String> {
        let key = match &provider.key {
            KeySource::Variable(name) => {
                let set = if choice::variable(name).is_some() { "it is set" } else { "it is not set" };
                format!("key_env = {}  # {set}", quoted(name))
            }
            KeySource::Command(_) => "# key_command is set".to_owned(),
            KeySource::Unneeded => "# no key is sent".to_owned(),
        };
        let mut lines = vec![
            self.with_origin(&format!("[providers.{}]", quoted(name)), Origin::User),
            format!("dialect = {}", quoted(provider.dialect.as_str())),
            format!("base_url = {}", quoted(&without_credentials(&provider.base_url))),
            key,
        ];
        lines.extend(provider.headers.iter().map(|(header, _)| format!("# the header {header} is set")));
        for (model, entry) in &provider.models {
            let price = if entry.price.is_some() { "a price" } else { "no price" };
            let (context, output) = (entry.context_tokens, entry.output_tokens);
            lines.push(format!("# model {model}: {context} tokens of context, {output} of output, {price}"));
        }
        lines
    }

    fn with_origin(&self, text: &str, origin: Origin) -> String {
        let origin = match origin {
            Origin::Default => "default".to_owned(),
            Origin::User => user_file().map_or_else(|| "user".to_owned(), |file| file.display().to_string()),
            Origin::Workspace => WORKSPACE_FILE.to_owned(),
            Origin::Environment => "ANTHROPIC_BASE_URL".to_owned(),
            Origin::Flag => "flag".to_owned(),
        };
        format!("{text:<ORIGIN_COLUMN$}  # {origin}")
    }
}

/// Which keys are there: those that choose a model by themselves in any case, the others where they are set.
fn keys() -> Vec<String> {
    let mut lines = Vec::new();
    for preset in PRESETS {
        for (place, name) in preset.key_variables.iter().enumerate() {
            let set = choice::variable(name).is_some();
            let line = format!("# {name} {}", if set { "is set" } else { "is not set" });
            if (set || (place == 0 && preset.default_model.is_some())) && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn word<T: ValueEnum>(value: T) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A string as TOML writes it; what JSON escapes, TOML escapes alike.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A URL without the user and password that may stand in it.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_the_host_is_not_shown() {
        assert_eq!(without_credentials("https://me:pass@host/a@b"), "https://…@host/a@b");
        assert_eq!(without_credentials("https://host/a@b"), "https://host/a@b");
    }
}
