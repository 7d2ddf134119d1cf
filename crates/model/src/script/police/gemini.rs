//! Gemini: what Google refuses, in its words.
//!
//! Gathered from <https://ai.google.dev/api/generate-content>,
//! <https://ai.google.dev/gemini-api/docs/thought-signatures> and from error reports in public issue trackers.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::image::check_base64;
use super::{Checked, Issued, refuse, schema};

/// The fields of a request.
const KEYS: [&str; 8] = [
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "labels",
];

/// The fields of a part that hold what it is, of which it has exactly one.
const DATA: [&str; 7] =
    ["text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode", "codeExecutionResult"];

/// The documented value that stands for a signature of another model.
const SKIP: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

pub(super) fn check(request: &Value, model: &str, issued: &Issued) -> Checked {
    let Value::Object(fields) = request else { return refuse("Invalid JSON payload received.") };
    only(fields, &KEYS, "")?;
    let Some(contents) = request["contents"].as_array().filter(|contents| !contents.is_empty()) else {
        return refuse("* GenerateContentRequest.contents: contents is not specified");
    };
    if let Some(system) = request.get("systemInstruction") {
        check_parts(system, "system_instruction")?;
    }
    check_config(&request["generationConfig"], model)?;
    for (place, tool) in request["tools"].as_array().into_iter().flatten().enumerate() {
        check_tool(tool, &format!("tools[{place}]"))?;
    }
    for (place, content) in contents.iter().enumerate() {
        let path = format!("contents[{place}]");
        if !matches!(content["role"].as_str(), Some("user" | "model")) {
            return refuse("Please use a valid role: user, model.");
        }
        check_parts(content, &path)?;
    }
    check_turns(contents)?;
    if is_third_generation(model) { check_signatures(contents, issued) } else { Ok(()) }
}

fn only(fields: &Map<String, Value>, known: &[&str], path: &str) -> Checked {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            refuse(format!("Invalid JSON payload received. Unknown name \"{name}\"{path}: Cannot find field."))
        }
        None => Ok(()),
    }
}

fn check_config(config: &Value, model: &str) -> Checked {
    if config.get("maxOutputTokens").is_some_and(|limit| limit.as_u64().is_none_or(|limit| limit == 0)) {
        return refuse("* GenerateContentRequest.generation_config.max_output_tokens: must be positive.");
    }
    let Some(thinking) = config.get("thinkingConfig") else { return Ok(()) };
    let (budget, level) = (thinking.get("thinkingBudget"), thinking.get("thinkingLevel"));
    if budget.is_some() && level.is_some() {
        return refuse("You can only set only one of thinking budget and thinking level.");
    }
    match level {
        Some(_) if !is_third_generation(model) => refuse("Thinking level is not supported for this model."),
        _ => Ok(()),
    }
}

fn check_tool(tool: &Value, path: &str) -> Checked {
    let mut names = HashSet::new();
    for (place, function) in tool["functionDeclarations"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.function_declarations[{place}]");
        if let Value::Object(fields) = function {
            only(fields, &["name", "description", "parameters", "response", "behavior"], &format!(" at '{path}'"))?;
        }
        let name = function["name"].as_str().unwrap_or_default();
        let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let rest = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte));
        if !first || !rest || name.len() > 64 {
            return refuse(format!(
                "{path}.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric \
                 (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
            ));
        }
        if !names.insert(name) {
            return refuse(format!("Duplicate function declaration found: {name}"));
        }
        if let Some(parameters) = function.get("parameters") {
            schema::check_gemini(parameters, &format!("{path}.parameters"))?;
        }
    }
    Ok(())
}

