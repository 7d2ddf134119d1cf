//! The script file: reading it, and saying in a sentence what is wrong with it.
//!
//! The format is documented for its users in `docs/script.md`, whose examples are tests.

use std::fmt;
use std::path::Path;

use hames_protocol::Price;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::reply::ScriptedReply;

/// Why a script file cannot be used: the file, the line, the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("The script {file} cannot be used: {place}{cause}. {remedy}")]
pub struct ScriptProblem {
    file: String,
    place: String,
    cause: String,
    remedy: &'static str,
}

/// The replies of a scripted model, in the order in which they are given.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) name: String,
    pub(crate) context_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) price: Option<Price>,
    pub(crate) replies: Vec<ScriptedReply>,
}

const READ_THE_FORMAT: &str = "The format is described in docs/script.md.";

impl Script {
    /// Reads a script file: one reply a line when its name ends in `.jsonl`, otherwise YAML.
    ///
    /// # Errors
    /// When it cannot be read or does not fit the format.
    pub fn load(path: &Path) -> Result<Self, ScriptProblem> {
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let text = std::fs::read_to_string(path).map_err(|error| ScriptProblem {
            file: path.display().to_string(),
            place: String::new(),
            cause: format!("it cannot be read ({error})"),
            remedy: "Name an existing UTF-8 text file.",
        })?;
        let script = match path.extension().is_some_and(|extension| extension == "jsonl") {
            true => Self::from_jsonl(&name, &text),
            false => Self::from_yaml(&name, &text),
        };
        script.map_err(|problem| ScriptProblem { file: path.display().to_string(), ..problem })
    }

    /// Reads YAML text; `name` is the model's name.
    ///
    /// # Errors
    /// When it does not fit the format.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, ScriptProblem> {
        let only_comments = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if only_comments {
            return Self::assemble(name, Root::default());
        }
        let root: Root = serde_yaml_ng::from_str(text).map_err(|error| {
            let line = error.location().map(|location| location.line());
            ScriptProblem::of_line(name, line, &error.to_string())
        })?;
        Self::assemble(name, root)
    }

    /// Reads text of one JSON reply a line, blank lines aside; `name` is the model's name.
    ///
    /// # Errors
    /// When a line does not fit the format.
    pub fn from_jsonl(name: &str, text: &str) -> Result<Self, ScriptProblem> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let replies = lines.map(|(index, line)| {
            serde_json::from_str(line)
                .map_err(|error| ScriptProblem::of_line(name, Some(index + 1), &error.to_string()))
        });
        Self::assemble(name, Root { replies: replies.collect::<Result<_, _>>()?, ..Root::default() })
    }

    fn assemble(name: &str, root: Root) -> Result<Self, ScriptProblem> {
        if root.replies.is_empty() {
            return Err(ScriptProblem {
                file: name.to_owned(),
                place: String::new(),
                cause: "it has no replies".to_owned(),
                remedy: "Write at least one, for example `- text: Hello.`.",
            });
        }
        Ok(Self {
            name: name.to_owned(),
            // As of the models that a script usually stands in for.
            context_tokens: root.context_tokens.unwrap_or(200_000),
            output_tokens: root.output_tokens.unwrap_or(8_192),
            price: root.price.map(|price| price.0),
            replies: root.replies,
        })
    }

    /// How many replies it has.
    pub fn reply_count(&self) -> usize {
        self.replies.len()
    }

    /// What is said when a run asks for more replies than there are.
    pub(crate) fn exhausted(&self) -> String {
        let (replies, s) = (self.replies.len(), if self.replies.len() == 1 { "y" } else { "ies" });
        format!(
            "The script {} has {replies} repl{s} and the run asked for another; add a reply or end with a finish call.",
            self.name
        )
    }
}

impl ScriptProblem {
    fn of_line(file: &str, line: Option<usize>, message: &str) -> Self {
        // Both readers add their own, less useful note of the position at the end.
        let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
        let (path, cause) = match message.split_once(": ") {
            Some((path, cause)) if !path.contains([' ', '`']) => (in_words(path), cause),
            _ => (String::new(), message),
        };
        let line = line.map_or_else(String::new, |line| format!("line {line}: "));
        let cause = explain_unknown_key(cause).unwrap_or_else(|| cause.trim_end_matches('.').to_owned());
        Self { file: file.to_owned(), place: format!("{line}{path}"), cause, remedy: READ_THE_FORMAT }
    }
}

/// Turns the path that the YAML reader puts before a message (`replies[2].calls[0]`, `.[2]`) into words.
fn in_words(path: &str) -> String {
    let path = path.trim_start_matches("replies").trim_start_matches('.');
    let reply = path.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match reply.and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest.trim_start_matches('.')))) {
        Some((index, "")) => format!("reply {}: ", index + 1),
        Some((index, rest)) => format!("reply {}, {rest}: ", index + 1),
        None if path.is_empty() => String::new(),
        None => format!("{path}: "),
    }
}

/// Turns serde's words for an unknown key into a sentence with the nearest valid one.
fn explain_unknown_key(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (key, expected) = rest.split_once("`, expected ")?;
    let valid: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let nearest = valid.iter().max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)))?;
    let list = valid.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Some(format!("unknown key `{key}`; the nearest valid one is `{nearest}` (valid here: {list})"))
}

/// The whole file: a list of replies, or a mapping with `replies`.
#[derive(Default)]
struct Root {
    context_tokens: Option<u64>,
    output_tokens: Option<u64>,
    price: Option<PriceKeys>,
    replies: Vec<ScriptedReply>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RootKeys {
    context_tokens: Option<u64>,
    output_tokens: Option<u64>,
    price: Option<PriceKeys>,
    replies: Vec<ScriptedReply>,
}

struct PriceKeys(Price);

impl<'de> Deserialize<'de> for PriceKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            input: f64,
            output: f64,
            #[serde(default)]
            cache_read: f64,
            #[serde(default)]
            cache_write: f64,
        }
        let Keys { input, output, cache_read, cache_write } = Keys::deserialize(deserializer)?;
        Ok(Self(Price { input, output, cache_read, cache_write }))
    }
}

impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RootVisitor;
        impl<'de> Visitor<'de> for RootVisitor {
            type Value = Root;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of replies, or a mapping with `replies`")
            }
            fn visit_unit<E>(self) -> Result<Root, E> {
                Ok(Root::default())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Root, A::Error> {
                let mut replies = Vec::new();
                while let Some(reply) = seq.next_element()? {
                    replies.push(reply);
                }
                Ok(Root { replies, ..Root::default() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Root, A::Error> {
                let keys = RootKeys::deserialize(MapAccessDeserializer::new(map))?;
                if keys.context_tokens == Some(0) || keys.output_tokens == Some(0) {
                    return Err(A::Error::custom("`context_tokens` and `output_tokens` must be more than zero"));
                }
                Ok(Root {
                    context_tokens: keys.context_tokens,
                    output_tokens: keys.output_tokens,
                    price: keys.price,
                    replies: keys.replies,
                })
            }
        }
        deserializer.deserialize_any(RootVisitor)
    }
}
