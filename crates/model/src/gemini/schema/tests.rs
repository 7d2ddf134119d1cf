//! The subset is never narrower than the schema it was made of.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{convert, parameters};

fn converted(schema: &Value) -> Value {
    convert(schema, schema, 0)
}

#[test]
fn references_are_written_out_and_the_rest_of_the_subset_is_kept() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "$defs": {"Line": {"type": "integer", "format": "uint32", "minimum": 0, "description": "A line."}},
        "properties": {
            "from": {"$ref": "#/$defs/Line"},
            "to": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}], "description": "The last."},
            "mode": {"oneOf": [{"const": "fast"}, {"const": "slow"}]},
            "when": {"type": "string", "format": "date-time"},
        },
        "required": ["from", "gone"],
    });
    assert_eq!(
        parameters(schema.as_object().unwrap()).unwrap(),
        json!({
            "type": "object",
            "properties": {
                "from": {"type": "integer", "minimum": 0, "description": "A line."},
                "to": {"type": "integer", "minimum": 0, "nullable": true, "description": "The last."},
                "mode": {"anyOf": [{"type": "string", "enum": ["fast"]}, {"type": "string", "enum": ["slow"]}]},
                "when": {"type": "string", "format": "date-time"},
            },
            "required": ["from"],
        })
    );
}

#[test]
fn what_cannot_be_said_is_told_in_the_description() {
    let number = converted(&json!({"type": "integer", "enum": [1, 2], "description": "How many."}));
    assert_eq!(number, json!({"type": "integer", "description": "How many. (JSON Schema: {\"enum\":[1,2]})"}));
    let map = converted(&json!({"type": "object", "additionalProperties": {"type": "string"}}));
    assert_eq!(map["description"], "(JSON Schema: {\"additionalProperties\":{\"type\":\"string\"}})");
}

#[test]
fn a_schema_that_refers_to_itself_ends() {
    let schema = json!({"$defs": {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}}, "$ref": "#/$defs/Tree"});
    assert!(converted(&schema).to_string().len() < 4_000);
    let loop_ =
        json!({"$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}, "type": "object"});
    assert_eq!(converted(&loop_)["properties"]["a"], json!({}));
}

#[test]
fn a_tool_without_parameters_declares_none() {
    assert_eq!(parameters(json!({"type": "object", "properties": {}}).as_object().unwrap()), None);
    assert_eq!(parameters(&Map::new()), None);
}

/// The fields of the subset, <https://ai.google.dev/api/caching#Schema>.
const SUBSET: [&str; 20] = [
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
    "anyOf",
    "default",
    "items",
    "minimum",
    "maximum",
];

/// Checks that a schema stays within the subset, and reads `nullable` as JSON Schema would say it.
fn as_json_schema(schema: &Value) -> Value {
    let fields = schema.as_object().unwrap();
    let mut out = Map::new();
    for (name, value) in fields {
        assert!(SUBSET.contains(&name.as_str()), "{name} is not in the subset: {schema}");
        let value = match name.as_str() {
            "nullable" => continue,
            "items" => as_json_schema(value),
            "anyOf" => Value::Array(value.as_array().unwrap().iter().map(as_json_schema).collect()),
            "properties" => {
                let properties = value.as_object().unwrap().iter();
                Value::Object(properties.map(|(name, value)| (name.clone(), as_json_schema(value))).collect())
            }
            "type" => {
                assert!(value.is_string(), "{schema}");
                value.clone()
            }
            "enum" => {
                assert!(value.as_array().unwrap().iter().all(Value::is_string), "{schema}");
                value.clone()
            }
            _ => value.clone(),
        };
        out.insert(name.clone(), value);
    }
    match fields.get("nullable") {
        Some(Value::Bool(true)) => json!({"anyOf": [{"type": "null"}, out]}),
        _ => Value::Object(out),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..12).prop_map(Value::from),
        Just(json!(1.5)),
        "[abc]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("string"),
        Just("integer"),
        Just("number"),
        Just("boolean"),
        Just("object"),
        Just("array"),
        Just("null")
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"$ref": "#/$defs/d"})),
        name().prop_map(|name| json!({"type": name})),
        prop::collection::vec(name(), 1..3).prop_map(|mut names| {
            names.sort_unstable();
            names.dedup();
            json!({"type": names})
        }),
        (0_u64..3).prop_map(|n| json!({"type": "string", "minLength": n, "format": "uri"})),
        (0_i64..5).prop_map(|n| json!({"type": "integer", "minimum": n, "format": "uint8", "exclusiveMaximum": 9})),
        prop::collection::vec(value(), 1..3).prop_map(|values| json!({"enum": values})),
        "[abc]{0,2}".prop_map(|text| json!({"const": text})),
        Just(json!({"type": ["string", "null"], "enum": ["a", null]})),
        Just(json!({"not": {"type": "string"}})),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            list().prop_map(|all| json!({"allOf": all})),
            list().prop_map(|any| json!({"anyOf": any})),
            list().prop_map(|one| json!({"oneOf": one, "description": "x"})),
            (list(), name()).prop_map(|(any, name)| json!({"type": name, "anyOf": any})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "uniqueItems": true})),
            list().prop_map(|items| json!({"type": "array", "prefixItems": items})),
            (prop::collection::btree_map("[abc]", inner.clone(), 0..3), prop::collection::vec("[abc]", 0..2), any::<bool>())
                .prop_map(|(properties, required, open)| {
                    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": open})
                }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_was_valid_stays_valid(schema in schema(), def in schema(), values in prop::collection::vec(value(), 8)) {
        let mut schema = match schema {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        schema.insert("$defs".to_owned(), json!({"d": def}));
        let schema = Value::Object(schema);
        let subset = as_json_schema(&converted(&schema));
        // A reference that leads to itself is no schema.
        let Ok(before) = jsonschema::validator_for(&schema) else { return Ok(()) };
        let after = jsonschema::validator_for(&subset).unwrap();
        for value in values {
            if def_is_finite(&schema) && before.is_valid(&value) {
                prop_assert!(after.is_valid(&value), "{value} is valid in {schema}\nand not in {subset}");
            }
        }
    }
}

/// Says whether `#/$defs/d` does not refer to itself: validators overflow on what has no end.
fn def_is_finite(schema: &Value) -> bool {
    !schema["$defs"]["d"].to_string().contains("$ref")
}
