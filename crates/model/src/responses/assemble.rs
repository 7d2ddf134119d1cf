//! Puts a streamed reply together from its events.
//!
//! What counts is each item as its `done` event gives it; the deltas before are for showing, and for what a reply that
//! was cut at its limit had said so far. An item that never ended ends the attempt.

use hames_protocol::{
    Arguments, Delta, Dialect, FailureKind, ModelFailure, Part, PartKind, RawCall, Reply, StopReason, Usage,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arguments::{self, CallEnd};
use crate::failure::{failure, from_event};
use crate::raw_json::{Object, append, decode};
use crate::wire::{self, Assembler, Progress};

/// Turns the events of one streamed reply into the reply.
pub(super) struct ResponseAssembler {
    provider: String,
    model: String,
    provider_id: Option<String>,
    items: Vec<GrowingItem>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
}

/// An item that is still arriving, or whole.
struct GrowingItem {
    index: u64,
    fields: Object,
    /// The text or the arguments so far, as a JSON string.
    grown: String,
    end: CallEnd,
}

impl GrowingItem {
    fn new(index: u64, fields: Object, end: CallEnd) -> Self {
        Self { index, fields, grown: "\"\"".to_owned(), end }
    }
}

impl ResponseAssembler {
    /// Begins a reply of `model`, the name that was asked for.
    pub(super) fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            provider_id: None,
            items: Vec::new(),
            usage: None,
            stop: None,
        }
    }

    fn take(&mut self, kind: &str, data: &Object, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        match kind {
            "response.created" | "response.in_progress" => {
                let response = data.get("response").and_then(|response| Object::parse(response).ok());
                self.provider_id = response.and_then(|response| response.text("id")).or(self.provider_id.take());
            }
            "response.output_item.added" => {
                let item = self.item(kind, data)?;
                if item.text("type").as_deref() == Some("function_call") {
                    deltas.push(Delta::Call { name: item.text("name").unwrap_or_default() });
                }
                let index = self.index(data);
                self.items.push(GrowingItem::new(index, item, CallEnd::Missing));
            }
            "response.output_item.done" => {
                let item = self.item(kind, data)?;
                let index = self.index(data);
                self.end_item(index, item);
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.grow(data);
                deltas.extend(data.text("delta").map(Delta::Text));
            }
            "response.function_call_arguments.delta" => self.grow(data),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                deltas.extend(data.text("delta").map(Delta::Reasoning));
            }
            "response.completed" | "response.incomplete" => self.end(kind, data, deltas)?,
            _ => {}
        }
        Ok(())
    }

    fn item(&self, kind: &str, data: &Object) -> Result<Object, ModelFailure> {
        let item = data.get("item").ok_or_else(|| self.malformed(kind, "it has no item"))?;
        Object::parse(item).map_err(|problem| self.malformed(kind, &problem.to_string()))
    }

    /// The number of the item that an event is about; a server that numbers none means the newest.
    fn index(&self, data: &Object) -> u64 {
        let numbered = data.get("output_index").and_then(|index| index.parse().ok());
        numbered.unwrap_or_else(|| self.items.last().map_or(0, |item| item.index))
    }

    fn grow(&mut self, data: &Object) {
        let index = self.index(data);
        let open = self.items.iter_mut().rev().find(|item| item.index == index && item.end == CallEnd::Missing);
        if let (Some(item), Some(delta)) = (open, data.get("delta")) {
            append(&mut item.grown, delta);
        }
    }

    fn end_item(&mut self, index: u64, fields: Object) {
        let id = fields.text("id");
        let same = |item: &&mut GrowingItem| {
            item.end == CallEnd::Missing && item.index == index && (id.is_none() || item.fields.text("id") == id)
        };
        let place = self.items.iter_mut().rev().find(same);
        let place = match place {
            Some(item) => Some(item),
            None => self.items.iter_mut().rev().find(|item| item.end == CallEnd::Missing && item.index == index),
        };
        match place {
            Some(item) => (item.fields, item.end) = (fields, CallEnd::Seen),
            None => self.items.push(GrowingItem::new(index, fields, CallEnd::Seen)),
        }
    }

    fn end(&mut self, kind: &str, data: &Object, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let response = data.get("response").map_or_else(|| Ok(Object::default()), Object::parse);
        let response = response.map_err(|problem| self.malformed(kind, &problem.to_string()))?;
        self.provider_id = response.text("id").or(self.provider_id.take());
        let usage = response.get("usage").and_then(|usage| serde_json::from_str::<Value>(usage).ok());
        if let Some(usage) = usage.as_ref().and_then(read_usage) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
        if kind == "response.completed" {
            self.take_missing(&response);
            if let Some(open) = self.items.iter().find(|item| item.end == CallEnd::Missing) {
                let what = open.fields.text("type").unwrap_or_default();
                let text = format!(
                    "{}'s stream said that it was complete in the middle of a {what}. The reply was not used.",
                    self.provider
                );
                return Err(self.with_usage(failure(FailureKind::Transient, text)));
            }
        }
        let details = response.get("incomplete_details").and_then(|details| Object::parse(details).ok());
        let reason = details.and_then(|details| details.text("reason"));
        self.stop = Some(match reason.as_deref() {
            None if kind == "response.completed" => StopReason::EndTurn,
            Some("max_output_tokens" | "max_tokens") => StopReason::OutputLimit,
            Some("content_filter") => StopReason::Refusal,
            reason => StopReason::Other(reason.unwrap_or("incomplete").to_owned()),
        });
        Ok(())
    }

    /// Takes the items that only the whole response has: some servers send no events for them.
    fn take_missing(&mut self, response: &Object) {
        let output: Vec<&RawValue> =
            response.get("output").and_then(|output| serde_json::from_str(output).ok()).unwrap_or_default();
        for (index, item) in (0..).zip(output) {
            let Ok(item) = Object::parse(item.get()) else { continue };
            let unfinished = item.text("status").is_some_and(|status| status != "completed");
            let known = self.items.iter().any(|known| known.index == index && known.end == CallEnd::Seen);
            if !known && !unfinished {
                self.end_item(index, item);
            }
        }
    }

    fn reply(mut self) -> Result<Reply, ModelFailure> {
        let Some(stop) = self.stop.take() else { return Err(wire::cut_short(&self.provider, self.usage)) };
        self.items.sort_by_key(|item| item.index);
        let items = std::mem::take(&mut self.items);
        let refused = items.iter().any(|item| item.fields.get("content").is_some_and(has_refusal));
        let parts: Vec<Part> = items
            .into_iter()
            .map(GrowingItem::part)
            .collect::<Result<_, _>>()
            .map_err(|problem| self.malformed("response.output_item.done", &problem.to_string()))?;
        let calls = parts.iter().any(|part| matches!(part.kind, PartKind::ToolCall(_)));
        let stop = match stop {
            StopReason::EndTurn if refused => StopReason::Refusal,
            StopReason::EndTurn if calls => StopReason::ToolUse,
            stop => stop,
        };
        Ok(Reply {
            dialect: Dialect::OpenAi,
            model: self.model,
            provider_id: self.provider_id,
            parts,
            stop,
            usage: self.usage,
        })
    }

    fn with_usage(&self, failure: ModelFailure) -> ModelFailure {
        ModelFailure { usage: self.usage, ..failure }
    }

    fn malformed(&self, event: &str, why: &str) -> ModelFailure {
        wire::malformed(&self.provider, event, why, self.usage)
    }
}

