//! Calls and their results (rules V1 and V6): exactly one for each call, first thing in the next message.

use std::collections::HashSet;

use serde_json::Value;

use super::{Checked, refuse};

/// The API joins neighbouring messages of one role before it looks; here every message stands for itself, so that
/// results in two messages are refused.
pub(super) fn check(messages: &[Value]) -> Checked {
    let mut all = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        check_results(message, index, &open)?;
        open.clear();
        for (place, id) in ids(message, "tool_use", "id") {
            if !all.insert(id) {
                return refuse(format!("messages.{index}.content.{place}: `tool_use` ids must be unique"));
            }
            open.push(id);
        }
    }
    missing(&open, messages.len())
}

/// Whether any message calls a tool or holds a result.
pub(super) fn uses_tools(messages: &[Value]) -> bool {
    blocks(messages).any(|block| matches!(block["type"].as_str(), Some("tool_use" | "tool_result")))
}

/// Checks the results of one message against the calls of the message before.
fn check_results(message: &Value, index: usize, open: &[&str]) -> Checked {
    let mut seen = HashSet::new();
    for (place, id) in ids(message, "tool_result", "tool_use_id") {
        let path = format!("messages.{index}.content.{place}");
        if !open.contains(&id) {
            return refuse(format!(
                "{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must \
                 have a corresponding `tool_use` block in the previous message."
            ));
        }
        if !seen.insert(id) {
            return refuse(format!(
                "{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            ));
        }
    }
    // Only those that nothing stands before count as immediate.
    let first_other = items(message).iter().position(|block| block["type"] != "tool_result");
    let leading = first_other.unwrap_or(items(message).len());
    let immediate: HashSet<&str> =
        ids(message, "tool_result", "tool_use_id").filter(|(place, _)| *place < leading).map(|(_, id)| id).collect();
    let unanswered: Vec<&str> = open.iter().copied().filter(|id| !immediate.contains(id)).collect();
    missing(&unanswered, index)
}

/// Refuses calls without a result; `next` is the message in which the results were due.
fn missing(ids: &[&str], next: usize) -> Checked {
    match (ids, next.checked_sub(1)) {
        ([], _) | (_, None) => Ok(()),
        (ids, Some(index)) => refuse(format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
             `tool_use` block must have a corresponding `tool_result` block in the next message.",
            ids.join(", ")
        )),
    }
}

fn items(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn blocks(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages.iter().flat_map(items)
}

/// The places and ids of a message's blocks of one kind.
fn ids<'a>(message: &'a Value, kind: &'static str, field: &'static str) -> impl Iterator<Item = (usize, &'a str)> {
    let of_kind = items(message).iter().enumerate().filter(move |(_, block)| block["type"] == kind);
    of_kind.filter_map(move |(place, block)| block[field].as_str().map(|id| (place, id)))
}
