//! Puts a streamed reply together from its chunks.
//!
//! A signature belongs to the part that it came with: parts with one are never joined with others. The reply is whole
//! with its `finishReason`; the stream has no end event of its own.

use hames_protocol::{
    Arguments, Delta, Dialect, FailureKind, ModelFailure, Part, PartKind, RawCall, Reply, StopReason, Usage,
};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::{self, CallEnd};
use crate::failure::{failure, from_event};
use crate::raw_json::Object;
use crate::wire::{self, Assembler, Progress};

/// Turns the chunks of one streamed reply into the reply.
pub(super) struct ContentAssembler {
    provider: String,
    model: String,
    provider_id: Option<String>,
    parts: Vec<Object>,
    finish: Option<String>,
    finish_words: Option<String>,
    usage: Option<Usage>,
}

impl ContentAssembler {
    /// Begins a reply of `model`, the name that was asked for.
    pub(super) fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            provider_id: None,
            parts: Vec::new(),
            finish: None,
            finish_words: None,
            usage: None,
        }
    }

    fn take(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let chunk = Object::parse(data).map_err(|problem| self.malformed(&problem.to_string()))?;
        if self.provider_id.is_none() {
            self.provider_id = chunk.text("responseId");
        }
        let usage = chunk.get("usageMetadata").and_then(|usage| serde_json::from_str::<Value>(usage).ok());
        if let Some(usage) = usage.as_ref().and_then(read_usage) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
        let feedback = chunk.get("promptFeedback").and_then(|feedback| Object::parse(feedback).ok());
        if let Some(reason) = feedback.as_ref().and_then(|feedback| feedback.text("blockReason")) {
            let words = feedback.and_then(|feedback| feedback.text("blockReasonMessage"));
            let words = words.map_or_else(String::new, |words| format!(": {}", words.trim_end_matches('.')));
            let text = format!(
                "{} refuses to read the prompt ({reason}{words}). Repeating the same request cannot help.",
                self.provider
            );
            return Err(self.with_usage(failure(FailureKind::Rejected, text)));
        }
        let candidates: Vec<&RawValue> =
            chunk.get("candidates").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
        // Only one is asked for.
        match candidates.first().map(|candidate| Object::parse(candidate.get())) {
            Some(Ok(candidate)) => self.take_candidate(&candidate, deltas),
            Some(Err(problem)) => return Err(self.malformed(&problem.to_string())),
            None => {}
        }
        Ok(())
    }

    fn take_candidate(&mut self, candidate: &Object, deltas: &mut Vec<Delta>) {
        let content = candidate.get("content").and_then(|content| Object::parse(content).ok());
        let parts: Vec<&RawValue> = content
            .as_ref()
            .and_then(|content| content.get("parts"))
            .and_then(|parts| serde_json::from_str(parts).ok())
            .unwrap_or_default();
        for part in parts.iter().filter_map(|part| Object::parse(part.get()).ok()) {
            self.take_part(part, deltas);
        }
        if let Some(reason) = candidate.text("finishReason").filter(|reason| reason != "FINISH_REASON_UNSPECIFIED") {
            self.finish = Some(reason);
            self.finish_words = candidate.text("finishMessage");
        }
    }

    fn take_part(&mut self, part: Object, deltas: &mut Vec<Delta>) {
        if let Some(text) = part.text("text").filter(|text| !text.is_empty()) {
            deltas.push(if is_thought(&part) { Delta::Reasoning(text) } else { Delta::Text(text) });
        }
        if let Some(call) = part.get("functionCall").and_then(|call| Object::parse(call).ok()) {
            deltas.push(Delta::Call { name: call.text("name").unwrap_or_default() });
        }
        let is_plain = |part: &Object| {
            part.get("text").is_some() && part.fields().all(|(name, _)| matches!(name, "text" | "thought"))
        };
        match self.parts.last_mut().filter(|last| is_plain(last) && is_thought(last) == is_thought(&part)) {
            Some(last) if is_plain(&part) => last.append("text", part.get("text").unwrap_or("\"\"")),
            _ => self.parts.push(part),
        }
    }

    fn reply(mut self) -> Result<Reply, ModelFailure> {
        let Some(finish) = self.finish.take() else { return Err(wire::cut_short(&self.provider, self.usage)) };
        let parts = std::mem::take(&mut self.parts).into_iter().map(part).collect::<Result<Vec<_>, _>>();
        let mut parts = parts.map_err(|problem| self.malformed(&problem.to_string()))?;
        // A piece without text and without a signature says nothing.
        parts.retain(|part| !matches!(&part.kind, PartKind::Text(text) if text.is_empty() && !is_signed(part)));
        let calls = parts.iter().any(|part| matches!(part.kind, PartKind::ToolCall(_)));
        let stop = self.stop_reason(&finish, calls)?;
        Ok(Reply {
            dialect: Dialect::Gemini,
            model: self.model,
            provider_id: self.provider_id,
            parts,
            stop,
            usage: self.usage,
        })
    }

    /// Source: <https://ai.google.dev/api/generate-content#FinishReason>.
    fn stop_reason(&self, finish: &str, calls: bool) -> Result<StopReason, ModelFailure> {
        Ok(match finish {
            "STOP" if calls => StopReason::ToolUse,
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::OutputLimit,
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
                StopReason::Refusal
            }
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MALFORMED_RESPONSE" => {
                let words = self.finish_words.as_deref().unwrap_or("it gave no details").trim_end_matches('.');
                let text = format!(
                    "{}'s model wrote a tool call that cannot be read ({finish}: {words}). The same request may \
                     succeed later.",
                    self.provider
                );
                return Err(self.with_usage(failure(FailureKind::Transient, text)));
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let text = format!("{} misses a signature in the history ({finish}).", self.provider);
                return Err(self.with_usage(failure(FailureKind::Rejected, text)));
            }
            other => StopReason::Other(other.to_owned()),
        })
    }

    fn with_usage(&self, failure: ModelFailure) -> ModelFailure {
        ModelFailure { usage: self.usage, ..failure }
    }

    fn malformed(&self, why: &str) -> ModelFailure {
        wire::malformed(&self.provider, "chunk", why, self.usage)
    }
}

