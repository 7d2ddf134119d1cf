//! Messages and their blocks: shapes, roles, and empty content (rule V2).

use serde_json::Value;

use super::fields::Fields;
use super::tool::{NAME_LENGTH, NAME_PATTERN};
use super::{Checked, refuse};

/// The pattern of call ids, in the API's words.
const ID_PATTERN: &str = "^[a-zA-Z0-9_-]+$";

const EMPTY_TEXT: &str = "text content blocks must be non-empty";
const BLANK_TEXT: &str = "text content blocks must contain non-whitespace text";

/// The block kinds that a message may hold.
const BLOCKS: [&str; 13] = [
    "document",
    "image",
    "redacted_thinking",
    "search_result",
    "server_tool_use",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    "web_fetch_tool_result",
    "web_search_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
];

/// The block kinds that a tool result may hold.
const RESULT_BLOCKS: [&str; 4] = ["document", "image", "search_result", "text"];

pub(super) fn check_system(request: &Fields<'_, '_>) -> Checked {
    match request.get("system") {
        None => Ok(()),
        Some(Value::String(text)) => check_text(text, "system"),
        Some(Value::Array(blocks)) => {
            for (index, block) in blocks.iter().enumerate() {
                let path = format!("system.{index}");
                let block = Fields::of(block, &path)?;
                if block.tag(&["text"])? == "text" {
                    check_text_block(&block, "system")?;
                }
            }
            Ok(())
        }
        Some(_) => refuse("system: Input should be a valid string or list"),
    }
}

pub(super) fn check(messages: &[Value]) -> Checked {
    if messages.is_empty() {
        return refuse("messages: at least one message is required");
    }
    for (index, message) in messages.iter().enumerate() {
        let path = format!("messages.{index}");
        let message = Fields::of(message, &path)?;
        let role = check_role(&message)?;
        message.only(&["role", "content"])?;
        if index == 0 && role != "user" {
            return refuse("messages: first message must use the \"user\" role");
        }
        let last = index + 1 == messages.len();
        match message.required("content")? {
            Value::String(text) if text.is_empty() => check_may_be_empty(&path, role, last)?,
            Value::String(text) => check_text(text, "messages")?,
            Value::Array(blocks) if blocks.is_empty() => check_may_be_empty(&path, role, last)?,
            Value::Array(blocks) => check_blocks(blocks, role, &path)?,
            _ => return refuse(format!("{path}.content: Input should be a valid list")),
        }
    }
    Ok(())
}

/// A conversation that ends with the assistant's words asks the model to go on from there.
pub(super) fn check_prefill(request: &Fields<'_, '_>, messages: &[Value]) -> Checked {
    let Some(last) = messages.last().filter(|message| message["role"] == "assistant") else { return Ok(()) };
    let last_block = last["content"].as_array().and_then(|blocks| blocks.last());
    let text = match last_block {
        Some(block) if block["type"] != "text" => return Ok(()),
        Some(block) => block["text"].as_str(),
        None => last["content"].as_str(),
    };
    if !allows_prefill(request.text("model").unwrap_or_default()) {
        return refuse(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        );
    }
    match text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
        true => refuse("messages: final assistant content cannot end with trailing whitespace"),
        false => Ok(()),
    }
}

/// Claude models from 4.6 on refuse it,
/// <https://platform.claude.com/docs/en/about-claude/models/whats-new-claude-4-6>; of other names nothing is known.
fn allows_prefill(model: &str) -> bool {
    let Some(name) = model.strip_prefix("claude-") else { return true };
    let mut numbers = name.split('-').filter_map(|word| word.parse::<u32>().ok()).filter(|number| *number < 1000);
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) < (4, 6)
}

fn check_role<'a>(message: &Fields<'a, '_>) -> Checked<&'a str> {
    match message.required_text("role")? {
        role @ ("user" | "assistant") => Ok(role),
        "system" => refuse(
            "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter, not \
             \"system\" as an input message role.",
        ),
        _ => refuse(format!("{}: Input should be 'user' or 'assistant'", message.at("role"))),
    }
}

