//! The gate for arguments: a whole JSON object, or broken. Nothing is ever repaired.

use hames_protocol::Arguments;
use serde_json::{Map, Value};

/// How deep arguments may nest: parsers stop at 128 levels, and the request in which they are echoed adds some.
const MAX_DEPTH: usize = 100;

/// What a call's end means for its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// The provider said that the call is complete.
    Seen,
    /// It never did.
    Missing,
}

/// Reads the text of arguments as it arrived.
pub(crate) fn read(text: &str, end: CallEnd) -> Arguments {
    let problem = match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(map) if map.values().any(|value| is_deeper(value, MAX_DEPTH)) => {
            format!("The arguments nest deeper than {MAX_DEPTH} levels.")
        }
        Ok(map) if end == CallEnd::Seen => return Arguments::Whole(map),
        Ok(_) => "The call was cut off: its end never arrived.".to_owned(),
        Err(problem) => format!("The arguments are not a whole JSON object: {problem}."),
    };
    Arguments::Broken { text: text.to_owned(), problem }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let is_deep = |value: &Value| levels == 0 || is_deeper(value, levels - 1);
    match value {
        Value::Array(elements) => elements.iter().any(is_deep),
        Value::Object(fields) => fields.values().any(is_deep),
        _ => false,
    }
}
