//! Puts a streamed reply together from its events.
//!
//! Blocks grow as JSON text (see [`crate::raw_json`]), so that the native form of a part is what the provider sent
//! and not what this version understood of it. Nothing is ever repaired: arguments are a whole JSON object or broken.

use std::mem;

use hames_protocol::{
    Arguments, Delta, Dialect, FailureKind, ModelFailure, Part, PartKind, RawCall, Reply, StopReason, Usage,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::{self, CallEnd};
use crate::failure::{failure, from_event};
use crate::raw_json::{Object, append, decode};
use crate::wire::{self, Assembler, Progress};

/// Turns the events of one streamed reply into the reply.
pub(super) struct MessageAssembler {
    provider: String,
    model: String,
    provider_id: Option<String>,
    blocks: Vec<GrowingBlock>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    phase: Phase,
}

#[derive(PartialEq)]
enum Phase {
    Streaming,
    Ended,
}

/// An event's data; fields of other events and of later versions are left alone.
#[derive(Deserialize)]
struct EventData<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

impl MessageAssembler {
    /// Begins a reply of `model`, the name that was asked for: a provider may answer an alias with a dated name, yet
    /// a later request to the same alias must recognise its own parts.
    pub(super) fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            provider_id: None,
            blocks: Vec::new(),
            usage: None,
            stop: None,
            phase: Phase::Streaming,
        }
    }

    /// Takes one event in. The data's `type` counts where the event's name differs or is missing; unknown events, and
    /// all events after the end event, are ignored.
    ///
    /// # Errors
    /// When the provider tells of an error, or when a known event cannot be understood.
    fn take(&mut self, event: &str, data: &str) -> Result<Option<Delta>, ModelFailure> {
        if self.phase == Phase::Ended {
            return Ok(None);
        }
        if event == "error" {
            return Err(self.with_usage(from_event(&self.provider, data)));
        }
        let parsed = match serde_json::from_str::<EventData>(data) {
            Ok(parsed) => parsed,
            // Without a name only the data can tell: a gateway's `[DONE]` is no event of this dialect, a torn object is.
            Err(problem) if is_known(event) || (event == "message" && data.starts_with('{')) => {
                return Err(self.malformed(event, &problem.to_string()));
            }
            Err(_) => return Ok(None),
        };
        let kind = parsed.kind.as_deref().unwrap_or(event);
        match kind {
            "message_start" => self.start_message(parsed.message),
            "content_block_start" => self.start_block(&parsed),
            "content_block_delta" => self.grow_block(&parsed),
            "content_block_stop" => self.close_block(&parsed),
            "message_delta" => self.note_end(&parsed),
            "message_stop" => {
                self.phase = Phase::Ended;
                Ok(None)
            }
            "error" => Err(self.with_usage(from_event(&self.provider, data))),
            _ => Ok(None),
        }
    }

    fn with_usage(&self, failure: ModelFailure) -> ModelFailure {
        ModelFailure { usage: self.usage, ..failure }
    }

    fn reply(mut self) -> Result<Reply, ModelFailure> {
        if self.phase != Phase::Ended {
            return Err(wire::cut_short(&self.provider, self.usage));
        }
        if self.stop.is_none() && self.blocks.iter().any(|block| block.closed == Closed::No) {
            let text = format!(
                "{}'s stream ended in the middle of a block. The reply is incomplete and was not used.",
                self.provider
            );
            return Err(self.with_usage(failure(FailureKind::Transient, text)));
        }
        // Stable: a gateway that numbers every block 0 keeps the order in which they began.
        self.blocks.sort_by_key(|block| block.index);
        let parts = mem::take(&mut self.blocks).into_iter().map(GrowingBlock::part).collect::<Result<_, _>>();
        let parts = parts.map_err(|problem| self.malformed("content_block_start", &problem.to_string()))?;
        Ok(Reply {
            dialect: Dialect::Anthropic,
            model: self.model,
            provider_id: self.provider_id,
            parts,
            stop: self.stop.unwrap_or_else(|| StopReason::Other("no stop reason".to_owned())),
            usage: self.usage,
        })
    }

    fn start_message(&mut self, message: Option<&RawValue>) -> Result<Option<Delta>, ModelFailure> {
        #[derive(Deserialize)]
        struct Message<'a> {
            id: Option<String>,
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        let text = message.map_or("{}", RawValue::get);
        let message: Message =
            serde_json::from_str(text).map_err(|problem| self.malformed("message_start", &problem.to_string()))?;
        self.provider_id = message.id;
        Ok(self.count(message.usage))
    }

    fn start_block(&mut self, data: &EventData) -> Result<Option<Delta>, ModelFailure> {
        let (Some(index), Some(block)) = (data.index, data.content_block) else {
            return Err(self.malformed("content_block_start", "it has no index or no block"));
        };
        let fields = Object::parse(block.get())
            .map_err(|problem| self.malformed("content_block_start", &problem.to_string()))?;
        let block = GrowingBlock { index, fields, input: String::from("\"\""), closed: Closed::No };
        let delta = match block.kind().as_str() {
            "tool_use" => Some(Delta::Call { name: block.fields.text("name").unwrap_or_default() }),
            "text" => block.fields.text("text").filter(|text| !text.is_empty()).map(Delta::Text),
            "thinking" => block.fields.text("thinking").filter(|text| !text.is_empty()).map(Delta::Reasoning),
            _ => None,
        };
        self.blocks.push(block);
        Ok(delta)
    }

    fn grow_block(&mut self, data: &EventData) -> Result<Option<Delta>, ModelFailure> {
        const EVENT: &str = "content_block_delta";
        let delta = data.delta.map_or("{}", RawValue::get);
        let delta = Object::parse(delta).map_err(|problem| self.malformed(EVENT, &problem.to_string()))?;
        match self.open_block(data) {
            Some(block) => Ok(block.grow(&delta)),
            None => Err(self.malformed(EVENT, "no block with its index is open")),
        }
    }

    fn close_block(&mut self, data: &EventData) -> Result<Option<Delta>, ModelFailure> {
        match self.open_block(data) {
            Some(block) => {
                block.closed = Closed::Yes;
                Ok(None)
            }
            None => Err(self.malformed("content_block_stop", "no block with its index is open")),
        }
    }

    fn open_block(&mut self, data: &EventData) -> Option<&mut GrowingBlock> {
        self.blocks.iter_mut().rev().find(|block| Some(block.index) == data.index && block.closed == Closed::No)
    }

    fn note_end(&mut self, data: &EventData) -> Result<Option<Delta>, ModelFailure> {
        let delta = data.delta.and_then(|delta| Object::parse(delta.get()).ok());
        if let Some(reason) = delta.and_then(|delta| delta.text("stop_reason")) {
            self.stop = Some(stop_reason(reason));
        }
        Ok(self.count(data.usage))
    }

    /// Takes reported tokens over. The numbers are cumulative: a later one replaces an earlier one.
    fn count(&mut self, usage: Option<&RawValue>) -> Option<Delta> {
        let reported: Value = serde_json::from_str(usage?.get()).ok()?;
        let number = |name: &str| reported.get(name).and_then(Value::as_u64);
        let mut usage = self.usage.unwrap_or_default();
        let mut any = self.usage.is_some();
        for (name, field) in [
            ("input_tokens", &mut usage.input_tokens),
            ("output_tokens", &mut usage.output_tokens),
            ("cache_read_input_tokens", &mut usage.cache_read_tokens),
            ("cache_creation_input_tokens", &mut usage.cache_write_tokens),
        ] {
            if let Some(tokens) = number(name) {
                *field = tokens;
                any = true;
            }
        }
        self.usage = any.then_some(usage);
        self.usage.map(Delta::Usage)
    }

    fn malformed(&self, event: &str, why: &str) -> ModelFailure {
        wire::malformed(&self.provider, event, why, self.usage)
    }
}

