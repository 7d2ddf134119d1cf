//! What stands at the top of a request: keys, limits, sampling, thinking.

use serde_json::Value;

use super::fields::Fields;
use super::{Checked, refuse};

/// The keys of version 2023-06-01 without a beta header.
const KEYS: [&str; 19] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_k",
    "top_p",
    "stop_sequences",
    "metadata",
    "thinking",
    "service_tier",
    "cache_control",
    "container",
    "inference_geo",
    "output_config",
    "output_format",
];

pub(super) fn check(request: &Fields<'_, '_>) -> Checked {
    request.only(&KEYS)?;
    if request.required_text("model")?.is_empty() {
        return refuse("model: String should have at least 1 character");
    }
    let max_tokens = request.required_count("max_tokens", 1)?;
    request.optional_bool("stream")?;
    let temperature = request.optional_number("temperature", 0.0, 1.0)?;
    request.optional_number("top_p", 0.0, 1.0)?;
    request.optional_number("top_k", 0.0, f64::MAX)?;
    if let Some(Value::Array(sequences)) = request.get("stop_sequences")
        && sequences.iter().any(|sequence| sequence.as_str().is_none_or(|text| text.trim().is_empty()))
    {
        return refuse("stop_sequences: each stop sequence must contain non-whitespace");
    }
    check_effort(request)?;
    check_thinking(request, max_tokens, temperature)
}

fn check_effort(request: &Fields<'_, '_>) -> Checked {
    let Some(config) = request.get("output_config") else { return Ok(()) };
    let config = Fields::of(config, "output_config")?;
    config.only(&["effort", "format", "task_budget"])?;
    match config.get("effort").map(Value::as_str) {
        None | Some(Some("low" | "medium" | "high" | "xhigh" | "max")) => Ok(()),
        Some(_) => refuse("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"),
    }
}

fn check_thinking(request: &Fields<'_, '_>, max_tokens: u64, temperature: Option<f64>) -> Checked {
    let Some(thinking) = request.get("thinking") else { return Ok(()) };
    let thinking = Fields::of(thinking, "thinking")?;
    let kind = thinking.tag(&["adaptive", "disabled", "enabled"])?;
    if kind == "disabled" {
        return Ok(());
    }
    if kind == "enabled" {
        let budget =
            Fields::of(request.required("thinking")?, "thinking.enabled")?.required_count("budget_tokens", 1024)?;
        if max_tokens <= budget {
            return refuse(
                "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at \
                 https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
            );
        }
    }
    if temperature.is_some_and(|temperature| temperature < 1.0) {
        return refuse("`temperature` may only be set to 1 when thinking is enabled.");
    }
    let forced = request.get("tool_choice").and_then(|choice| choice.get("type")).and_then(Value::as_str);
    match forced {
        Some("any" | "tool") => refuse("Thinking may not be enabled when tool_choice forces tool use."),
        _ => Ok(()),
    }
}
