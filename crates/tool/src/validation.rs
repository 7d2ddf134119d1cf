//! The gate *valid*: arguments against a tool's schema, and failures as sentences from which a model can correct itself.

use hames_protocol::{Guard, Problem, ToolSpec};
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Value};

use crate::text::{escaped, shown, thousands};

/// The deepest nesting of arguments. Schema checks and JSON writers recurse, so this also guards the stack.
const DEPTH_LIMIT: usize = 64;

/// The largest arguments of a call, in bytes.
const SIZE_LIMIT_BYTES: usize = 1_000_000;

/// The largest arguments of a tool that carries file content, in bytes.
const CONTENT_LIMIT_BYTES: usize = 10 * 1024 * 1024;

/// How many problems of one call are told at once.
const PROBLEM_LIMIT: usize = 8;

/// How alike two names must be for one to be offered for the other, from 0 to 1.
const LIKENESS: f64 = 0.3;

/// Checks arguments; an empty list means that they fit.
pub(crate) fn check(spec: &ToolSpec, validator: &Validator, arguments: &Map<String, Value>) -> Vec<Problem> {
    if let Some(text) = oversize(&spec.name, arguments) {
        return vec![Problem { guard: Guard::Valid, text }];
    }
    let instance = Value::Object(arguments.clone());
    validator
        .iter_errors(&instance)
        .filter(|error| !is_unset_option(spec, error))
        .flat_map(|error| sentences(spec, &error))
        .take(PROBLEM_LIMIT)
        .map(|text| Problem { guard: Guard::Valid, text })
        .collect()
}

/// The candidate most like `name`, if one is like it at all. Case does not count: models write `Read` for `read`.
pub(crate) fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let name = name[..name.floor_char_boundary(64)].to_lowercase();
    let scored =
        candidates.iter().map(|candidate| (strsim::sorensen_dice(&name, &candidate.to_lowercase()), *candidate));
    let best = scored.filter(|(score, _)| *score >= LIKENESS).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, candidate)| candidate)
}

/// Names as a list in a sentence.
pub(crate) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{}`", escaped(name))).collect::<Vec<_>>().join(", ")
}

/// Measures without recursion, so that nothing here can overflow the stack.
fn oversize(tool: &str, arguments: &Map<String, Value>) -> Option<String> {
    let limit = match tool {
        "write_file" | "edit_file" | "apply_patch" => CONTENT_LIMIT_BYTES,
        _ => SIZE_LIMIT_BYTES,
    };
    let mut bytes = 0;
    let mut open: Vec<(&Value, usize)> = Vec::new();
    let measure_keys = |map: &Map<String, Value>| map.keys().map(|key| key.len() + 4).sum::<usize>();
    bytes += measure_keys(arguments);
    open.extend(arguments.values().map(|value| (value, 1)));
    while let Some((value, depth)) = open.pop() {
        if depth > DEPTH_LIMIT {
            return Some(format!(
                "The arguments of `{tool}` are nested more than {DEPTH_LIMIT} levels deep. Send flat arguments."
            ));
        }
        bytes += match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => {
                open.extend(items.iter().map(|item| (item, depth + 1)));
                items.len() + 2
            }
            Value::Object(map) => {
                open.extend(map.values().map(|value| (value, depth + 1)));
                measure_keys(map) + 2
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        };
        if bytes > limit {
            return Some(format!(
                "The arguments of `{tool}` are larger than {} bytes. Do it in smaller steps.",
                thousands(limit as u64)
            ));
        }
    }
    None
}

/// Whether an error only says that an optional argument is null, which models write for "not given".
fn is_unset_option(spec: &ToolSpec, error: &ValidationError<'_>) -> bool {
    let required = spec.schema.get("required").and_then(Value::as_array);
    let name = argument(error);
    error.instance().is_null()
        && matches!(error.kind(), ValidationErrorKind::Type { .. })
        && property(spec, &name).is_some()
        && !required.is_some_and(|required| required.iter().any(|one| one == &Value::String(name.clone())))
}

fn property<'a>(spec: &'a ToolSpec, name: &str) -> Option<&'a Value> {
    spec.schema.get("properties").and_then(|properties| properties.get(name))
}

/// The argument that an error is about, with `/` before what lies deeper.
fn argument(error: &ValidationError<'_>) -> String {
    error.instance_path().as_str().trim_start_matches('/').to_owned()
}

fn sentences(spec: &ToolSpec, error: &ValidationError<'_>) -> Vec<String> {
    let tool = &spec.name;
    let name = shown(&argument(error));
    let one = |needs: String| vec![format!("`{tool}` needs `{name}` {needs}; got {}.", value(error.instance()))];
    match error.kind() {
        ValidationErrorKind::Required { property: missing } if name.is_empty() => {
            vec![missing_argument(spec, missing)]
        }
        ValidationErrorKind::Required { property: missing } => {
            vec![format!("`{tool}` needs `{name}/{}`, which is missing.", missing.as_str().unwrap_or_default())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected } if name.is_empty() => {
            unexpected.iter().map(|extra| unknown_argument(spec, extra)).collect()
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let sentence = |extra: &String| {
                format!("`{name}` of `{tool}` has no `{}`.{}", shown(extra), taken(spec, error.schema_path().as_str()))
            };
            unexpected.iter().map(sentence).collect()
        }
        ValidationErrorKind::Type { kind } => one(format!("as {}", expected(kind))),
        ValidationErrorKind::Minimum { limit } => one(format!("to be at least {limit}")),
        ValidationErrorKind::Maximum { limit } => one(format!("to be at most {limit}")),
        ValidationErrorKind::Enum { options } => one(format!("to be one of {options}")),
        _ => vec![format!("`{tool}` cannot take `{name}`: {}.", shown(&error.masked().to_string()))],
    }
}

fn missing_argument(spec: &ToolSpec, missing: &Value) -> String {
    let name = missing.as_str().unwrap_or_default();
    let kind = property(spec, name).and_then(|schema| schema.get("type")).and_then(Value::as_str);
    let kind = kind.map(|kind| format!(" ({})", with_article(kind))).unwrap_or_default();
    format!("`{}` needs `{name}`{kind}, which is missing.", spec.name)
}

fn unknown_argument(spec: &ToolSpec, extra: &str) -> String {
    let tool = &spec.name;
    let known: Vec<&str> = match spec.schema.get("properties") {
        Some(Value::Object(properties)) => properties.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let meant = nearest(extra, &known).map(|name| format!(" Did you mean `{name}`?")).unwrap_or_default();
    if known.is_empty() {
        return format!("`{tool}` takes no arguments; got `{}`.", shown(extra));
    }
    format!("`{tool}` has no argument `{}`.{meant} It takes {}.", shown(extra), listed(&known))
}

/// What the object may hold whose rule against more stands at `rule` in the schema; empty when that is not said.
fn taken(spec: &ToolSpec, rule: &str) -> String {
    let schema = Value::Object(spec.schema.clone());
    let object = rule.rsplit_once('/').and_then(|(object, _)| schema.pointer(object));
    match object.and_then(|object| object.get("properties")).and_then(Value::as_object) {
        Some(known) => format!(" It takes {}.", listed(&known.keys().map(String::as_str).collect::<Vec<_>>())),
        None => String::new(),
    }
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => with_article(&one.to_string()),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| with_article(&one.to_string())).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// A JSON value in a sentence: its kind, and the value itself where it is short.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => format!("the boolean {bool}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", shown(text)),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(map) => format!("an object with {} keys", map.len()),
    }
}