fn check_may_be_empty(path: &str, role: &str, last: bool) -> Checked {
    match role == "assistant" && last {
        true => Ok(()),
        false => refuse(format!(
            "{path}: all messages must have non-empty content except for the optional final assistant message"
        )),
    }
}

fn check_text(text: &str, place: &str) -> Checked {
    if text.is_empty() {
        return refuse(format!("{place}: {EMPTY_TEXT}"));
    }
    match text.trim().is_empty() {
        true => refuse(format!("{place}: {BLANK_TEXT}")),
        false => Ok(()),
    }
}

fn check_blocks(blocks: &[Value], role: &str, message: &str) -> Checked {
    for (index, block) in blocks.iter().enumerate() {
        let path = format!("{message}.content.{index}");
        let kind = Fields::of(block, &path)?.tag(&BLOCKS)?;
        check_side(kind, role, &path)?;
        let path = format!("{path}.{kind}");
        let block = Fields::of(block, &path)?;
        match kind {
            "text" => check_text_block(&block, "messages")?,
            "thinking" => {
                block.only(&["type", "thinking", "signature"])?;
                block.required_text("signature")?;
                block.required_text("thinking")?;
            }
            "redacted_thinking" => {
                block.only(&["type", "data"])?;
                block.required_text("data")?;
            }
            "tool_use" => {
                block.only(&["type", "id", "name", "input", "cache_control", "caller"])?;
                block.required_word("id", usize::MAX, ID_PATTERN)?;
                block.required_word("name", NAME_LENGTH, NAME_PATTERN)?;
                block.required_object("input")?;
            }
            "tool_result" => check_result(&block)?,
            _ => {}
        }
    }
    let last = blocks.last().and_then(|block| block["type"].as_str()).unwrap_or_default();
    match role == "assistant" && matches!(last, "thinking" | "redacted_thinking") {
        true => refuse(format!("{message}: The final block in an assistant message cannot be `{last}`.")),
        false => Ok(()),
    }
}

fn check_side(kind: &str, role: &str, path: &str) -> Checked {
    let side = match kind {
        "tool_use" | "thinking" | "redacted_thinking" | "server_tool_use" => "assistant",
        "tool_result" | "image" | "document" => "user",
        _ => return Ok(()),
    };
    match side == role {
        true => Ok(()),
        false => refuse(format!("{path}: `{kind}` blocks can only be in `{side}` messages")),
    }
}

fn check_text_block(block: &Fields<'_, '_>, place: &str) -> Checked {
    block.only(&["type", "text", "cache_control", "citations"])?;
    let text = block.required_text("text")?;
    if text.is_empty() && block.get("cache_control").is_some() {
        return refuse(format!("{}: cache_control cannot be set for empty text blocks", block.path()));
    }
    check_text(text, place)
}

fn check_result(block: &Fields<'_, '_>) -> Checked {
    block.only(&["type", "tool_use_id", "content", "is_error", "cache_control"])?;
    block.required_word("tool_use_id", usize::MAX, ID_PATTERN)?;
    let failed = block.optional_bool("is_error")?;
    let content = match block.get("content") {
        None | Some(Value::Null) => &[],
        Some(Value::String(text)) if text.is_empty() => &[],
        Some(Value::String(_)) => return Ok(()),
        Some(_) => block.required_list("content")?,
    };
    if failed && content.is_empty() {
        return refuse(format!("{}: content cannot be empty if `is_error` is true", block.path()));
    }
    for (index, item) in content.iter().enumerate() {
        let path = format!("{}.content.{index}", block.path());
        let kind = Fields::of(item, &path)?.tag(&RESULT_BLOCKS)?;
        if failed && kind != "text" {
            return refuse(format!("{}: all content must be type `text` if `is_error` is true", block.path()));
        }
        if kind == "text" {
            let path = format!("{path}.text");
            check_text_block(&Fields::of(item, &path)?, "messages")?;
        }
    }
    Ok(())
}
