//! `plan`: the model's to-do list. It is shown to the user, and stands in the conversation for the model itself.
//!
//! Each call gives the whole list, so there is nothing to keep and nothing that could differ from what was shown.

use hames_protocol::port::Tool;
use hames_protocol::{BoxFuture, Call, EffectClass, Examination, Guard, Probe, Problem, Reach, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::schema::{arguments, spec};
use crate::text::{clipped, counted, escaped};

/// The longest list; a longer one is no plan that anyone reads.
const ITEM_LIMIT: usize = 50;

/// How much of an item is shown, in bytes.
const SHOWN_ITEM_BYTES: usize = 200;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole list, in order.
    items: Vec<Item>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct Item {
    text: String,
    status: State,
}

#[derive(Deserialize, Serialize, JsonSchema, Clone, Copy)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum State {
    Pending,
    InProgress,
    Done,
}

impl State {
    fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[>]",
            Self::Done => "[x]",
        }
    }
}

pub(crate) struct Plan {
    spec: ToolSpec,
}

impl Plan {
    pub(crate) fn new() -> Self {
        let description = "Shows the user your to-do list. Use it for work of several steps, and again after each.";
        Self { spec: spec::<Arguments>("plan", description) }
    }
}

impl Tool for Plan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let examination = match arguments::<Arguments>(call) {
            Ok(arguments) => match fault(&arguments.items) {
                None => Examination::plain(EffectClass::Pure, Reach::Private),
                Some(text) => Examination::problem(Guard::Valid, text),
            },
            Err(Problem { guard, text }) => Examination::problem(guard, text),
        };
        Box::pin(std::future::ready(examination))
    }

    fn run<'a>(&'a self, call: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let result = match arguments::<Arguments>(call) {
            Ok(arguments) => match fault(&arguments.items) {
                None => listed(&arguments.items),
                Some(text) => ToolResult::failed(text),
            },
            Err(problem) => ToolResult::failed(problem.text),
        };
        Box::pin(std::future::ready(result))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

fn fault(items: &[Item]) -> Option<String> {
    if items.len() > ITEM_LIMIT {
        let count = counted(items.len(), "item");
        return Some(format!("The plan has {count}, more than {ITEM_LIMIT}. Join steps that belong together."));
    }
    let empty = items.iter().position(|item| item.text.trim().is_empty())?;
    Some(format!("Item {} of the plan has no text. Say what the step is, or leave it out.", empty + 1))
}

fn listed(items: &[Item]) -> ToolResult {
    let line =
        |item: &Item| format!("{} {}", item.status.mark(), escaped(&clipped(item.text.trim(), SHOWN_ITEM_BYTES)));
    let lines: Vec<String> = items.iter().map(line).collect();
    let mut result = ToolResult::ok(if lines.is_empty() { "The plan is empty.".to_owned() } else { lines.join("\n") });
    result.data = json!({ "plan": items });
    result
}
