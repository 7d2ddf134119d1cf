//! Tools and the choice between them (rules V3 and V4).

use std::collections::HashSet;

use serde_json::Value;

use super::fields::{Fields, is_word};
use super::{Checked, refuse};

/// The API allows 128 characters today; other providers allow 64, and a tool should work with all of them.
pub(super) const NAME_PATTERN: &str = "^[a-zA-Z0-9_-]{1,64}$";

/// The longest tool name, in bytes.
pub(super) const NAME_LENGTH: usize = 64;

/// Checks the tools and returns how many there are.
pub(super) fn check(request: &Fields<'_, '_>) -> Checked<usize> {
    let tools = match request.get("tools") {
        None | Some(Value::Null) => &[],
        Some(_) => request.required_list("tools")?,
    };
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let name = check_tool(tool, index)?;
        if !names.insert(name) {
            return refuse("tools: Tool names must be unique.");
        }
    }
    check_choice(request, &names)?;
    Ok(tools.len())
}

fn check_tool(tool: &Value, index: usize) -> Checked<&str> {
    let path = format!("tools.{index}");
    let kind = Fields::of(tool, &path)?.text("type").unwrap_or("custom");
    let path = format!("tools.{index}.{kind}");
    let tool = Fields::of(tool, &path)?;
    let name = tool.required_word("name", NAME_LENGTH, NAME_PATTERN)?;
    if kind != "custom" {
        // The provider's own tools (`bash_20250124` and the like) have their own shapes.
        return Ok(name);
    }
    tool.only(&[
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
        "strict",
        "defer_loading",
        "allowed_callers",
        "input_examples",
        "eager_input_streaming",
    ])?;
    if tool.get("description").is_some_and(|description| !description.is_string()) {
        return refuse(format!("{}: Input should be a valid string", tool.at("description")));
    }
    let schema = tool.required_object("input_schema")?;
    let path = tool.at("input_schema");
    match schema.get("type") {
        None => return refuse(format!("{path}.type: Field required")),
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return refuse(format!("{path}.type: Input should be 'object'")),
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|key| schema.contains_key(*key)) {
        return refuse(format!("{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"));
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let fits = |key: &String| key.len() <= NAME_LENGTH && is_word(&key.replace('.', "_"));
    if properties.is_some_and(|properties| !properties.keys().all(fits)) {
        return refuse(format!("{path}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"));
    }
    Ok(name)
}

fn check_choice(request: &Fields<'_, '_>, names: &HashSet<&str>) -> Checked {
    let Some(choice) = request.get("tool_choice") else { return Ok(()) };
    let choice = Fields::of(choice, "tool_choice")?;
    let kind = choice.tag(&["any", "auto", "none", "tool"])?;
    choice.optional_bool("disable_parallel_tool_use")?;
    if names.is_empty() {
        return refuse("tool_choice may only be specified while providing tools.");
    }
    if kind == "tool" {
        let path = "tool_choice.tool";
        let name = Fields::of(request.required("tool_choice")?, path)?.required_text("name")?;
        if !names.contains(name) {
            return refuse(format!("Tool '{name}' not found in provided tools"));
        }
    }
    Ok(())
}