impl Assembler for ResponseAssembler {
    fn event(&mut self, name: &str, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if self.stop.is_some() {
            return Ok(());
        }
        let known = name.starts_with("response.") || name == "error";
        let parsed = match Object::parse(data) {
            Ok(parsed) => parsed,
            Err(problem) if known || data.starts_with('{') => return Err(self.malformed(name, &problem.to_string())),
            Err(_) => return Ok(()),
        };
        let kind = parsed.text("type").unwrap_or_else(|| name.to_owned());
        if kind == "response.failed" {
            let response = parsed.get("response").unwrap_or("{}");
            return Err(self.with_usage(from_event(&self.provider, response)));
        }
        if kind == "error" || (!known && parsed.get("error").is_some_and(|error| error != "null")) {
            return Err(self.with_usage(from_event(&self.provider, data)));
        }
        self.take(&kind, &parsed, deltas)
    }

    fn progress(&self) -> Progress {
        if self.stop.is_some() { Progress::Ended } else { Progress::Streaming }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFailure> {
        self.reply()
    }
}

impl GrowingItem {
    fn part(mut self) -> serde_json::Result<Part> {
        let kind = match self.fields.text("type").unwrap_or_default().as_str() {
            "message" => {
                let text = match self.end {
                    CallEnd::Seen => texts(self.fields.get("content")).concat(),
                    CallEnd::Missing => self.close_message(),
                };
                PartKind::Text(text)
            }
            "reasoning" => {
                let summary = texts(self.fields.get("summary"));
                let shown = if summary.is_empty() { texts(self.fields.get("content")) } else { summary };
                let encrypted = self.fields.text("encrypted_content").is_some_and(|text| !text.is_empty());
                PartKind::Reasoning { text: shown.join("\n\n"), signed: encrypted && self.end == CallEnd::Seen }
            }
            "function_call" => PartKind::ToolCall(self.call()),
            _ => PartKind::Other,
        };
        Ok(Part { kind, native: self.fields.to_native()? })
    }