impl Assembler for MessageAssembler {
    fn event(&mut self, name: &str, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        deltas.extend(self.take(name, data)?);
        Ok(())
    }

    fn progress(&self) -> Progress {
        if self.phase == Phase::Ended { Progress::Ended } else { Progress::Streaming }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFailure> {
        self.reply()
    }
}

#[derive(PartialEq)]
enum Closed {
    No,
    Yes,
}

/// A block that is still arriving.
struct GrowingBlock {
    index: u64,
    fields: Object,
    /// The text of the input so far, as a JSON string; the pieces are not JSON by themselves.
    input: String,
    closed: Closed,
}

impl GrowingBlock {
    fn kind(&self) -> String {
        self.fields.text("type").unwrap_or_default()
    }

    /// Adds a delta and says what to show of it.
    fn grow(&mut self, delta: &Object) -> Option<Delta> {
        let value = |name: &str| delta.get(name).unwrap_or("\"\"");
        match delta.text("type").unwrap_or_default().as_str() {
            "text_delta" => {
                self.fields.append("text", value("text"));
                delta.text("text").map(Delta::Text)
            }
            "thinking_delta" => {
                self.fields.append("thinking", value("thinking"));
                delta.text("thinking").map(Delta::Reasoning)
            }
            // The official clients replace here: a signature comes in one piece.
            "signature_delta" => {
                self.fields.set("signature", value("signature"));
                None
            }
            "citations_delta" => {
                if let Some(citation) = delta.get("citation") {
                    self.fields.push("citations", citation);
                }
                None
            }
            "input_json_delta" => {
                append(&mut self.input, value("partial_json"));
                None
            }
            _ => {
                for (name, value) in delta.fields().filter(|(name, _)| *name != "type") {
                    self.fields.append(name, value);
                }
                None
            }
        }
    }

