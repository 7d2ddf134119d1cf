//! Writes a JSON Schema in the subset of OpenAPI that Gemini takes.
//!
//! Source of the subset: <https://ai.google.dev/api/caching#Schema>. The result is never narrower than the original:
//! what was valid stays valid. What the subset cannot say is told in the description instead, and Hames checks every
//! call against the original schema anyway.

use serde_json::{Map, Value, json};

/// How deep references are followed: a schema that refers to itself has no end.
const MAX_DEPTH: usize = 12;

/// Fields that the subset has and that need no change.
const KEPT: [&str; 13] = [
    "title",
    "description",
    "nullable",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "default",
    "minProperties",
    "maxProperties",
];

/// Constraints that the subset has no field for: they are told in words.
const TOLD: [&str; 15] = [
    "not",
    "if",
    "then",
    "else",
    "const",
    "enum",
    "multipleOf",
    "uniqueItems",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "contains",
    "additionalProperties",
];

/// The parameters of a tool; none when it has none.
pub(super) fn parameters(schema: &Map<String, Value>) -> Option<Value> {
    let root = Value::Object(schema.clone());
    let converted = convert(&root, &root, 0);
    let any = converted.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty());
    any.then_some(converted)
}

fn convert(schema: &Value, root: &Value, depth: usize) -> Value {
    // `true`, and a reference without an end: anything.
    let Value::Object(fields) = schema else { return json!({}) };
    if depth > MAX_DEPTH {
        return json!({});
    }
    let fields = resolved(fields, root, depth);
    let mut out = Map::new();
    for name in KEPT {
        if let Some(value) = fields.get(name).filter(|value| !value.is_null() || name == "default") {
            out.insert(name.to_owned(), value.clone());
        }
    }
    let mut told = Map::new();
    for name in TOLD {
        if let Some(value) = fields.get(name).filter(|value| !says_nothing(name, value)) {
            told.insert(name.to_owned(), value.clone());
        }
    }
    types(&fields, &mut out, root, depth);
    choices(&fields, &mut out, &mut told);
    members(&fields, &mut out, root, depth);
    alternatives(&fields, &mut out, &mut told, root, depth);
    if !told.is_empty() {
        let before = out.get("description").and_then(Value::as_str).map_or_else(String::new, |text| format!("{text} "));
        out.insert("description".to_owned(), json!(format!("{before}(JSON Schema: {})", Value::Object(told))));
    }
    Value::Object(out)
}

/// Whether a constraint is worth a word: the model need not know that it may add no properties.
fn says_nothing(name: &str, value: &Value) -> bool {
    matches!((name, value), ("additionalProperties", Value::Bool(_)) | ("uniqueItems", Value::Bool(false)))
}

/// A schema with its reference and its `allOf` written out. The first word on a field stands: what a later one adds is
/// left out, which can only widen.
fn resolved(fields: &Map<String, Value>, root: &Value, depth: usize) -> Map<String, Value> {
    let mut merged = fields.clone();
    let mut others = Vec::new();
    if let Some(Value::String(reference)) = merged.remove("$ref") {
        others.extend(reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)).cloned());
    }
    if let Some(Value::Array(all)) = merged.remove("allOf") {
        others.extend(all);
    }
    if depth > MAX_DEPTH {
        return merged;
    }
    for other in others {
        let Value::Object(other) = other else { continue };
        for (name, value) in resolved(&other, root, depth + 1) {
            match (merged.get_mut(&name), value) {
                (None, value) => {
                    merged.insert(name, value);
                }
                (Some(Value::Object(known)), Value::Object(more)) if name == "properties" => {
                    for (property, schema) in more {
                        known.entry(property).or_insert(schema);
                    }
                }
                (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                    known.extend(more.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>());
                }
                (Some(_), _) => {}
            }
        }
    }
    merged
}