fn check_parts(content: &Value, path: &str) -> Checked {
    let Some(parts) = content["parts"].as_array().filter(|parts| !parts.is_empty()) else {
        return refuse(format!("* GenerateContentRequest.{path}.parts: contents.parts must not be empty."));
    };
    for (place, part) in parts.iter().enumerate() {
        let path = format!("{path}.parts[{place}]");
        let Value::Object(fields) = part else { return refuse(format!("Invalid value at '{path}'")) };
        let data: Vec<&&str> = DATA.iter().filter(|name| fields.contains_key(**name)).collect();
        let [kind] = data.as_slice() else {
            return refuse(format!(
                "* GenerateContentRequest.{path}.data: required oneof field 'data' must have one initialized field"
            ));
        };
        let known: Vec<&str> = [**kind].into_iter().chain(["thought", "thoughtSignature"]).collect();
        only(fields, &known, &format!(" at '{path}'"))?;
        match **kind {
            "text" if part["text"] == "" && part.get("thoughtSignature").is_none() => {
                return refuse("Unable to submit request because it has an empty text parameter.");
            }
            "inlineData" => {
                let (media_type, data) = (&part["inlineData"]["mimeType"], &part["inlineData"]["data"]);
                check_base64(media_type.as_str().unwrap_or_default(), data.as_str().unwrap_or_default(), &path)?;
            }
            "functionCall" | "functionResponse" => {
                let (inner, object) = (&part[**kind], if **kind == "functionCall" { "args" } else { "response" });
                if inner["name"].as_str().is_none_or(str::is_empty) {
                    return refuse(format!("* GenerateContentRequest.{path}.{kind}.name: Name cannot be empty."));
                }
                if inner.get(object).is_some_and(|value| !value.is_object()) {
                    return refuse(format!("Invalid value at '{path}.{kind}.{object}' (type.googleapis.com/Struct)"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn parts_of<'a>(content: &'a Value, kind: &str) -> Vec<&'a Value> {
    content["parts"].as_array().into_iter().flatten().filter_map(|part| part.get(kind)).collect()
}

/// Calls stand after a user's turn, and their responses right after them: as many, of the same names and ids.
fn check_turns(contents: &[Value]) -> Checked {
    let mut before = &Value::Null;
    for content in contents {
        let (calls, responses) = (parts_of(before, "functionCall"), parts_of(content, "functionResponse"));
        if calls.len() != responses.len() {
            return refuse(
                "Please ensure that the number of function response parts is equal to the number of function call \
                 parts of the function call turn.",
            );
        }
        for (call, response) in calls.iter().zip(&responses) {
            if call["name"] != response["name"] {
                return refuse("Please ensure that function response names match the function call names.");
            }
            if call.get("id").is_some() && call["id"] != response["id"] {
                return refuse("Please ensure that function response ids match the function call ids.");
            }
        }
        if !parts_of(content, "functionCall").is_empty() && before["role"] != "user" {
            return refuse(
                "Please ensure that function call turn comes immediately after a user turn or after a function \
                 response turn.",
            );
        }
        before = content;
    }
    match parts_of(before, "functionCall").is_empty() {
        true => Ok(()),
        false => refuse(
            "Please ensure that the number of function response parts is equal to the number of function \
                         call parts of the function call turn.",
        ),
    }
}

/// The first call of each of the model's turns is signed; a signature is one that was given out, or the value that is
/// not checked.
fn check_signatures(contents: &[Value], issued: &Issued) -> Checked {
    for (place, content) in contents.iter().enumerate().filter(|(_, content)| content["role"] == "model") {
        let parts = content["parts"].as_array().into_iter().flatten();
        let mut first = true;
        for part in parts {
            let signature = part["thoughtSignature"].as_str();
            if part.get("functionCall").is_some() && std::mem::take(&mut first) && signature.is_none() {
                return refuse(format!(
                    "Function call `{}` in the `{place}.` content block is missing a `thought_signature`.",
                    part["functionCall"]["name"].as_str().unwrap_or_default()
                ));
            }
            let known = |signature: &str| {
                let given_out = STANDARD.decode(signature).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let given_out = given_out.is_some_and(|text| text.starts_with("sig_script_") || issued.knows(&text));
                SKIP.contains(&signature) || given_out || *issued == Issued::unknown()
            };
            if signature.is_some_and(|signature| !known(signature)) {
                return refuse("Corrupted thought signature.");
            }
        }
    }
    Ok(())
}

fn is_third_generation(model: &str) -> bool {
    let version = model.strip_prefix("gemini-").and_then(|rest| rest.split(['.', '-']).next());
    version.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 3)
}
