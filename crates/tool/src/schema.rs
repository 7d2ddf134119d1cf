//! Tool specifications from Rust types: the argument struct is the schema, and its doc comments are what the model reads.
//!
//! The generator writes more than a model needs (titles, number formats, null for every option); each byte is paid for
//! in every request, so it is taken out again.

use hames_protocol::{Arguments, Call, Guard, Problem, ToolSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// The specification of a tool whose arguments are a `T`.
pub(crate) fn spec<T: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let root = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = root.as_object().cloned().unwrap_or_default();
    schema.remove("description");
    trim(&mut schema);
    schema.entry("properties").or_insert_with(|| json!({}));
    ToolSpec { name: name.to_owned(), description: description.to_owned(), schema }
}

fn trim(schema: &mut Map<String, Value>) {
    for noise in ["title", "format"] {
        schema.remove(noise);
    }
    if schema.get("default").is_some_and(|value| matches!(value, Value::Null | Value::Bool(false))) {
        schema.remove("default");
    }
    if schema.get("minimum").and_then(Value::as_f64) == Some(0.0) {
        schema.remove("minimum");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(trim);
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        trim(items);
    }
}

/// Reads a call's arguments, which the registry has checked against the schema.
///
/// # Errors
/// A sentence for the model, for the little that a schema lets through and a type does not (an integer beyond 64 bits).
pub(crate) fn arguments<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    match &call.arguments {
        Arguments::Whole(map) => T::deserialize(map)
            .map_err(|error| Problem { guard: Guard::Valid, text: format!("`{}`: {error}.", call.name) }),
        Arguments::Broken { problem, .. } => Err(Problem { guard: Guard::Complete, text: problem.clone() }),
    }
}

/// Reads an optional whole number that a provider may have written as `10.0`, which JSON Schema calls an integer too.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    /// 2^53: beyond it a float no longer names one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else { return Ok(None) };
    let from_float = || number.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=EXACT).contains(f)).map(|f| f as u64);
    match number.as_u64().or_else(from_float) {
        Some(whole) => Ok(Some(whole)),
        None => Err(D::Error::custom(format!("{number} is not a whole number in reach"))),
    }
}
