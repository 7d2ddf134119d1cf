//! Puts a streamed reply together from its chunks.
//!
//! The reply is whole with its `finish_reason`, or with `[DONE]` where a server leaves the reason out; its tokens may
//! come before, with, or after that, or not at all.

use hames_protocol::{Delta, Dialect, FailureKind, ModelFailure, Native, Part, PartKind, Reply, StopReason, Usage};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::Calls;
use crate::failure::{failure, from_event};
use crate::raw_json::{Object, append, decode};
use crate::wire::{self, Assembler, Progress};

/// The fields in which servers send reasoning as text, in the order in which they are looked for.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// Turns the chunks of one streamed reply into the reply.
pub(super) struct ChatAssembler {
    provider: String,
    model: String,
    provider_id: Option<String>,
    /// The text so far, as a JSON string.
    text: String,
    /// The reasoning so far, as a JSON string, and the field that it came in.
    reasoning: Option<(&'static str, String)>,
    /// OpenRouter's structured reasoning, which holds signatures.
    details: Vec<Object>,
    calls: Calls,
    refusal: Refusal,
    stop: Option<String>,
    usage: Option<Usage>,
    seen: Seen,
}

/// Whether the model declined in the field that is made for it.
#[derive(PartialEq)]
enum Refusal {
    Told,
    None,
}

/// What has come so far.
#[derive(PartialEq, PartialOrd)]
enum Seen {
    Nothing,
    Choice,
    End,
}

impl ChatAssembler {
    /// Begins a reply of `model`, the name that was asked for.
    pub(super) fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            provider_id: None,
            text: "\"\"".to_owned(),
            reasoning: None,
            details: Vec::new(),
            calls: Calls::default(),
            refusal: Refusal::None,
            stop: None,
            usage: None,
            seen: Seen::Nothing,
        }
    }

    fn take(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let chunk = Object::parse(data).map_err(|problem| self.malformed(&problem.to_string()))?;
        if self.provider_id.is_none() {
            self.provider_id = chunk.text("id").filter(|id| !id.is_empty());
        }
        let choices: Vec<&RawValue> =
            chunk.get("choices").and_then(|choices| serde_json::from_str(choices).ok()).unwrap_or_default();
        // Only one is asked for.
        let mut objects = choices.iter().filter_map(|choice| Object::parse(choice.get()).ok());
        let choice = objects.find(|choice| matches!(choice.get("index"), None | Some("0" | "null")));
        if let Some(choice) = &choice {
            self.take_choice(choice, deltas)?;
        }
        let groq = chunk.get("x_groq").and_then(|groq| nested(groq, "usage"));
        let in_choice = choice.as_ref().and_then(|choice| choice.get("usage"));
        let usage = chunk.get("usage").filter(|usage| *usage != "null").or(groq.as_deref()).or(in_choice);
        self.count(usage, deltas);
        Ok(())
    }

    fn take_choice(&mut self, choice: &Object, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        if self.seen < Seen::Choice {
            self.seen = Seen::Choice;
        }
        if let Some(error) = choice.get("error").filter(|error| *error != "null") {
            return Err(self.with_usage(from_event(&self.provider, &format!(r#"{{"error":{error}}}"#))));
        }
        let delta = ["delta", "message"].iter().find_map(|name| choice.get(name)).unwrap_or("{}");
        if let Ok(delta) = Object::parse(delta) {
            self.take_reasoning(&delta, deltas);
            self.take_text(&delta, deltas);
            let calls: Vec<&RawValue> =
                delta.get("tool_calls").and_then(|calls| serde_json::from_str(calls).ok()).unwrap_or_default();
            for call in calls {
                deltas.extend(self.calls.take(call.get()).map(|name| Delta::Call { name }));
            }
        }
        if let Some(reason) = choice.text("finish_reason").filter(|reason| !reason.is_empty()) {
            self.stop = Some(reason);
            deltas.extend(self.calls.unannounced().into_iter().map(|name| Delta::Call { name }));
        }
        Ok(())
    }

    fn take_text(&mut self, delta: &Object, deltas: &mut Vec<Delta>) {
        for name in ["content", "refusal"] {
            let Some(json) = delta.get(name) else { continue };
            if json.starts_with('[') {
                self.take_list(json, deltas);
            } else if let Some(text) = decode(json).filter(|text| !text.is_empty()) {
                append(&mut self.text, json);
                deltas.push(Delta::Text(text));
                if name == "refusal" {
                    self.refusal = Refusal::Told;
                }
            }
        }
    }

    /// Content as a list of parts, as Mistral sends it when a model thinks.
    fn take_list(&mut self, json: &str, deltas: &mut Vec<Delta>) {
        let parts: Vec<Value> = serde_json::from_str(json).unwrap_or_default();
        for part in parts {
            match (part["type"].as_str(), &part["thinking"]) {
                (Some("thinking"), Value::Array(pieces)) => {
                    let text: String = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
                    self.reason("reasoning_content", &json!(text).to_string(), deltas);
                }
                (Some("text"), _) if part["text"].is_string() => {
                    append(&mut self.text, &part["text"].to_string());
                    deltas.extend(part["text"].as_str().map(|text| Delta::Text(text.to_owned())));
                }
                _ => {}
            }
        }
    }

    fn take_reasoning(&mut self, delta: &Object, deltas: &mut Vec<Delta>) {
        // A server that sends both fields sends the same text in both.
        let wanted = self.reasoning.as_ref().map(|(name, _)| *name);
        let mut names = REASONING.iter().filter(|name| wanted.is_none_or(|wanted| wanted == **name));
        let found = names.find_map(|name| Some((*name, delta.get(name).filter(|json| json.starts_with('"'))?)));
        if let Some((name, json)) = found {
            self.reason(name, json, deltas);
        }
        let details: Vec<&RawValue> =
            delta.get("reasoning_details").and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default();
        for detail in details.iter().filter_map(|detail| Object::parse(detail.get()).ok()) {
            self.take_detail(detail);
        }
    }

    fn reason(&mut self, name: &'static str, json: &str, deltas: &mut Vec<Delta>) {
        let Some(text) = decode(json).filter(|text| !text.is_empty()) else { return };
        let (_, so_far) = self.reasoning.get_or_insert_with(|| (name, "\"\"".to_owned()));
        append(so_far, json);
        deltas.push(Delta::Reasoning(text));
    }

    /// Joins pieces of the same kind and number: the list must be sent back as if it had come whole.
    fn take_detail(&mut self, detail: Object) {
        let same = |known: &&mut Object| {
            ["type", "index"].iter().all(|name| known.get(name) == detail.get(name))
                && detail.text("type").as_deref() != Some("reasoning.encrypted")
        };
        let Some(known) = self.details.last_mut().filter(|known| same(known)) else {
            self.details.push(detail);
            return;
        };
        for (name, value) in detail.fields() {
            match name {
                "text" | "summary" => known.append(name, value),
                _ if value != "null" => known.set(name, value),
                _ => {}
            }
        }
    }

    /// Takes reported tokens over. The numbers are those of the whole reply: a later one replaces an earlier one.
    fn count(&mut self, usage: Option<&str>, deltas: &mut Vec<Delta>) {
        let Some(Ok(reported)) = usage.map(serde_json::from_str::<Value>) else { return };
        if let Some(usage) = read_usage(&reported) {
            self.usage = Some(usage);
            deltas.push(Delta::Usage(usage));
        }
    }

    fn reply(mut self) -> Result<Reply, ModelFailure> {
        if self.seen == Seen::Nothing || (self.stop.is_none() && self.seen != Seen::End) {
            return Err(wire::cut_short(&self.provider, self.usage));
        }
        let stop = self.stop_reason()?;
        let mut parts = Vec::new();
        let unfit = |problem: serde_json::Error| wire::malformed(&self.provider, "chunk", &problem.to_string(), None);
        parts.extend(self.reasoning_part().transpose().map_err(unfit)?);
        let text = decode(&self.text).unwrap_or_default();
        if !text.is_empty() {
            let native = native(json!({"content": text}).to_string()).map_err(unfit)?;
            parts.push(Part { kind: PartKind::Text(text), native });
        }
        let calls = std::mem::take(&mut self.calls).into_parts();
        parts.extend(calls.map_err(|problem| self.malformed(&problem.to_string()))?);
        Ok(Reply {
            dialect: Dialect::OpenAiChat,
            model: self.model,
            provider_id: self.provider_id,
            parts,
            stop,
            usage: self.usage,
        })
    }

    fn reasoning_part(&self) -> Option<serde_json::Result<Part>> {
        let mut fields = Object::default();
        if let Some((name, json)) = &self.reasoning {
            fields.set(name, json.as_str());
        }
        for detail in &self.details {
            fields.push("reasoning_details", &detail.to_string());
        }
        let text = self.reasoning.as_ref().and_then(|(_, json)| decode(json)).unwrap_or_default();
        let kind = PartKind::Reasoning { text, signed: !self.details.is_empty() };
        let any = self.reasoning.is_some() || !self.details.is_empty();
        any.then(|| Ok(Part { kind, native: fields.to_native()? }))
    }

    fn stop_reason(&self) -> Result<StopReason, ModelFailure> {
        let natural = if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        Ok(match self.stop.as_deref() {
            Some("length") => StopReason::OutputLimit,
            // Mistral's word for a full window.
            Some("model_length") => StopReason::ContextWindow,
            Some("content_filter") => StopReason::Refusal,
            _ if self.refusal == Refusal::Told => StopReason::Refusal,
            // Servers say `stop` though there are calls, and the other way round.
            None | Some("stop" | "tool_calls" | "function_call" | "eos" | "end_turn") => natural,
            Some(reason @ ("error" | "insufficient_system_resource")) => {
                let text =
                    format!("{} broke off its reply ({reason}). The same request may succeed later.", self.provider);
                return Err(self.with_usage(failure(FailureKind::Transient, text)));
            }
            Some(other) => StopReason::Other(other.to_owned()),
        })
    }

    fn with_usage(&self, failure: ModelFailure) -> ModelFailure {
        ModelFailure { usage: self.usage, ..failure }
    }

    fn malformed(&self, why: &str) -> ModelFailure {
        wire::malformed(&self.provider, "chunk", why, self.usage)
    }
}

impl Assembler for ChatAssembler {
    fn event(&mut self, name: &str, data: &str, deltas: &mut Vec<Delta>) -> Result<(), ModelFailure> {
        let data = data.trim();
        if self.seen == Seen::End {
            return Ok(());
        }
        if data == "[DONE]" {
            if self.seen == Seen::Choice {
                self.seen = Seen::End;
                deltas.extend(self.calls.unannounced().into_iter().map(|name| Delta::Call { name }));
            }
            return Ok(());
        }
        if wire::tells_error(name, data) || data.starts_with(r#"{"object":"error""#) {
            return Err(self.with_usage(from_event(&self.provider, data)));
        }
        if data.starts_with('{') { self.take(data, deltas) } else { Ok(()) }
    }

    fn progress(&self) -> Progress {
        match (&self.seen, &self.stop) {
            (Seen::End, _) => Progress::Ended,
            (_, Some(_)) => Progress::Whole,
            (_, None) => Progress::Streaming,
        }
    }

    fn usage(&self) -> Option<Usage> {
        self.usage
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFailure> {
        self.reply()
    }
}

fn nested(json: &str, name: &str) -> Option<String> {
    Object::parse(json).ok()?.get(name).map(str::to_owned)
}

fn native(json: String) -> serde_json::Result<Native> {
    RawValue::from_string(json).map(Native)
}

/// Reads tokens in the words of chat completions.
///
/// The prompt's tokens include the cached ones. Reasoning counts as output: most servers include it in
/// `completion_tokens`; where the total shows that one does not, it is added.
fn read_usage(reported: &Value) -> Option<Usage> {
    let number = |names: &[&str]| {
        let found = names.iter().try_fold(reported, |value, name| value.get(name))?;
        found.as_u64()
    };
    let (prompt, completion) = (number(&["prompt_tokens"]), number(&["completion_tokens"]));
    if prompt.is_none() && completion.is_none() {
        return None;
    }
    let (prompt, completion) = (prompt.unwrap_or(0), completion.unwrap_or(0));
    let cached = number(&["prompt_tokens_details", "cached_tokens"])
        .or_else(|| number(&["prompt_cache_hit_tokens"]))
        .or_else(|| number(&["cached_tokens"]))
        .unwrap_or(0)
        .min(prompt);
    let written = number(&["prompt_tokens_details", "cache_write_tokens"]).unwrap_or(0).min(prompt - cached);
    let reasoning = number(&["completion_tokens_details", "reasoning_tokens"]).unwrap_or(0);
    let apart = number(&["total_tokens"]) == Some(prompt.saturating_add(completion).saturating_add(reasoning));
    Some(Usage {
        input_tokens: prompt - cached - written,
        output_tokens: if apart { completion.saturating_add(reasoning) } else { completion },
        cache_read_tokens: cached,
        cache_write_tokens: written,
        estimated: false,
    })
}
