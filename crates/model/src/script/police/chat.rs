//! Chat completions: what OpenAI refuses, in its words.
//!
//! Gathered from <https://platform.openai.com/docs/api-reference/chat/create> and from error reports in public issue
//! trackers.

use std::collections::HashSet;

use serde_json::Value;

use super::fields::is_word;
use super::image::check_data_url;
use super::{Checked, refuse, schema};
use crate::effort::is_openai_reasoning;

/// The fields of a request.
const KEYS: [&str; 33] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
];

/// The longest id of a call, in characters.
const ID_LENGTH: usize = 40;

/// The most tools of a request.
const MOST_TOOLS: usize = 128;

pub(super) fn check(request: &Value) -> Checked {
    let Value::Object(fields) = request else { return refuse("Invalid body: expected an object.") };
    if let Some(name) = fields.keys().find(|name| !KEYS.contains(&name.as_str())) {
        return refuse(format!("Unrecognized request argument supplied: {name}"));
    }
    let Some(model) = request["model"].as_str().filter(|model| !model.is_empty()) else {
        return refuse("you must provide a model parameter");
    };
    check_limits(request, model)?;
    if fields.contains_key("stream_options") && request["stream"] != true {
        return refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.");
    }
    let tools = request.get("tools").map_or(Ok(0), |tools| check_tools(tools, |tool| &tool["function"]))?;
    if tools == 0 && ["tool_choice", "parallel_tool_calls"].iter().any(|name| fields.contains_key(*name)) {
        return refuse("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.");
    }
    match request["messages"].as_array() {
        None => refuse("Missing required parameter: 'messages'."),
        Some(messages) if messages.is_empty() => refuse(
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array \
                    instead.",
        ),
        Some(messages) => {
            for (place, message) in messages.iter().enumerate() {
                check_message(message, &format!("messages[{place}]"))?;
            }
            check_pairing(messages)
        }
    }
}

fn check_limits(request: &Value, model: &str) -> Checked {
    let (old, new) = (request.get("max_tokens"), request.get("max_completion_tokens"));
    if old.is_some() && new.is_some() {
        return refuse("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.");
    }
    if old.is_some() && is_openai_reasoning(model) {
        return refuse(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        );
    }
    match old.or(new) {
        Some(limit) if limit.as_u64().is_none_or(|limit| limit == 0) => {
            refuse("Invalid value for the output limit: integer below minimum value. Expected a value >= 1.")
        }
        _ => Ok(()),
    }
}

/// Checks the tools of either of OpenAI's APIs, and returns how many there are.
pub(super) fn check_tools(tools: &Value, function: impl Fn(&Value) -> &Value) -> Checked<usize> {
    let Value::Array(tools) = tools else { return refuse("Invalid type for 'tools': expected an array of objects.") };
    if tools.is_empty() {
        return refuse("[] is too short - 'tools'");
    }
    if tools.len() > MOST_TOOLS {
        return refuse(format!("Invalid 'tools': array too long. Expected at most {MOST_TOOLS}, got {}.", tools.len()));
    }
    let mut names = HashSet::new();
    for (place, tool) in tools.iter().enumerate() {
        if tool["type"] != "function" {
            return refuse(format!("Invalid value: '{}'. Supported values are: 'function'.", tool["type"]));
        }
        let function = function(tool);
        let Some(name) = function["name"].as_str() else {
            return refuse(format!("Missing required parameter: 'tools[{place}].function.name'."));
        };
        check_name(name, &format!("tools[{place}].function.name"))?;
        if !names.insert(name) {
            return refuse(format!("Tool names must be unique: '{name}'."));
        }
        if function.get("description").is_some_and(|text| !text.is_string()) {
            return refuse(format!("Invalid type for 'tools[{place}].function.description': expected a string."));
        }
        if let Some(parameters) = function.get("parameters") {
            schema::check_openai(name, parameters)?;
        }
    }
    Ok(tools.len())
}

pub(super) fn check_name(name: &str, path: &str) -> Checked {
    match is_word(name) && name.len() <= 64 {
        true => Ok(()),
        false => refuse(format!(
            "Invalid '{path}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$' of at most 64 characters."
        )),
    }
}