impl Assembler for ContentAssembler {
    fn event(&mut self, name: &str, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if wire::tells_error(name, data) {
            return Err(self.with_usage(from_event(&self.provider, data)));
        }
        if data.trim_start().starts_with('{') { self.take(data, deltas) } else { Ok(()) }
    }

    fn progress(&self) -> Progress {
        if self.finish.is_some() { Progress::Whole } else { Progress::Streaming }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFailure> {
        self.reply()
    }
}

fn is_thought(part: &Object) -> bool {
    part.get("thought") == Some("true")
}

fn is_signed(part: &Part) -> bool {
    Object::parse(part.native.as_str()).is_ok_and(|fields| signature(&fields).is_some())
}

fn signature(part: &Object) -> Option<String> {
    part.text("thoughtSignature").filter(|signature| !signature.is_empty())
}

fn part(fields: Object) -> serde_json::Result<Part> {
    let kind = if let Some(call) = fields.get("functionCall") {
        PartKind::ToolCall(call_of(&Object::parse(call)?))
    } else {
        match fields.text("text") {
            Some(text) if is_thought(&fields) => PartKind::Reasoning { text, signed: signature(&fields).is_some() },
            Some(text) => PartKind::Text(text),
            None => PartKind::Other,
        }
    };
    Ok(Part { kind, native: fields.to_native()? })
}

fn call_of(call: &Object) -> RawCall {
    let text = call.get("args").filter(|args| *args != "null").unwrap_or("{}");
    let arguments: Arguments = arguments::read(text, CallEnd::Seen);
    RawCall {
        provider_id: call.text("id").filter(|id| !id.is_empty()),
        name: call.text("name").unwrap_or_default(),
        arguments,
    }
}

/// Reads tokens in Gemini's words: the prompt includes cached tokens, thoughts are counted apart from candidates.
fn read_usage(reported: &Value) -> Option<Usage> {
    let number = |name: &str| reported.get(name).and_then(Value::as_u64);
    let prompt = number("promptTokenCount")?.saturating_add(number("toolUsePromptTokenCount").unwrap_or(0));
    let cached = number("cachedContentTokenCount").unwrap_or(0).min(prompt);
    let output = number("candidatesTokenCount").unwrap_or(0).saturating_add(number("thoughtsTokenCount").unwrap_or(0));
    Some(Usage {
        input_tokens: prompt - cached,
        output_tokens: output,
        cache_read_tokens: cached,
        cache_write_tokens: 0,
        estimated: false,
    })
}