/// The type: one, with `nullable` beside it, or alternatives.
fn types(fields: &Map<String, Value>, out: &mut Map<String, Value>, root: &Value, depth: usize) {
    let listed: Vec<&str> = match fields.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        // The API wants a type; what the author wrote says which.
        _ if fields.contains_key("properties") => vec!["object"],
        _ if fields.contains_key("items") => vec!["array"],
        _ => return,
    };
    let named: Vec<&str> = listed.iter().copied().filter(|name| *name != "null").collect();
    if named.len() < listed.len() {
        out.insert("nullable".to_owned(), json!(true));
    }
    match named.as_slice() {
        [] => {}
        [one] => {
            out.insert("type".to_owned(), json!(one));
            let format = fields.get("format").and_then(Value::as_str).unwrap_or_default();
            let known = matches!(
                (*one, format),
                ("string", "date-time") | ("integer", "int32" | "int64") | ("number", "float" | "double")
            );
            if known {
                out.insert("format".to_owned(), json!(format));
            }
        }
        several => {
            let each = several.iter().map(|name| {
                let mut one = fields.clone();
                one.insert("type".to_owned(), json!(name));
                for shared in ["title", "description", "default", "anyOf", "oneOf"] {
                    one.remove(shared);
                }
                convert(&Value::Object(one), root, depth + 1)
            });
            let each: Vec<Value> = each.collect();
            out.retain(|name, _| matches!(name.as_str(), "title" | "description" | "nullable" | "default"));
            out.insert("anyOf".to_owned(), Value::Array(each));
        }
    }
}

/// The values to choose from: the subset knows strings only.
fn choices(fields: &Map<String, Value>, out: &mut Map<String, Value>, told: &mut Map<String, Value>) {
    let only = fields.get("const").map(|value| vec![value.clone()]);
    let listed = fields.get("enum").and_then(Value::as_array).cloned();
    let Some(values) = only.or(listed) else { return };
    let texts: Vec<&Value> = values.iter().filter(|value| value.is_string()).collect();
    let nulls = values.iter().filter(|value| value.is_null()).count();
    let is_open = out.contains_key("anyOf") || out.get("type").is_some_and(|name| name != "string");
    if texts.is_empty() || texts.len() + nulls < values.len() || is_open {
        return;
    }
    told.remove("const");
    told.remove("enum");
    out.insert("enum".to_owned(), json!(texts));
    out.insert("type".to_owned(), json!("string"));
    if nulls > 0 {
        out.insert("nullable".to_owned(), json!(true));
    }
}

/// The properties of an object and the elements of a list.
fn members(fields: &Map<String, Value>, out: &mut Map<String, Value>, root: &Value, depth: usize) {
    let is_type = |name: &str, out: &Map<String, Value>| {
        out.get("type").map_or(!out.contains_key("anyOf"), |named| named == name)
    };
    if let Some(properties) = fields.get("properties").and_then(Value::as_object).filter(|_| is_type("object", out)) {
        let converted: Map<String, Value> =
            properties.iter().map(|(name, schema)| (name.clone(), convert(schema, root, depth + 1))).collect();
        // Every name that is required must be a property.
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        let required: Vec<&Value> =
            required.filter(|name| name.as_str().is_some_and(|name| converted.contains_key(name))).collect();
        if !required.is_empty() {
            out.insert("required".to_owned(), json!(required));
        }
        if !converted.is_empty() {
            out.insert("properties".to_owned(), Value::Object(converted));
        }
    }
    if out.get("type").is_some_and(|name| name == "array") {
        let items = match (fields.get("prefixItems").and_then(Value::as_array), fields.get("items")) {
            (None, Some(items)) => convert(items, root, depth + 1),
            // A list whose elements differ, or of which nothing is said.
            _ => json!({}),
        };
        out.insert("items".to_owned(), items);
    }
}

/// Alternatives: where the schema says something of its own beside them, that stands, and they are told in words, since
/// the API wants them alone.
fn alternatives(
    fields: &Map<String, Value>,
    out: &mut Map<String, Value>,
    told: &mut Map<String, Value>,
    root: &Value,
    depth: usize,
) {
    for name in ["anyOf", "oneOf"] {
        let Some(listed) = fields.get(name).and_then(Value::as_array) else { continue };
        let own = out.keys().any(|name| !matches!(name.as_str(), "title" | "description" | "nullable" | "default"));
        if own {
            told.insert(name.to_owned(), Value::Array(listed.clone()));
            continue;
        }
        let is_null = |schema: &&Value| schema.get("type").is_some_and(|name| name == "null");
        let mut each: Vec<Value> =
            listed.iter().filter(|schema| !is_null(schema)).map(|schema| convert(schema, root, depth + 1)).collect();
        if each.len() < listed.len() {
            out.insert("nullable".to_owned(), json!(true));
        }
        match each.len() {
            0 => {}
            1 => {
                let Some(Value::Object(only)) = each.pop() else { continue };
                for (name, value) in only {
                    out.entry(name).or_insert(value);
                }
            }
            _ => {
                out.insert("anyOf".to_owned(), Value::Array(each));
            }
        }
    }
}

#[cfg(test)]
mod tests;