fn check_message(message: &Value, path: &str) -> Checked {
    let Some(role) = message["role"].as_str() else {
        return refuse(format!("Missing required parameter: '{path}.role'."));
    };
    let kinds: &[&str] = match role {
        "developer" | "system" => &["text"],
        "user" => &["text", "image_url", "input_audio", "file"],
        "tool" => {
            if message["tool_call_id"].as_str().is_none_or(str::is_empty) {
                return refuse(format!("Missing required parameter: '{path}.tool_call_id'."));
            }
            &["text"]
        }
        "assistant" => return check_assistant(message, path),
        other => {
            return refuse(format!(
                "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', \
                 and 'developer'."
            ));
        }
    };
    check_content(&message["content"], kinds, path)
}

fn check_content(content: &Value, kinds: &[&str], path: &str) -> Checked {
    match content {
        Value::String(_) => Ok(()),
        Value::Array(parts) if parts.is_empty() => {
            refuse(format!("Invalid '{path}.content': empty array. Expected an array with minimum length 1."))
        }
        Value::Array(parts) => parts.iter().enumerate().try_for_each(|(place, part)| {
            let path = format!("{path}.content[{place}]");
            let kind = part["type"].as_str().unwrap_or_default();
            if !kinds.contains(&kind) {
                let list = kinds.iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(", ");
                return refuse(format!("Invalid value: '{kind}'. Supported values are: {list}. ({path}.type)"));
            }
            match kind {
                "text" if !part["text"].is_string() => refuse(format!("Missing required parameter: '{path}.text'.")),
                "image_url" => check_data_url(&part["image_url"]["url"], &format!("{path}.image_url.url")),
                _ => Ok(()),
            }
        }),
        Value::Null => refuse(format!("Invalid value for 'content': expected a string, got null. ({path}.content)")),
        _ => refuse(format!("Invalid type for '{path}.content': expected one of a string or array of objects.")),
    }
}

fn check_assistant(message: &Value, path: &str) -> Checked {
    let calls = match &message["tool_calls"] {
        Value::Null => &[],
        Value::Array(calls) if calls.is_empty() => {
            return refuse(format!(
                "Invalid '{path}.tool_calls': empty array. Expected an array with minimum length 1."
            ));
        }
        Value::Array(calls) => calls.as_slice(),
        _ => return refuse(format!("Invalid type for '{path}.tool_calls': expected an array of objects.")),
    };
    if !message["content"].is_null() || calls.is_empty() {
        check_content(&message["content"], &["text", "refusal"], path)?;
    }
    for (place, call) in calls.iter().enumerate() {
        let path = format!("{path}.tool_calls[{place}]");
        let id = call["id"].as_str().unwrap_or_default();
        if id.is_empty() {
            return refuse(format!("Missing required parameter: '{path}.id'."));
        }
        if id.len() > ID_LENGTH {
            return refuse(format!(
                "Invalid '{path}.id': string too long. Expected a string with maximum length {ID_LENGTH}, but got a \
                 string with length {} instead.",
                id.len()
            ));
        }
        if call["type"] != "function" {
            return refuse(format!("Missing required parameter: '{path}.type'."));
        }
        check_name(call["function"]["name"].as_str().unwrap_or_default(), &format!("{path}.function.name"))?;
        if !call["function"]["arguments"].is_string() {
            return refuse(format!("Invalid type for '{path}.function.arguments': expected a string."));
        }
    }
    Ok(())
}

/// Every call has its result, in the messages right after it, once.
fn check_pairing(messages: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    let mut all = HashSet::new();
    let mut answers_calls = false;
    for (place, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let expected = open.iter().position(|open| *open == id);
            match expected.filter(|_| answers_calls) {
                Some(found) => open.remove(found),
                None => {
                    return refuse(format!(
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                         'tool_calls'. (messages[{place}].role)"
                    ));
                }
            };
            continue;
        }
        missing(&open)?;
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        open = calls.iter().filter_map(|call| call["id"].as_str()).collect();
        answers_calls = !open.is_empty();
        if let Some(again) = open.iter().find(|id| !all.insert(**id)) {
            return refuse(format!("Duplicate value for 'tool_call_id' of '{again}' in messages[{place}]."));
        }
    }
    missing(&open)
}

fn missing(open: &[&str]) -> Checked {
    match open {
        [] => Ok(()),
        ids => refuse(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            ids.join(", ")
        )),
    }
}
