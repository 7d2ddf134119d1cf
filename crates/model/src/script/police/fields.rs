//! Reading the fields of an object at a path, with the provider's words for what does not fit.

use serde_json::{Map, Value};

use super::{Checked, refuse};

/// An object within the request, and where it stands: `messages.0.content.1.text`.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a, 'p> {
    map: &'a Map<String, Value>,
    path: &'p str,
}

impl<'a, 'p> Fields<'a, 'p> {
    pub(super) fn of(value: &'a Value, path: &'p str) -> Checked<Self> {
        match value {
            Value::Object(map) => Ok(Self { map, path }),
            _ => refuse(format!("{}Input should be a valid dictionary", prefix(path))),
        }
    }

    pub(super) fn path(&self) -> &'p str {
        self.path
    }

    /// The path of a field.
    pub(super) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// The text of a field, where it is there and is text.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.map.get(name).and_then(Value::as_str)
    }

    pub(super) fn only(&self, allowed: &[&str]) -> Checked {
        match self.map.keys().find(|key| !allowed.contains(&key.as_str())) {
            Some(key) => refuse(format!("{}: Extra inputs are not permitted", self.at(key))),
            None => Ok(()),
        }
    }

    pub(super) fn required(&self, name: &str) -> Checked<&'a Value> {
        match self.map.get(name) {
            Some(value) => Ok(value),
            None => refuse(format!("{}: Field required", self.at(name))),
        }
    }

    pub(super) fn required_text(&self, name: &str) -> Checked<&'a str> {
        match self.required(name)? {
            Value::String(text) => Ok(text),
            _ => refuse(format!("{}: Input should be a valid string", self.at(name))),
        }
    }

    pub(super) fn required_object(&self, name: &str) -> Checked<&'a Map<String, Value>> {
        match self.required(name)? {
            Value::Object(map) => Ok(map),
            _ => refuse(format!("{}: Input should be a valid dictionary", self.at(name))),
        }
    }

    pub(super) fn required_list(&self, name: &str) -> Checked<&'a [Value]> {
        match self.required(name)? {
            Value::Array(list) => Ok(list),
            _ => refuse(format!("{}: Input should be a valid list", self.at(name))),
        }
    }

    /// A text field that matches `^[a-zA-Z0-9_-]{1,…}$`, with the given pattern in the refusal.
    pub(super) fn required_word(&self, name: &str, longest: usize, pattern: &str) -> Checked<&'a str> {
        let text = self.required_text(name)?;
        match is_word(text) && text.len() <= longest {
            true => Ok(text),
            false => refuse(format!("{}: String should match pattern '{pattern}'", self.at(name))),
        }
    }

    pub(super) fn optional_bool(&self, name: &str) -> Checked<bool> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(_) => refuse(format!("{}: Input should be a valid boolean", self.at(name))),
        }
    }

    /// A number within bounds, where it is there.
    pub(super) fn optional_number(&self, name: &str, least: f64, most: f64) -> Checked<Option<f64>> {
        let number = match self.map.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(value) => value.as_f64(),
        };
        match number {
            None => refuse(format!("{}: Input should be a valid number", self.at(name))),
            Some(number) if number < least => {
                refuse(format!("{}: Input should be greater than or equal to {least}", self.at(name)))
            }
            Some(number) if number > most => {
                refuse(format!("{}: Input should be less than or equal to {most}", self.at(name)))
            }
            number => Ok(number),
        }
    }

    /// A whole number of at least `least`.
    pub(super) fn required_count(&self, name: &str, least: u64) -> Checked<u64> {
        let value = self.required(name)?;
        match value.as_u64() {
            Some(count) if count >= least => Ok(count),
            None if !value.is_i64() => refuse(format!("{}: Input should be a valid integer", self.at(name))),
            _ => refuse(format!("{}: Input should be greater than or equal to {least}", self.at(name))),
        }
    }

    /// The `type` field, which must be one of these.
    pub(super) fn tag(&self, expected: &[&str]) -> Checked<&'a str> {
        let Some(tag) = self.text("type") else {
            return refuse(format!("{}: Field required", self.at("type")));
        };
        if expected.contains(&tag) {
            return Ok(tag);
        }
        let list = expected.iter().map(|tag| format!("'{tag}'")).collect::<Vec<_>>().join(", ");
        refuse(format!(
            "{}Input tag '{tag}' found using 'type' does not match any of the expected tags: {list}",
            prefix(self.path)
        ))
    }
}

/// Whether text is made of letters, digits, `_` and `-` alone, and of at least one.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}
