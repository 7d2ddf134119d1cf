//! What a model's name tells of what it knows.

use crate::effort::Effort;
use serde_json::{Value, json};

/// The generation of a model, `gemini-2.5-flash` being (2, 5); a name without numbers counts as the newest.
fn generation(model: &str) -> (u32, u32) {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(rest) = name.strip_prefix("gemini-") else { return (u32::MAX, 0) };
    let version = rest.split('-').next().unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (major, minor),
        _ => (u32::MAX, 0),
    }
}

/// Whether calls without a signature are refused in a history: from generation 3 on.
pub(super) fn demands_signatures(model: &str) -> bool {
    generation(model) >= (3, 0)
}

/// How a model is asked to think, and to tell of it; none for one that does not think.
pub(super) fn thinking(model: &str, effort: Option<Effort>) -> Option<Value> {
    let is_gemini = model.rsplit('/').next().is_some_and(|name| name.starts_with("gemini-"));
    if generation(model) < (2, 5) || !is_gemini {
        return None;
    }
    let mut config = json!({"includeThoughts": true});
    match effort {
        None => {}
        Some(effort) if generation(model) >= (3, 0) => config["thinkingLevel"] = json!(effort.as_str()),
        // What Google's own OpenAI-compatible endpoint makes of the three words:
        // <https://ai.google.dev/gemini-api/docs/openai#thinking>.
        Some(Effort::Low) => config["thinkingBudget"] = json!(1_024),
        Some(Effort::Medium) => config["thinkingBudget"] = json!(8_192),
        Some(Effort::High) => config["thinkingBudget"] = json!(24_576),
    }
    Some(config)
}
