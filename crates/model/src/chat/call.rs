//! Calls that arrive in pieces: which piece belongs to which call.
//!
//! OpenAI numbers them with `index`. Other servers number every call 0, or none; leave ids out, send an empty one, the
//! same one twice, or a new one with each piece; send names late, in pieces, or again with each piece; and send
//! arguments as an object instead of a string. What can be told apart is told apart; nothing is guessed inside
//! arguments.

use hames_protocol::{Arguments, Part, PartKind, RawCall};
use serde_json::json;

use crate::arguments::{self, CallEnd};
use crate::raw_json::{Object, append, decode};

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<GrowingCall>);

/// A call that is still arriving.
#[derive(Debug)]
struct GrowingCall {
    index: Option<u64>,
    id: String,
    name: String,
    /// The text of the arguments so far, as a JSON string.
    arguments: String,
    /// What else the server says of the call.
    fields: Object,
    announced: Announced,
}

/// Whether a call was told of while it arrived.
#[derive(Debug, PartialEq)]
enum Announced {
    Yes,
    No,
}

/// One piece of a call.
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    /// The piece of the arguments, as JSON: a string, or a whole object.
    arguments: Option<String>,
    fields: Object,
}

impl Piece {
    fn read(json: &str) -> Option<Self> {
        let fields = Object::parse(json).ok()?;
        let function = fields.get("function").and_then(|function| Object::parse(function).ok());
        let text = |object: Option<&Object>, name| object?.text(name).filter(|text| !text.is_empty());
        let arguments = function.as_ref().and_then(|function| function.get("arguments"));
        Some(Self {
            index: fields.get("index").and_then(|index| index.parse().ok()),
            id: text(Some(&fields), "id"),
            name: text(function.as_ref(), "name"),
            arguments: arguments.filter(|arguments| !matches!(*arguments, "null" | "\"\"")).map(str::to_owned),
            fields,
        })
    }

    /// The text of the arguments that this piece brings.
    fn arguments_text(&self) -> Option<String> {
        let json = self.arguments.as_deref()?;
        Some(decode(json).unwrap_or_else(|| json.to_owned()))
    }
}

impl Calls {
    /// Takes one piece in and returns the name of a call that has begun its arguments with it.
    pub(super) fn take(&mut self, json: &str) -> Option<String> {
        let piece = Piece::read(json)?;
        let place = self.place_of(&piece).unwrap_or_else(|| {
            self.0.push(GrowingCall::new(&piece));
            self.0.len() - 1
        });
        let call = &mut self.0[place];
        call.grow(piece);
        call.announce_with_arguments()
    }

    /// The names of the calls that were not told of yet.
    pub(super) fn unannounced(&mut self) -> Vec<String> {
        let quiet = self.0.iter_mut().filter(|call| call.announced == Announced::No);
        quiet
            .map(|call| {
                call.announced = Announced::Yes;
                call.name.clone()
            })
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts of a reply that they are.
    pub(super) fn into_parts(self) -> serde_json::Result<Vec<Part>> {
        self.0.into_iter().map(GrowingCall::part).collect()
    }

    /// The call that a piece continues.
    fn place_of(&self, piece: &Piece) -> Option<usize> {
        let known = match (piece.index, &piece.id) {
            (Some(index), _) => self.0.iter().rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self.0.iter().rposition(|call| call.id == *id).or_else(|| {
                // An id that comes only with the second piece, or a new one with each.
                let last = self.0.last().filter(|last| piece.name.is_none() || last.name.is_empty());
                last.map(|_| self.0.len() - 1)
            }),
            (None, None) => self.0.len().checked_sub(1),
        };
        known.filter(|place| !self.0[*place].ends_before(piece))
    }
}

impl GrowingCall {
    fn new(piece: &Piece) -> Self {
        Self {
            index: piece.index,
            id: String::new(),
            name: String::new(),
            arguments: String::from("\"\""),
            fields: piece.fields.clone(),
            announced: Announced::No,
        }
    }

    /// Says whether a piece begins another call. Only one with a name can.
    fn ends_before(&self, piece: &Piece) -> bool {
        let Some(name) = &piece.name else { return false };
        if self.name.is_empty() {
            return false;
        }
        let other_id = piece.id.as_ref().is_some_and(|id| !self.id.is_empty() && *id != self.id);
        let unnumbered = piece.index.is_none() && piece.id.is_none();
        let repeats = *name == self.name && piece.arguments_text().is_none_or(|text| text == self.text());
        // An id of its own, or neither number nor id: a name begins a call. Otherwise it is a piece of a name or its
        // repetition, unless the call has all its arguments.
        other_id || unnumbered || (self.is_whole() && !repeats)
    }

    fn grow(&mut self, piece: Piece) {
        if self.id.is_empty() {
            self.id = piece.id.clone().unwrap_or_default();
        }
        let text = self.text();
        match &piece.name {
            // Sent again with each piece.
            Some(name) if *name == self.name => {}
            Some(name) if text.is_empty() => self.name.push_str(name),
            _ => {}
        }
        match piece.arguments.as_deref() {
            // The whole call once more, at its end.
            Some(_) if self.is_whole() && piece.arguments_text().is_some_and(|again| again == text) => {}
            Some(json) if json.starts_with('"') => append(&mut self.arguments, json),
            Some(json) if text.is_empty() => self.arguments = json!(json).to_string(),
            _ => {}
        }
        for (name, value) in piece.fields.fields() {
            if !matches!(name, "index" | "id" | "type" | "function") {
                self.fields.set(name, value);
            }
        }
    }

    fn announce_with_arguments(&mut self) -> Option<String> {
        let begun = self.announced == Announced::No && !self.name.is_empty() && self.arguments != "\"\"";
        begun.then(|| {
            self.announced = Announced::Yes;
            self.name.clone()
        })
    }

    fn text(&self) -> String {
        decode(&self.arguments).unwrap_or_default()
    }

    fn is_whole(&self) -> bool {
        matches!(arguments::read(&self.text(), CallEnd::Seen), Arguments::Whole(_))
    }

    fn part(self) -> serde_json::Result<Part> {
        let text = self.text();
        // A tool without parameters: some servers send no arguments at all.
        let text = if text.trim().is_empty() { "{}" } else { text.trim() };
        let mut fields = Object::default();
        fields.set("id", json!(self.id).to_string());
        fields.set("type", json!("function").to_string());
        fields.set("function", json!({"name": self.name, "arguments": text}).to_string());
        for (name, value) in self.fields.fields() {
            if !matches!(name, "index" | "id" | "type" | "function") {
                fields.set(name, value);
            }
        }
        let call = RawCall {
            provider_id: Some(self.id).filter(|id| !id.is_empty()),
            name: self.name,
            arguments: arguments::read(text, CallEnd::Seen),
        };
        Ok(Part { kind: PartKind::ToolCall(call), native: fields.to_native()? })
    }
}
