//! `ask_user`: a question that only the user can answer. Offered here, answered by the run: their answer is the result.

use hames_protocol::port::Tool;
use hames_protocol::{BoxFuture, Call, EffectClass, Examination, Guard, Probe, Problem, Reach, ToolResult, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::schema::{arguments, spec};
use crate::text::thousands;

/// The longest question, in bytes; a longer one is no question that anyone reads on a terminal.
const QUESTION_LIMIT_BYTES: usize = 2_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// One question, with the choices.
    question: String,
}

/// The specification of `ask_user`. The run asks a person itself and never hands a call to `run` or `probe`.
pub(crate) struct AskUser {
    spec: ToolSpec,
}

impl AskUser {
    pub(crate) fn new() -> Self {
        let description =
            "Asks the user and waits for their answer. Only for what you can neither find out nor decide.";
        Self { spec: spec::<Arguments>("ask_user", description) }
    }
}

impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        let examination = match arguments::<Arguments>(call) {
            Ok(Arguments { question }) => match fault(&question) {
                None => {
                    Examination { question: Some(question), ..Examination::plain(EffectClass::Pure, Reach::Private) }
                }
                Some(text) => Examination::problem(Guard::Valid, text),
            },
            Err(Problem { guard, text }) => Examination::problem(guard, text),
        };
        Box::pin(std::future::ready(examination))
    }

    fn run<'a>(&'a self, _: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let text =
            "`ask_user` is answered through the run itself and cannot be called from here. Call it as a tool call.";
        Box::pin(std::future::ready(ToolResult::failed(text)))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

fn fault(question: &str) -> Option<String> {
    if question.trim().is_empty() {
        return Some("The question is empty. Say what you need to know.".to_owned());
    }
    (question.len() > QUESTION_LIMIT_BYTES).then(|| {
        let (bytes, limit) = (thousands(question.len() as u64), thousands(QUESTION_LIMIT_BYTES as u64));
        format!("The question has {bytes} bytes, more than {limit}. Ask one thing, shorter; put long text into a file.")
    })
}
