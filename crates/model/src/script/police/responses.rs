//! The Responses API: what OpenAI refuses, in its words.
//!
//! Gathered from <https://platform.openai.com/docs/api-reference/responses/create> and from error reports in public
//! issue trackers.

use std::collections::HashSet;

use serde_json::Value;

use super::chat::{check_name, check_tools};
use super::image::check_data_url;
use super::{Checked, Issued, refuse};

/// The fields of a request.
const KEYS: [&str; 26] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// The smallest output limit, in tokens.
const LEAST_OUTPUT: u64 = 16;

/// The longest id of a call, in characters.
const ID_LENGTH: usize = 64;

pub(super) fn check(request: &Value, issued: &Issued) -> Checked {
    let Value::Object(fields) = request else { return refuse("Invalid body: expected an object.") };
    if let Some(name) = fields.keys().find(|name| !KEYS.contains(&name.as_str())) {
        return refuse(format!("Unknown parameter: '{name}'."));
    }
    if request["model"].as_str().is_none_or(str::is_empty) {
        return refuse("Missing required parameter: 'model'.");
    }
    if request.get("max_output_tokens").is_some_and(|limit| limit.as_u64().is_none_or(|limit| limit < LEAST_OUTPUT)) {
        return refuse(format!(
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {LEAST_OUTPUT}."
        ));
    }
    if let Some(tools) = request.get("tools") {
        check_tools(tools, |tool| tool)?;
    }
    match &request["input"] {
        Value::String(_) => Ok(()),
        Value::Array(items) if items.is_empty() => refuse("Invalid 'input': empty array."),
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                check_item(item, &format!("input[{place}]"), issued)?;
            }
            check_pairing(items)?;
            check_reasoning(items)
        }
        _ => refuse("Missing required parameter: 'input'."),
    }
}

fn check_item(item: &Value, path: &str, issued: &Issued) -> Checked {
    let text = |name: &str| item[name].as_str().unwrap_or_default();
    match item["type"].as_str().unwrap_or(if item.get("role").is_some() { "message" } else { "" }) {
        "message" => check_message(item, path),
        "function_call" => {
            check_id(text("call_id"), path)?;
            check_name(text("name"), &format!("{path}.name"))?;
            match item["arguments"].is_string() {
                true => Ok(()),
                false => refuse(format!("Missing required parameter: '{path}.arguments'.")),
            }
        }
        "function_call_output" => {
            check_id(text("call_id"), path)?;
            match &item["output"] {
                Value::String(_) => Ok(()),
                Value::Array(_) => check_content(&item["output"], &["input_text", "input_image", "input_file"], path),
                _ => refuse(format!("Missing required parameter: '{path}.output'.")),
            }
        }
        "reasoning" => match item["encrypted_content"].as_str() {
            None | Some("") => refuse(format!(
                "Item with id '{}' not found. Items are not persisted when `store` is set to false. Try again with \
                 `store` set to true, or remove this item from your input.",
                text("id")
            )),
            Some(encrypted) if !issued.knows(encrypted) => refuse(format!(
                "The encrypted content for item {} could not be verified. Reason: Encrypted content could not be \
                 decrypted or parsed.",
                text("id")
            )),
            Some(_) if !item["summary"].is_array() => refuse(format!("Missing required parameter: '{path}.summary'.")),
            Some(_) => Ok(()),
        },
        other => refuse(format!("Invalid value: '{other}'. ({path}.type)")),
    }
}

fn check_id(id: &str, path: &str) -> Checked {
    match id.len() {
        0 => refuse(format!("Missing required parameter: '{path}.call_id'.")),
        1..=ID_LENGTH => Ok(()),
        length => refuse(format!(
            "Invalid '{path}.call_id': string too long. Expected a string with maximum length {ID_LENGTH}, but got a \
             string with length {length} instead."
        )),
    }
}

