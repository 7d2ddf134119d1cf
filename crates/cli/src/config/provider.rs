//! Providers of the user's own: `[providers.NAME]`, used as `--model NAME/MODEL`.

use std::collections::BTreeMap;

use hames::model::{catalogue, preset};
use hames::protocol::{Dialect, Price};
use toml::Spanned;
use toml::de::DeValue;

use super::file::Source;
use crate::exit::Failure;

/// Whether a name is taken.
fn is_built_in(name: &str) -> bool {
    name == "scripted" || preset::find(name).is_some()
}

/// A provider as the user's file describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Provider {
    /// The wire format that it speaks.
    pub(crate) dialect: Dialect,
    /// Where its API is.
    pub(crate) base_url: String,
    /// Where its key is.
    pub(crate) key: KeySource,
    /// More headers, name and value; the values are never shown.
    pub(crate) headers: Vec<(String, String)>,
    /// What is known of its models, by name.
    pub(crate) models: BTreeMap<String, catalogue::Entry>,
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeySource {
    /// An environment variable.
    Variable(String),
    /// What a shell command prints.
    Command(String),
    /// None: the server wants none.
    Unneeded,
}

/// Reads the table of providers.
pub(super) fn read(source: &Source<'_>, value: &Spanned<DeValue<'_>>) -> Result<BTreeMap<String, Provider>, Failure> {
    let mut providers = BTreeMap::new();
    for (name, value) in source.table("providers", value)? {
        let key = name.get_ref().as_ref();
        if is_built_in(key) || key.is_empty() || key.contains([':', '/']) {
            let text =
                format!("`{key}` cannot name a provider: it is built in, empty, or holds `:` or `/`. Choose another.");
            return Err(source.fault(&name.span(), text));
        }
        providers.insert(key.to_owned(), provider(source, &format!("providers.{key}"), value)?);
    }
    Ok(providers)
}

fn provider(source: &Source<'_>, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Provider, Failure> {
    let (mut dialect, mut base_url, mut variable, mut command) = (None, None, None, None);
    let (mut headers, mut models) = (Vec::new(), BTreeMap::new());
    for (key, value) in source.table(name, value)? {
        let inner = format!("{name}.{}", key.get_ref());
        match key.get_ref().as_ref() {
            "dialect" => dialect = Some((source.text(&inner, value)?, value.span())),
            "base_url" => base_url = Some(source.text(&inner, value)?),
            "key_env" => variable = Some(source.text(&inner, value)?),
            "key_command" => command = Some(source.text(&inner, value)?),
            "headers" => {
                for (header, value) in source.table(&inner, value)? {
                    let text = source.text(&format!("{inner}.{}", header.get_ref()), value)?;
                    headers.push((header.get_ref().to_string(), text));
                }
            }
            "models" => {
                for (model, value) in source.table(&inner, value)? {
                    let entry = entry(source, &format!("{inner}.{}", model.get_ref()), model.get_ref(), value)?;
                    models.insert(model.get_ref().to_string(), entry);
                }
            }
            _ => {
                let valid = ["dialect", "base_url", "key_env", "key_command", "headers", "models"];
                return Err(source.unknown(key, "a key of a provider", &valid));
            }
        }
    }
    let missing = |what: &str| source.fault(&value.span(), format!("`{name}` needs {what}."));
    let known = Dialect::ALL.map(|dialect| format!("`{}`", dialect.as_str())).join(", ");
    let (dialect, span) = dialect.ok_or_else(|| missing(&format!("`dialect`, one of {known}")))?;
    let Some(dialect) = Dialect::ALL.into_iter().find(|known| known.as_str() == dialect) else {
        let text = format!("`{name}.dialect` is `{dialect}`, and those that there are: {known}.");
        return Err(source.fault(&span, text));
    };
    let key = match (variable, command) {
        (Some(variable), None) => KeySource::Variable(variable),
        (None, Some(command)) => KeySource::Command(command),
        // Servers of one's own seldom want one.
        (None, None) if dialect == Dialect::OpenAiChat => KeySource::Unneeded,
        _ => return Err(missing("either `key_env` (a variable's name) or `key_command` (what prints the key)")),
    };
    let base_url = base_url.ok_or_else(|| missing("`base_url`"))?;
    Ok(Provider { dialect, base_url, key, headers, models })
}

