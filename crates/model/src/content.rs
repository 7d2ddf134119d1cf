//! What every dialect writes alike: names, ids, placeholders, and what is told of results.

use std::borrow::Cow;

use hames_protocol::{Arguments, Block, RawCall, Status, WireResult};
use serde_json::{Map, Value, json};

/// Stands for a reply without content: providers refuse empty messages.
pub(crate) const NO_CONTENT: &str = "(no content)";

/// Stands for a result without output.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Stands for a message of the user without content.
pub(crate) const EMPTY: &str = "(empty)";

/// Stands in a result for an image, where results can hold text only.
const IMAGE_FOLLOWS: &str = "(an image: it is shown in the next message)";

/// Stands before the images of results.
pub(crate) const IMAGES_OF_RESULTS: &str = "The images of the results above, in their order:";

/// Says whether a text is blank, which providers take for empty.
pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// A tool name that every API accepts (`[A-Za-z0-9_-]{1,64}`): models invent others.
pub(crate) fn valid_name(name: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().take(64).map(|c| if valid(c) { c } else { '_' }).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// The arguments of a call as JSON text: an empty object stands for broken ones, since providers parse them.
pub(crate) fn arguments_text(call: &RawCall) -> String {
    match &call.arguments {
        Arguments::Whole(map) => Value::Object(map.clone()).to_string(),
        Arguments::Broken { .. } => "{}".to_owned(),
    }
}

/// Which ids of calls a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallIds {
    /// `[A-Za-z0-9_-]`, at most that many.
    Words(usize),
    /// Any that can be seen, of at most that many bytes.
    Visible(usize),
    /// Exactly nine letters and digits: <https://docs.mistral.ai/capabilities/function_calling>.
    NineCharacters,
}

impl CallIds {
    /// The id itself where it is accepted, else one made of it: the same for the call and for its result.
    pub(crate) fn fit(self, id: &str) -> Cow<'_, str> {
        let (length, accepted) = match self {
            Self::Words(most) => {
                let word = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
                (24, word && !id.is_empty() && id.len() <= most)
            }
            Self::Visible(most) => {
                let visible = id.bytes().all(|byte| byte.is_ascii_graphic());
                (24, visible && !id.is_empty() && id.len() <= most)
            }
            Self::NineCharacters => (9, id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())),
        };
        if accepted { Cow::Borrowed(id) } else { Cow::Owned(digest(id, length)) }
    }
}

/// Letters and digits that stand for a text. Nothing here is secret, so any function that spreads well will do: FNV-1a,
/// once for each half of the digits.
fn digest(text: &str, length: usize) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    let mut hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    let digits = (0..length).map(|_| {
        let digit = usize::try_from(hash % 62).unwrap_or_default();
        hash /= 62;
        char::from(DIGITS[digit])
    });
    digits.collect()
}

/// A tool's schema as OpenAI takes it: with `properties`, and with `items` in every list. What is added allows anything.
pub(crate) fn openai_schema(schema: &Map<String, Value>) -> Value {
    let mut schema = Value::Object(schema.clone());
    name_items(&mut schema);
    if let Value::Object(fields) = &mut schema {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

fn name_items(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "array") {
                fields.entry("items").or_insert_with(|| json!({}));
            }
            // Not into what is a value and no schema.
            fields
                .iter_mut()
                .filter(|(name, _)| !matches!(name.as_str(), "default" | "const" | "enum" | "examples"))
                .for_each(|(_, value)| name_items(value));
        }
        Value::Array(values) => values.iter_mut().for_each(name_items),
        _ => {}
    }
}

/// The text of a result where results hold text only; a failure is told in its first word.
pub(crate) fn result_text(result: &WireResult) -> String {
    let texts = result.blocks.iter().filter_map(|block| match block {
        Block::Text(text) => (!is_blank(text)).then_some(text.as_str()),
        Block::Image { .. } => Some(IMAGE_FOLLOWS),
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    match (text.is_empty(), result.status) {
        (true, Status::Ok) => NO_OUTPUT.to_owned(),
        (false, Status::Ok) => text,
        (true, _) => format!("ERROR: {NO_OUTPUT}"),
        (false, _) => format!("ERROR: {text}"),
    }
}

/// The images of results, in order.
pub(crate) fn images(results: &[WireResult]) -> Vec<&Block> {
    let blocks = results.iter().flat_map(|result| &result.blocks);
    blocks.filter(|block| matches!(block, Block::Image { .. })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_accepted_stays_and_any_other_becomes_one_that_is() {
        let words = CallIds::Words(40);
        assert_eq!(words.fit("call_1-x"), "call_1-x");
        for id in ["", "call 1", "fc|x", &"x".repeat(41), "é"] {
            let fitted = words.fit(id);
            assert_eq!((words.fit(&fitted), words.fit(id)), (fitted.clone(), fitted.clone()), "{id}");
        }
        let nine = CallIds::NineCharacters;
        assert_eq!(nine.fit("abcDEF123"), "abcDEF123");
        let all: std::collections::HashSet<String> =
            (0..10_000).map(|n| nine.fit(&format!("call-{n}")).into_owned()).collect();
        assert_eq!(all.len(), 10_000);
        assert!(all.iter().all(|id| nine.fit(id) == id.as_str()));
    }
}
