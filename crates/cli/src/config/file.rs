//! One configuration file: TOML whose keys are the flags of `hames run`, with underscores.
//!
//! A fault stops the command: a file that is half understood would leave the user with settings that nobody chose.

use std::collections::BTreeMap;
use std::ops::Range;

use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::provider::{self, Provider};
use crate::args::{self, SettingFlags};
use crate::duration;
use crate::exit::Failure;

/// The keys that a file may hold, beside `providers`.
pub(crate) const KEYS: [&str; 16] = [
    "model",
    "base_url",
    "effort",
    "system_prompt_file",
    "append_system_prompt",
    "verify",
    "protect",
    "unprotect",
    "add_dir",
    "max_turns",
    "max_time",
    "max_tokens",
    "max_cost",
    "sandbox",
    "network",
    "output_format",
];

/// The flags that say something about one call only.
pub(crate) const ONE_CALL: [&str; 4] = ["workspace", "image", "resume", "continue"];

/// The table of providers.
pub(crate) const PROVIDERS: &str = "providers";

/// What a file says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layer {
    /// Its path as it is shown.
    pub(crate) path: String,
    /// Its settings, in the form of the flags.
    pub(crate) settings: SettingFlags,
    /// Its providers, by name.
    pub(crate) providers: BTreeMap<String, Provider>,
    /// The line of each key.
    pub(crate) lines: BTreeMap<String, usize>,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user's own.
    User,
    /// The repository's, which is not trusted: its providers are not even read.
    Workspace,
}

/// Reads the text of a file.
pub(crate) fn parse(path: &str, text: &str, owner: Owner) -> Result<Layer, Failure> {
    let source = Source { path, text };
    let table = DeTable::parse(text).map_err(|error| source.no_toml(&error))?;
    let mut layer = Layer { path: path.to_owned(), ..Layer::default() };
    for (key, value) in table.get_ref() {
        let name = key.get_ref().as_ref();
        match name {
            PROVIDERS if owner == Owner::User => layer.providers = provider::read(&source, value)?,
            PROVIDERS => {}
            _ => set(&source, &mut layer.settings, key, value)?,
        }
        layer.lines.insert(name.to_owned(), source.line(key.span().start));
    }
    Ok(layer)
}

fn set(
    source: &Source<'_>,
    settings: &mut SettingFlags,
    key: &Spanned<toml::de::DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
) -> Result<(), Failure> {
    let name = key.get_ref().as_ref();
    match name {
        "model" => settings.model = Some(source.text(name, value)?),
        "base_url" => settings.base_url = Some(source.text(name, value)?),
        "effort" => settings.effort = Some(source.word(name, value)?),
        "system_prompt_file" => settings.system_prompt_file = Some(source.text(name, value)?.into()),
        "append_system_prompt" => settings.append_system_prompt = Some(source.text(name, value)?),
        "verify" => settings.verify = source.texts(name, value)?,
        "protect" => settings.place.protect = source.texts(name, value)?,
        "unprotect" => settings.place.unprotect = source.texts(name, value)?,
        "add_dir" => settings.place.add_dir = source.texts(name, value)?,
        "max_turns" => {
            let turns = source.count(name, value)?;
            let too_many = || source.fault(&value.span(), format!("`{name}` is larger than {}.", u32::MAX));
            settings.max_turns = Some(u32::try_from(turns).map_err(|_| too_many())?);
        }
        "max_time" => {
            let parsed = duration::parse_ms(&source.text(name, value)?);
            let fault = |expected| source.fault(&value.span(), format!("`{name}` cannot be read: {expected}."));
            settings.max_time = Some(parsed.map_err(fault)?);
        }
        "max_tokens" => settings.max_tokens = Some(source.count(name, value)?),
        "max_cost" => {
            let money = args::money(&source.number(name, value)?.to_string());
            let fault = |expected| source.fault(&value.span(), format!("`{name}` cannot be read: {expected}."));
            settings.max_cost = Some(money.map_err(fault)?);
        }
        "sandbox" => settings.place.sandbox = Some(source.word(name, value)?),
        "network" => settings.place.network = Some(source.word(name, value)?),
        "output_format" => settings.output_format = Some(source.word(name, value)?),
        _ if ONE_CALL.contains(&name) => {
            let text = format!("`{name}` is for the command line only: it says something about one call. Remove it.");
            return Err(source.fault(&key.span(), text));
        }
        _ => return Err(source.unknown(key, "a setting", &[&KEYS[..], &[PROVIDERS]].concat())),
    }
    Ok(())
}