    fn part(self) -> serde_json::Result<Part> {
        let (arguments, input) = self.arguments();
        let kind = self.kind();
        let mut fields = self.fields;
        let kind = match kind.as_str() {
            "text" => PartKind::Text(fields.text("text").unwrap_or_default()),
            "thinking" => PartKind::Reasoning {
                text: fields.text("thinking").unwrap_or_default(),
                signed: fields.text("signature").is_some_and(|signature| !signature.is_empty()),
            },
            "redacted_thinking" => PartKind::Reasoning { text: String::new(), signed: true },
            "tool_use" => {
                fields.set("input", input);
                PartKind::ToolCall(RawCall {
                    provider_id: fields.text("id").filter(|id| !id.is_empty()),
                    name: fields.text("name").unwrap_or_default(),
                    arguments,
                })
            }
            _ => {
                if self.input != "\"\"" {
                    fields.set("input", input);
                }
                PartKind::Other
            }
        };
        Ok(Part { kind, native: fields.to_native()? })
    }

    /// The arguments, and the JSON text that stands for them in an echo: `{}` when they are broken, since the
    /// provider accepts an object only.
    fn arguments(&self) -> (Arguments, String) {
        let streamed = decode(&self.input).unwrap_or_default();
        // Some gateways send the whole input with the start of the block, and no deltas.
        let started = self.fields.get("input").filter(|input| *input != "null").unwrap_or("{}");
        let text = if streamed.trim().is_empty() { started } else { streamed.trim() };
        let end = if self.closed == Closed::Yes { CallEnd::Seen } else { CallEnd::Missing };
        match arguments::read(text, end) {
            whole @ Arguments::Whole(_) => (whole, text.to_owned()),
            broken @ Arguments::Broken { .. } => (broken, "{}".to_owned()),
        }
    }
}

fn is_known(event: &str) -> bool {
    matches!(
        event,
        "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
    )
}

fn stop_reason(reason: String) -> StopReason {
    match reason.as_str() {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::OutputLimit,
        "model_context_window_exceeded" => StopReason::ContextWindow,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::Pause,
        _ => StopReason::Other(reason),
    }
}
