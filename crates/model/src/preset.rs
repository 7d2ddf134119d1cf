//! The providers that Hames knows by name: where they are, where their keys are, and how they are spoken to.
//!
//! Sources of addresses and variables: the providers' own quick starts, as of November 2026.

use hames_protocol::Dialect;

/// A provider known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// The name before the `/` of a model.
    pub name: &'static str,
    /// The name in sentences.
    pub title: &'static str,
    /// The wire format.
    pub dialect: Dialect,
    /// Where its API is.
    pub base_url: &'static str,
    /// The variable that says it is elsewhere.
    pub base_url_variable: Option<&'static str>,
    /// The variables that may hold the key, in the order in which they are asked.
    pub key_variables: &'static [&'static str],
    /// Whether it answers without a key.
    pub key: KeyNeed,
    /// The model that is used when only the key decides.
    pub default_model: Option<&'static str>,
    /// Whose manners it has.
    server: Server,
}

/// Whether a provider answers without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNeed {
    /// It does not.
    Required,
    /// It does: it runs on one's own machine.
    Optional,
}

/// Whose manners a server has, where a wire format leaves them open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// OpenAI itself.
    OpenAi,
    /// OpenRouter.
    OpenRouter,
    /// DeepSeek.
    DeepSeek,
    /// Groq.
    Groq,
    /// Mistral.
    Mistral,
    /// xAI.
    XAi,
    /// Ollama.
    Ollama,
    /// Nothing is known of it.
    Other,
}

/// Anthropic itself.
pub const ANTHROPIC: Preset = Preset {
    name: "anthropic",
    title: "Anthropic",
    dialect: Dialect::Anthropic,
    base_url: "https://api.anthropic.com",
    base_url_variable: Some("ANTHROPIC_BASE_URL"),
    key_variables: &["ANTHROPIC_API_KEY"],
    key: KeyNeed::Required,
    default_model: Some(crate::catalogue::DEFAULT_ANTHROPIC),
    server: Server::Other,
};

/// What most servers of chat completions have in common.
const CHAT: Preset = Preset {
    name: "openai-chat",
    title: "OpenAI",
    dialect: Dialect::OpenAiChat,
    base_url: "https://api.openai.com/v1",
    base_url_variable: Some("OPENAI_BASE_URL"),
    key_variables: &["OPENAI_API_KEY"],
    key: KeyNeed::Required,
    default_model: None,
    server: Server::OpenAi,
};

/// Every provider known by name, in the order in which their keys are looked for.
pub const PRESETS: &[Preset] = &[
    ANTHROPIC,
    Preset { name: "openai", dialect: Dialect::OpenAi, default_model: Some(crate::catalogue::DEFAULT_OPENAI), ..CHAT },
    Preset {
        name: "gemini",
        title: "Gemini",
        dialect: Dialect::Gemini,
        base_url: "https://generativelanguage.googleapis.com",
        base_url_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        default_model: Some(crate::catalogue::DEFAULT_GEMINI),
        server: Server::Other,
        ..CHAT
    },
    Preset {
        name: "deepseek",
        title: "DeepSeek",
        base_url: "https://api.deepseek.com/v1",
        base_url_variable: None,
        key_variables: &["DEEPSEEK_API_KEY"],
        default_model: Some(crate::catalogue::DEFAULT_DEEPSEEK),
        server: Server::DeepSeek,
        ..CHAT
    },
    CHAT,
    Preset {
        name: "openrouter",
        title: "OpenRouter",
        base_url: "https://openrouter.ai/api/v1",
        base_url_variable: None,
        key_variables: &["OPENROUTER_API_KEY"],
        server: Server::OpenRouter,
        ..CHAT
    },
    Preset {
        name: "groq",
        title: "Groq",
        base_url: "https://api.groq.com/openai/v1",
        base_url_variable: None,
        key_variables: &["GROQ_API_KEY"],
        server: Server::Groq,
        ..CHAT
    },
    Preset {
        name: "mistral",
        title: "Mistral",
        base_url: "https://api.mistral.ai/v1",
        base_url_variable: None,
        key_variables: &["MISTRAL_API_KEY"],
        server: Server::Mistral,
        ..CHAT
    },
    Preset {
        name: "xai",
        title: "xAI",
        base_url: "https://api.x.ai/v1",
        base_url_variable: None,
        key_variables: &["XAI_API_KEY"],
        server: Server::XAi,
        ..CHAT
    },
    Preset {
        name: "ollama",
        title: "Ollama",
        base_url: "http://127.0.0.1:11434/v1",
        base_url_variable: None,
        key_variables: &["OLLAMA_API_KEY"],
        key: KeyNeed::Optional,
        server: Server::Ollama,
        ..CHAT
    },
    Preset {
        name: "vllm",
        title: "vLLM",
        base_url: "http://127.0.0.1:8000/v1",
        base_url_variable: None,
        key_variables: &["VLLM_API_KEY"],
        key: KeyNeed::Optional,
        server: Server::Other,
        ..CHAT
    },
    Preset {
        name: "lmstudio",
        title: "LM Studio",
        base_url: "http://127.0.0.1:1234/v1",
        base_url_variable: None,
        key_variables: &["LMSTUDIO_API_KEY"],
        key: KeyNeed::Optional,
        server: Server::Other,
        ..CHAT
    },
];

/// Finds a provider by its name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The provider of a dialect's own name: a server of the user's own is like it.
pub fn of_dialect(dialect: Dialect) -> &'static Preset {
    find(dialect.as_str()).unwrap_or(&ANTHROPIC)
}

/// The provider of that name, else that of the dialect.
pub(crate) fn of(name: &str, dialect: Dialect) -> &'static Preset {
    find(name).filter(|preset| preset.dialect == dialect).unwrap_or_else(|| of_dialect(dialect))
}

/// Whose manners the server at an address has: the address tells, else the provider's name. `openai` elsewhere is some
/// server that speaks like it.
pub(crate) fn server_at(name: &str, base_url: &str) -> Server {
    let host = |url: &str| url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next()).map(str::to_owned);
    let remote = PRESETS.iter().filter(|preset| preset.key == KeyNeed::Required);
    let by_host = remote.into_iter().find(|preset| host(preset.base_url) == host(base_url));
    let server = by_host.or_else(|| find(name).filter(|preset| preset.server != Server::OpenAi));
    server.map_or(Server::Other, |preset| preset.server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_tells_the_manners_and_else_the_name() {
        for (name, base_url, server) in [
            ("openai-chat", "https://api.openai.com/v1", Server::OpenAi),
            ("openai-chat", "http://127.0.0.1:8080", Server::Other),
            ("mine", "https://api.deepseek.com", Server::DeepSeek),
            ("mistral", "http://127.0.0.1:1", Server::Mistral),
            ("mine", "http://127.0.0.1:11434/v1", Server::Other),
            ("ollama", "http://10.0.0.1:11434", Server::Ollama),
        ] {
            assert_eq!(server_at(name, base_url), server, "{name} at {base_url}");
        }
    }

    #[test]
    fn every_dialect_has_a_provider_of_its_name() {
        for dialect in Dialect::ALL {
            assert_eq!(of_dialect(dialect).dialect, dialect);
        }
    }
}