/// The text of a file, for faults that name their line.
pub(super) struct Source<'a> {
    path: &'a str,
    text: &'a str,
}

impl Source<'_> {
    pub(super) fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    pub(super) fn fault(&self, span: &Range<usize>, sentence: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{}, line {}: {sentence}", self.path, self.line(span.start)))
    }

    fn no_toml(&self, error: &toml::de::Error) -> Failure {
        let at = error.span().map_or(0, |span| span.start);
        let start = self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
        let column = self.text.get(start..at).map_or(1, |before| before.chars().count() + 1);
        let message = error.message().trim_end_matches('.').replace('\n', ", ");
        let (path, line) = (self.path, self.line(at));
        Failure::usage(format!("{path}, line {line}, column {column}: this is not TOML: {message}."))
    }

    /// A key that is none, with the one that it may have been meant to be.
    pub(super) fn unknown(&self, key: &Spanned<toml::de::DeString<'_>>, what: &str, valid: &[&str]) -> Failure {
        let name = key.get_ref();
        let hint = match nearest(name, valid) {
            Some(nearest) => format!("Did you mean `{nearest}`?"),
            None => format!("There are {}.", list(valid)),
        };
        self.fault(&key.span(), format!("`{name}` is not {what}. {hint}"))
    }

    fn wrong(&self, name: &str, expected: &str, value: &Spanned<DeValue<'_>>) -> Failure {
        let found = value.get_ref().type_str();
        let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
        self.fault(&value.span(), format!("`{name}` must be {expected}; it is {article} {found}."))
    }

    pub(super) fn text(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String, Failure> {
        let text = value.get_ref().as_str().ok_or_else(|| self.wrong(name, "a string", value))?;
        match text.trim().is_empty() || text.contains('\0') {
            true => Err(self.fault(&value.span(), format!("`{name}` is empty or holds a NUL. Give it a value."))),
            false => Ok(text.to_owned()),
        }
    }

    fn texts(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Failure> {
        let expected = format!("an array of strings, such as {name} = [\"…\"]");
        let array = value.get_ref().as_array().ok_or_else(|| self.wrong(name, &expected, value))?;
        array.iter().map(|one| self.text(name, one)).collect()
    }

    pub(super) fn table<'v, 'i>(
        &self,
        name: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v DeTable<'i>, Failure> {
        value.get_ref().as_table().ok_or_else(|| self.wrong(name, "a table", value))
    }

    /// A whole number above zero.
    pub(super) fn count(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<u64, Failure> {
        let expected = "a whole number above zero";
        let number = value.get_ref().as_integer().ok_or_else(|| self.wrong(name, expected, value))?;
        match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(self.fault(&value.span(), format!("`{name}` must be {expected}; it is {number}."))),
        }
    }

    pub(super) fn number(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<f64, Failure> {
        let number = match value.get_ref() {
            DeValue::Integer(number) => number.as_str().parse().ok(),
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => return Err(self.wrong(name, "a number", value)),
        };
        number.ok_or_else(|| self.fault(&value.span(), format!("`{name}` is no number that can be read.")))
    }

    fn word<T: ValueEnum>(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<T, Failure> {
        let text = self.text(name, value)?;
        let names: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|variant| variant.to_possible_value().map(|value| value.get_name().to_owned()))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        T::from_str(&text, false).map_err(|_| {
            let hint = nearest(&text, &names).map_or_else(String::new, |nearest| format!(" Did you mean `{nearest}`?"));
            self.fault(&value.span(), format!("`{name}` may be {}; it is `{text}`.{hint}", list(&names)))
        })
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    // The dash is how the flag is written.
    let name = name.replace('-', "_").to_lowercase();
    let scored = valid.iter().map(|known| (strsim::jaro_winkler(&name, &known.replace('-', "_")), *known));
    scored.filter(|(score, _)| *score > 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, EffortLevel, SandboxMode};
    use clap::CommandFactory;

    fn check_fault(text: &str, words: &[&str]) {
        let failure = parse("c.toml", text, Owner::User).expect_err(text).message.unwrap();
        for word in words {
            assert!(failure.contains(word), "{word}: {failure}");
        }
    }

    #[test]
    fn every_flag_of_a_run_is_a_key_or_about_one_call() {
        let command = Cli::command();
        let run = command.find_subcommand("run").unwrap();
        let mut flags: Vec<String> =
            run.get_arguments().filter_map(|argument| Some(argument.get_long()?.replace('-', "_"))).collect();
        let mut known: Vec<String> = KEYS.iter().chain(&ONE_CALL).map(|key| (*key).to_owned()).collect();
        flags.sort();
        known.sort();
        assert_eq!(flags, known);
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "# mine\nmodel = \"anthropic/x\"\neffort = \"low\"\nverify = [\"true\", \"false\"]\nmax_turns = 0x10\n\
                    max_time = \"1m\"\nmax_cost = 2\nsandbox = \"read-only\"\n";
        let layer = parse("c.toml", text, Owner::User).unwrap();
        let settings = layer.settings;
        assert_eq!((settings.model.as_deref(), settings.effort), (Some("anthropic/x"), Some(EffortLevel::Low)));
        assert_eq!((settings.verify.len(), settings.max_turns, settings.max_time), (2, Some(16), Some(60_000)));
        assert_eq!((settings.max_cost, settings.place.sandbox), (Some(2.0), Some(SandboxMode::ReadOnly)));
        assert_eq!(layer.lines["max_time"], 6);
        assert!(parse("c.toml", "", Owner::User).unwrap().lines.is_empty());
    }

    #[test]
    fn a_fault_names_file_line_key_and_remedy() {
        check_fault(
            "\nmax_turn = 3\n",
            &["c.toml, line 2", "`max_turn` is not a setting", "Did you mean `max_turns`?"],
        );
        check_fault("max-turns = 3\n", &["Did you mean `max_turns`?"]);
        check_fault("zzz = 3\n", &["`zzz` is not a setting", "`verify`"]);
        check_fault("resume = \"x\"\n", &["`resume` is for the command line only"]);
        check_fault("max_turns = \"x\"\n", &["`max_turns` must be a whole number above zero; it is a string"]);
        check_fault("max_turns = 0\n", &["above zero; it is 0"]);
        check_fault("max_tokens = -1\n", &["above zero; it is -1"]);
        check_fault("max_turns = 4294967296\n", &["larger than"]);
        check_fault("max_time = 90\n", &["`max_time` must be a string; it is an integer"]);
        check_fault("max_time = \"90\"\n", &["such as 90s"]);
        check_fault("max_cost = nan\n", &["above zero"]);
        check_fault("verify = \"make\"\n", &["verify = [\"…\"]", "it is a string"]);
        check_fault("verify = [\"make\", 3]\n", &["`verify` must be a string; it is an integer"]);
        check_fault(
            "sandbox = \"readonly\"\n",
            &["`workspace-write`, `read-only`, `off`", "Did you mean `read-only`?"],
        );
        check_fault("model = \"\"\n", &["`model` is empty"]);
    }

    #[test]
    fn what_is_no_toml_names_line_and_column() {
        check_fault("model = \"a\"\nverify = [\n<<<<<<< HEAD\n", &["c.toml, line 3, column 1", "not TOML"]);
        check_fault("model = \"a\"\nmodel = \"b\"\n", &["line 2, column 1", "duplicate key"]);
        check_fault("model = \"a\0\"\n", &["line 1"]);
    }

    #[test]
    fn the_providers_of_a_workspace_are_not_read() {
        let text = "[providers.evil]\nnonsense = 1\n";
        let layer = parse("c.toml", text, Owner::Workspace).unwrap();
        assert!(layer.providers.is_empty() && layer.lines.contains_key(PROVIDERS));
    }
}