fn check_message(item: &Value, path: &str) -> Checked {
    let kinds: &[&str] = match item["role"].as_str() {
        Some("user" | "system" | "developer") => &["input_text", "input_image", "input_file"],
        Some("assistant") => &["output_text", "refusal"],
        _ => {
            return refuse(format!(
                "Invalid value. Supported values are: 'assistant', 'system', 'developer', and 'user'. ({path}.role)"
            ));
        }
    };
    match item["id"].as_str() {
        Some(id) if !id.starts_with("msg") => {
            refuse(format!("Invalid '{path}.id': '{id}'. Expected an ID that begins with 'msg'."))
        }
        _ => check_content(&item["content"], kinds, path),
    }
}

fn check_content(content: &Value, kinds: &[&str], path: &str) -> Checked {
    let parts = match content {
        Value::String(_) => return Ok(()),
        Value::Array(parts) if !parts.is_empty() => parts,
        _ => return refuse(format!("Invalid type for '{path}.content': expected a string or a filled array.")),
    };
    for (place, part) in parts.iter().enumerate() {
        let path = format!("{path}.content[{place}]");
        let kind = part["type"].as_str().unwrap_or_default();
        if !kinds.contains(&kind) {
            let list = kinds.iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>().join(", ");
            return refuse(format!("Invalid value: '{kind}'. Supported values are: {list}. ({path}.type)"));
        }
        match kind {
            "input_text" | "output_text" if !part["text"].is_string() => {
                return refuse(format!("Missing required parameter: '{path}.text'."));
            }
            "input_image" => check_data_url(&part["image_url"], &format!("{path}.image_url"))?,
            _ => {}
        }
    }
    Ok(())
}

/// Every call has one result somewhere after it.
fn check_pairing(items: &[Value]) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    let mut all = HashSet::new();
    for item in items {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => {
                if !all.insert(id) {
                    return refuse(format!("Duplicate item found with call_id {id}."));
                }
                open.push(id);
            }
            Some("function_call_output") => match open.iter().position(|open| *open == id) {
                Some(place) => {
                    open.remove(place);
                }
                None => return refuse(format!("No tool call found for function call output with call_id {id}.")),
            },
            _ => {}
        }
    }
    match open.first() {
        Some(id) => refuse(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

/// Reasoning and what followed it come together, or neither with its id.
fn check_reasoning(items: &[Value]) -> Checked {
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let mut kept = HashSet::new();
    for (place, item) in items.iter().enumerate() {
        let kind = text(item, "type");
        if kind == "reasoning" {
            let follower = items[place + 1..].iter().find(|item| item["type"] != "reasoning");
            let follows = follower.is_some_and(|item| {
                item["type"] == "function_call" || (item["type"] == "message" && item["role"] == "assistant")
            });
            if !follows {
                return refuse(format!(
                    "Item '{}' of type 'reasoning' was provided without its required following item.",
                    text(item, "id")
                ));
            }
            kept.insert(text(item, "id"));
        }
    }
    // The ids that this server gives out tell which reply an item is of, and its place there.
    let reply_of =
        |id: &str| id.rsplit_once("_script_").map(|(_, place)| place.split('_').next().unwrap_or("").to_owned());
    let replies: HashSet<String> = kept.iter().filter_map(|id| reply_of(id)).collect();
    for item in items.iter().filter(|item| item["type"] != "reasoning") {
        let id = text(item, "id");
        if let Some(reply) = reply_of(&id).filter(|reply| replies.contains(reply)) {
            let group = items.iter().filter(|other| reply_of(&text(other, "id")).as_ref() == Some(&reply));
            let ids: Vec<String> =
                group.map(|other| text(other, "id").rsplit('_').next().unwrap_or("").to_owned()).collect();
            if !ids.is_sorted() {
                return refuse(format!("Item '{id}' was provided out of the order in which it was given out."));
            }
        }
    }
    Ok(())
}
