//! Schemas of tools, as OpenAI and Gemini look at them.

use serde_json::{Map, Value};

use super::{Checked, refuse};

/// The fields that Gemini's schema has, <https://ai.google.dev/api/caching#Schema>.
const GEMINI: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

/// OpenAI: an object with properties, and lists that say what they hold.
pub(super) fn check_openai(name: &str, schema: &Value) -> Checked {
    let problem = |context: &str, what: &str| {
        refuse(format!("Invalid schema for function '{name}': In context=({context}), {what}."))
    };
    let Value::Object(fields) = schema else { return problem("", "schema must be a JSON object") };
    if fields.get("type").is_none_or(|kind| kind != "object") {
        return problem("", "schema must have type 'object'");
    }
    if ["oneOf", "anyOf", "allOf", "enum", "not"].iter().any(|key| fields.contains_key(*key)) {
        return problem("", "schema must not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level");
    }
    if !fields.contains_key("properties") {
        return problem("", "object schema missing properties");
    }
    match list_without_items(fields, &mut Vec::new()) {
        Some(path) => problem(&path, "array schema missing items"),
        None => Ok(()),
    }
}

/// The path of the first list that does not say what it holds.
fn list_without_items(fields: &Map<String, Value>, path: &mut Vec<String>) -> Option<String> {
    if fields.get("type").is_some_and(|kind| kind == "array") && !fields.contains_key("items") {
        return Some(path.join(", "));
    }
    for (name, value) in fields {
        let inner: Vec<(String, &Value)> = match (name.as_str(), value) {
            ("properties" | "$defs", Value::Object(map)) => {
                map.iter().map(|(key, value)| (key.clone(), value)).collect()
            }
            ("items", Value::Object(_)) => vec![(name.clone(), value)],
            ("anyOf" | "oneOf" | "allOf", Value::Array(list)) => {
                list.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect()
            }
            _ => continue,
        };
        for (key, value) in inner {
            let Value::Object(fields) = value else { continue };
            path.push(format!("'{key}'"));
            let found = list_without_items(fields, path);
            if found.is_some() {
                return found;
            }
            path.pop();
        }
    }
    None
}

/// Gemini: the subset's fields only, and nothing empty.
pub(super) fn check_gemini(schema: &Value, path: &str) -> Checked {
    let Value::Object(fields) = schema else { return refuse(format!("{path}: should be an object")) };
    if let Some(name) = fields.keys().find(|name| !GEMINI.contains(&name.as_str())) {
        return refuse(format!(
            "Invalid JSON payload received. Unknown name \"{name}\" at '{path}': Cannot find field."
        ));
    }
    let kind = match fields.get("type") {
        None => "",
        // The official client writes the names in capitals.
        Some(Value::String(kind)) => &kind.to_ascii_lowercase(),
        Some(_) => return refuse(format!("Invalid value at '{path}.type' (type.googleapis.com/Type)")),
    };
    if !["", "string", "number", "integer", "boolean", "array", "object", "null"].contains(&kind) {
        return refuse(format!("Invalid value at '{path}.type' (type.googleapis.com/Type), \"{kind}\""));
    }
    let choices = fields.get("enum").and_then(Value::as_array);
    if choices.is_some_and(|choices| kind != "string" || !choices.iter().all(Value::is_string)) {
        return refuse(format!("{path}.enum: only allowed for STRING type"));
    }
    if kind == "array" && !fields.contains_key("items") {
        return refuse(format!("{path}.items: missing field."));
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    if properties.is_some_and(Map::is_empty) {
        return refuse(format!("{path}.properties: should be non-empty for OBJECT type"));
    }
    for name in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        let known = properties.is_some_and(|map| name.as_str().is_some_and(|name| map.contains_key(name)));
        if !known {
            return refuse(format!("{path}.required: property is not defined: {name}"));
        }
    }
    for (name, schema) in properties.into_iter().flatten() {
        check_gemini(schema, &format!("{path}.properties[{name}]"))?;
    }
    for (place, schema) in fields.get("anyOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
        check_gemini(schema, &format!("{path}.any_of[{place}]"))?;
    }
    match fields.get("items") {
        Some(items) => check_gemini(items, &format!("{path}.items")),
        None => Ok(()),
    }
}
