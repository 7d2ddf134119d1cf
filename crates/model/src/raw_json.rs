//! JSON objects edited as text, so that what was received can be sent back byte for byte.
//!
//! Providers compare what is echoed with what they sent: a signed block must not change. Decoding into values and
//! encoding again would rewrite numbers and escapes, so values stay text here and only grow at their ends. That also
//! joins a surrogate pair whose two escapes arrive in different pieces.

use std::borrow::Cow;
use std::fmt;

use hames_protocol::Native;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An object as its fields in the order received, each value being JSON text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object(Vec<(String, String)>);

impl Object {
    /// Reads an object.
    pub(crate) fn parse(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// The JSON text of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The string of a field, decoded; none when it is missing or no string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(decode)
    }

    /// Every field with its JSON text.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Sets a field in its place, or adds it at the end.
    pub(crate) fn set(&mut self, name: &str, json: impl Into<String>) {
        *self.slot(name) = json.into();
    }

    /// Appends a string to a string field; any other pair of values replaces the old by the new.
    pub(crate) fn append(&mut self, name: &str, json: &str) {
        append(self.slot(name), json);
    }

    /// Adds an element to a field that is an array, or becomes one.
    pub(crate) fn push(&mut self, name: &str, json: &str) {
        let slot = self.slot(name);
        match slot.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(elements) if !elements.trim().is_empty() => *slot = format!("[{elements},{json}]"),
            _ => *slot = format!("[{json}]"),
        }
    }

    /// The object as one line of JSON that any reader accepts: line ends between tokens become blanks (a log keeps a
    /// record a line), and half a surrogate pair becomes U+FFFD (providers reject it).
    pub(crate) fn to_native(&self) -> serde_json::Result<Native> {
        let json = self.to_string().replace(['\n', '\r'], " ");
        RawValue::from_string(mend_surrogates(&json).into_owned()).map(Native)
    }

    fn slot(&mut self, name: &str) -> &mut String {
        let place = self.0.iter().position(|(key, _)| key == name).unwrap_or_else(|| {
            self.0.push((name.to_owned(), String::new()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl fmt::Display for Object {
    /// The JSON text, each value as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, (key, value)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{}:{value}", serde_json::Value::from(key.as_str()))?;
        }
        f.write_str("}")
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object(Vec::new());
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    object.set(&key, value.get());
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Joins two JSON strings in place; anything else replaces `left` by `right`.
pub(crate) fn append(left: &mut String, right: &str) {
    match (left.starts_with('"'), right.strip_prefix('"')) {
        (true, Some(rest)) => {
            left.pop();
            left.push_str(rest);
        }
        _ => right.clone_into(left),
    }
}

/// Decodes a JSON string; half a surrogate pair becomes U+FFFD. None when it is no string.
pub(crate) fn decode(json: &str) -> Option<String> {
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&mend_surrogates(json))).ok()
}

/// Replaces escapes of lone surrogates in JSON text by the escape of U+FFFD.
fn mend_surrogates(json: &str) -> Cow<'_, str> {
    const ESCAPE: usize = r"\uXXXX".len();
    let unit = |at: usize| {
        let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(step) = json[at..].find('\\') {
        at += step;
        match (unit(at), unit(at + ESCAPE)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at += 2 * ESCAPE,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str(&json[copied..at]);
                mended.push_str(r"\ufffd");
                at += ESCAPE;
                copied = at;
            }
            (Some(_), _) => at += ESCAPE,
            // A backslash and the one ASCII character that it escapes.
            (None, _) => at = (at + 2).min(json.len()),
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_order_numbers_and_escapes() {
        let json = r#"{"b":1.00,"a":"\u00e9\/","c":{"x":1e2}}"#;
        assert_eq!(Object::parse(json).unwrap().to_native().unwrap().as_str(), json);
    }

    #[test]
    fn a_pair_of_surrogates_cut_between_two_pieces_is_joined() {
        let mut text = r#""a\ud83d""#.to_owned();
        append(&mut text, r#""\ude00b""#);
        assert_eq!(decode(&text).unwrap(), "a😀b");
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_else() {
        let mended = |json| mend_surrogates(json).into_owned();
        assert_eq!(mended(r#""\ud83dx""#), r#""\ufffdx""#);
        assert_eq!(mended(r#""\ude00\ud83d""#), r#""\ufffd\ufffd""#);
        assert_eq!(mended(r#""\ud83d\ud83d\ude00""#), r#""\ufffd\ud83d\ude00""#);
        assert_eq!(mended(r#""\\ud83d \"\u0041""#), r#""\\ud83d \"\u0041""#);
        assert_eq!(mended(r#""\ud83d\n北\u""#), r#""\ufffd\n北\u""#);
    }

    #[test]
    fn line_ends_between_tokens_become_blanks() {
        let object = Object::parse("{\"a\":{\n\"b\": 1,\r\n\"c\":\"\\n\"}}").unwrap();
        assert_eq!(object.to_native().unwrap().as_str(), r#"{"a":{ "b": 1,  "c":"\n"}}"#);
    }

    #[test]
    fn elements_are_added_to_an_array_that_was_null_or_empty_or_filled() {
        let mut object = Object::parse(r#"{"a":null,"b":[ ],"c":[1]}"#).unwrap();
        for name in ["a", "b", "c", "d"] {
            object.push(name, "2");
        }
        assert_eq!(object.to_native().unwrap().as_str(), r#"{"a":[2],"b":[2],"c":[1,2],"d":[2]}"#);
    }
}