/// What is said of a model stands; the rest is looked up by the model's name.
fn entry(
    source: &Source<'_>,
    name: &str,
    model: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<catalogue::Entry, Failure> {
    let mut entry = catalogue::find(model);
    for (key, value) in source.table(name, value)? {
        let inner = format!("{name}.{}", key.get_ref());
        match key.get_ref().as_ref() {
            "context_tokens" => entry.context_tokens = source.count(&inner, value)?,
            "output_tokens" => entry.output_tokens = source.count(&inner, value)?,
            "price" => entry.price = Some(price(source, &inner, value)?),
            _ => {
                let valid = ["context_tokens", "output_tokens", "price"];
                return Err(source.unknown(key, "a key of a model", &valid));
            }
        }
    }
    if entry.output_tokens >= entry.context_tokens {
        let text = format!("`{name}` has output_tokens that are not below its context_tokens.");
        return Err(source.fault(&value.span(), text));
    }
    Ok(entry)
}

/// A price in USD for a million tokens; all four, since a sum with a gap would be a wrong sum.
fn price(source: &Source<'_>, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Price, Failure> {
    const VALID: [&str; 4] = ["input", "output", "cache_read", "cache_write"];
    let table = source.table(name, value)?;
    if let Some((key, _)) = table.iter().find(|(key, _)| !VALID.contains(&key.get_ref().as_ref())) {
        return Err(source.unknown(key, "a price", &VALID));
    }
    let usd = |key: &str| {
        let found = table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        let (_, value) = found.ok_or_else(|| source.fault(&value.span(), format!("`{name}` needs `{key}`.")))?;
        match source.number(&format!("{name}.{key}"), value)? {
            usd if usd.is_finite() && usd >= 0.0 => Ok(usd),
            _ => Err(source.fault(&value.span(), format!("`{name}.{key}` must be an amount of US dollars."))),
        }
    };
    let [input, output, cache_read, cache_write] = VALID;
    Ok(Price { input: usd(input)?, output: usd(output)?, cache_read: usd(cache_read)?, cache_write: usd(cache_write)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::{Owner, parse};

    const WHOLE: &str = "[providers.proxy]\ndialect = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\nkey_env = \"K\"\n\
                         headers = { x-team = \"blue\" }\n[providers.proxy.models.big]\ncontext_tokens = 100000\n\
                         price = { input = 1, output = 5.5, cache_read = 0.1, cache_write = 1.25 }\n";

    #[test]
    fn a_provider_is_read_with_its_headers_sizes_and_prices() {
        let layer = parse("c.toml", WHOLE, Owner::User).unwrap();
        let provider = &layer.providers["proxy"];
        assert_eq!(provider.key, KeySource::Variable("K".to_owned()));
        assert_eq!(provider.headers, [("x-team".to_owned(), "blue".to_owned())]);
        assert_eq!(
            (provider.models["big"].context_tokens, provider.models["big"].price.unwrap().output),
            (100_000, 5.5)
        );
    }

    #[test]
    fn a_server_of_chat_completions_needs_no_key() {
        let text = WHOLE.replace("\"anthropic\"", "\"openai-chat\"").replace("key_env = \"K\"\n", "");
        let provider = parse("c.toml", &text, Owner::User).unwrap().providers["proxy"].clone();
        assert_eq!((provider.dialect, provider.key), (Dialect::OpenAiChat, KeySource::Unneeded));
    }

    #[test]
    fn a_faulty_provider_is_told_with_its_line() {
        let check = |from: &str, to: &str, words: &str| {
            let failure = parse("c.toml", &WHOLE.replace(from, to), Owner::User).expect_err(to).message.unwrap();
            assert!(failure.contains(words) && failure.contains("c.toml, line "), "{words}: {failure}");
        };
        check("dialect = \"anthropic\"", "dialect = \"opnai\"", "line 2: `providers.proxy.dialect` is `opnai`");
        check("proxy]", "ollama]", "cannot name a provider");
        check("key_env", "key_evn", "line 4: `key_evn` is not a key of a provider. Did you mean `key_env`?");
        check("key_env = \"K\"\n", "", "needs either `key_env`");
        check("key_env = \"K\"\n", "key_env = \"K\"\nkey_command = \"k\"\n", "needs either `key_env`");
        check("base_url = \"http://127.0.0.1:1\"\n", "", "needs `base_url`");
        check("proxy]", "anthropic]", "cannot name a provider");
        check(", cache_write = 1.25", "", "needs `cache_write`");
        check("input = 1,", "input = -1,", "US dollars");
        check("context_tokens = 100000", "context_tokens = 10", "not below its context_tokens");
    }
}