    /// Writes what a message that was cut had said so far into its item.
    fn close_message(&mut self) -> String {
        let text = decode(&self.grown).unwrap_or_default();
        let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
        self.fields.set("content", content.to_string());
        self.fields.set("status", json!("incomplete").to_string());
        text
    }

    fn call(&mut self) -> RawCall {
        let text = match self.end {
            CallEnd::Seen => self.fields.text("arguments").unwrap_or_default(),
            CallEnd::Missing => decode(&self.grown).unwrap_or_default(),
        };
        let text = if text.trim().is_empty() && self.end == CallEnd::Seen { "{}" } else { text.trim() };
        let arguments = arguments::read(text, self.end);
        if let Arguments::Whole(_) = arguments {
            self.fields.set("arguments", json!(text).to_string());
        }
        if self.end == CallEnd::Missing {
            self.fields.set("status", json!("incomplete").to_string());
        }
        RawCall {
            provider_id: self.fields.text("call_id").filter(|id| !id.is_empty()),
            name: self.fields.text("name").unwrap_or_default(),
            arguments,
        }
    }
}

/// The texts of a list of parts, refusals included.
fn texts(list: Option<&str>) -> Vec<String> {
    let parts: Vec<Value> = list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
    let text = |part: &Value| Some(part.get("text").or_else(|| part.get("refusal"))?.as_str()?.to_owned());
    parts.iter().filter_map(text).collect()
}

fn has_refusal(content: &str) -> bool {
    let parts: Vec<Value> = serde_json::from_str(content).unwrap_or_default();
    parts.iter().any(|part| part["type"] == "refusal")
}

/// Reads tokens in the words of Responses: input includes cached tokens, output includes reasoning.
fn read_usage(reported: &Value) -> Option<Usage> {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
    let input = number(reported, "input_tokens")?;
    let details = reported.get("input_tokens_details").unwrap_or(&Value::Null);
    let cached = number(details, "cached_tokens").unwrap_or(0).min(input);
    let written = number(details, "cache_write_tokens").unwrap_or(0).min(input - cached);
    Some(Usage {
        input_tokens: input - cached - written,
        output_tokens: number(reported, "output_tokens").unwrap_or(0),
        cache_read_tokens: cached,
        cache_write_tokens: written,
        estimated: false,
    })
}
