//! What servers of chat completions want differently.

use crate::content::CallIds;
use crate::effort;
use crate::preset::Server;

/// How a server wants to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manners {
    /// The field that bounds the output.
    pub(crate) output_limit: &'static str,
    /// The role of the instructions.
    pub(crate) instructions: &'static str,
    /// How the tokens of a stream are asked for.
    pub(crate) usage: AskUsage,
    /// Which reasoning is sent back.
    pub(crate) reasoning: Echo,
    /// Which ids of calls it accepts.
    pub(crate) call_ids: CallIds,
    /// Whether a user's message may follow results.
    pub(crate) after_results: AfterResults,
    /// Whether requests of one session name a key that leads them to the same cache.
    pub(crate) cache_key: CacheKey,
}

/// How the tokens of a stream are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskUsage {
    /// With `stream_options`.
    Option,
    /// Not at all: they come by themselves, and the field is refused.
    Unasked,
}

/// Which reasoning is sent back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// None: it is not known, or refused.
    Nothing,
    /// `reasoning_content` in every reply, an empty one where there is none: its absence is refused.
    /// <https://api-docs.deepseek.com/guides/thinking_mode>.
    Always,
    /// As it was received.
    AsReceived,
}

/// Whether a user's message may follow results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterResults {
    /// It may.
    Anything,
    /// Only the assistant may speak: "Unexpected role 'user' after role 'tool'".
    AssistantFirst,
}

/// Whether requests of one session name a key that leads them to the same cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheKey {
    /// They do.
    Session,
    /// They do not: the field is not known.
    Unnamed,
}

impl Manners {
    /// The manners of a server, with one of its models.
    pub(crate) fn of(server: Server, model: &str) -> Self {
        let reasons = effort::is_openai_reasoning(model);
        let plain = Self {
            output_limit: if reasons { "max_completion_tokens" } else { "max_tokens" },
            instructions: "system",
            usage: AskUsage::Option,
            reasoning: if wants_reasoning(model) { Echo::AsReceived } else { Echo::Nothing },
            call_ids: CallIds::Visible(64),
            after_results: AfterResults::Anything,
            cache_key: CacheKey::Unnamed,
        };
        match server {
            Server::OpenAi => Self {
                output_limit: "max_completion_tokens",
                instructions: if reasons { "developer" } else { "system" },
                // The API's own words: "string too long. Expected a string with maximum length 40".
                call_ids: CallIds::Visible(40),
                cache_key: CacheKey::Session,
                ..plain
            },
            Server::DeepSeek => Self { reasoning: Echo::Always, output_limit: "max_tokens", ..plain },
            Server::OpenRouter => Self { reasoning: Echo::AsReceived, output_limit: "max_tokens", ..plain },
            Server::Groq | Server::XAi => {
                Self { output_limit: "max_completion_tokens", reasoning: Echo::Nothing, ..plain }
            }
            Server::Mistral => Self {
                output_limit: "max_tokens",
                usage: AskUsage::Unasked,
                reasoning: Echo::Nothing,
                call_ids: CallIds::NineCharacters,
                after_results: AfterResults::AssistantFirst,
                ..plain
            },
            Server::Ollama => Self { output_limit: "max_tokens", reasoning: Echo::Nothing, ..plain },
            Server::Other => plain,
        }
    }
}

/// Models that refuse a history whose calls come without the reasoning before them, whoever serves them:
/// "thinking is enabled but reasoning_content is missing in assistant tool call message".
fn wants_reasoning(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    ["deepseek", "kimi"].iter().any(|family| model.contains(family))
}
