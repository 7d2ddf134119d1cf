//! How much a model should put into its replies.

/// How many tokens a model is asked to spend on thinking, calls and text alike.
///
/// Sources: <https://platform.claude.com/docs/en/build-with-claude/effort>,
/// <https://platform.openai.com/docs/guides/reasoning>, <https://ai.google.dev/gemini-api/docs/thinking>; a model that
/// does not know the field refuses the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fewest tokens.
    Low,
    /// Between the two.
    Medium,
    /// The provider's default.
    High,
}

impl Effort {
    /// The name on the wire and in options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Says whether a model of OpenAI's reasons before it answers: those refuse `max_tokens` and know the role `developer`.
/// Of a name from `gpt-5` on and of the `o` series that is so, whoever serves it.
pub(crate) fn is_openai_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let generation = |prefix: &str| {
        let digits: String = name.strip_prefix(prefix)?.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let chat_tuned = name.contains("-chat");
    (generation("gpt-").is_some_and(|generation| generation >= 5) && !chat_tuned) || generation("o").is_some()
}

/// Says whether a model may reason before it answers: all but the families that are known not to.
pub(crate) fn may_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !["gpt-3", "gpt-4", "chatgpt-"].iter().any(|family| name.starts_with(family)) && !name.contains("-chat")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_that_reason_are_told_from_those_that_do_not() {
        for model in ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5.1-codex", "gpt-6.2-sol", "openai/gpt-5-mini"] {
            assert!(is_openai_reasoning(model), "{model}");
        }
        for model in ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-5-chat-latest", "gpt-oss-20b", "ollama", "qwen3"]
        {
            assert!(!is_openai_reasoning(model), "{model}");
        }
    }
}
