//! `finish`: offered here, run by the loop. What it asks for is a verdict, and no tool may give one (promise P4).

use hames_protocol::port::Tool;
use hames_protocol::{BoxFuture, Call, EffectClass, Examination, FINISH, Probe, Reach, ToolResult, ToolSpec};
use schemars::JsonSchema;

use crate::schema::spec;

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "the loop reads the argument; this type is its schema")]
struct Arguments {
    /// What was done, for the user.
    summary: String,
}

/// The specification of `finish`. The loop answers its calls itself and never hands one to `run` or `probe`.
pub(crate) struct Finish {
    spec: ToolSpec,
}

impl Finish {
    pub(crate) fn new() -> Self {
        let description =
            "Ends the task. Call it alone, once everything is done; the checks then run and decide whether it is.";
        Self { spec: spec::<Arguments>(FINISH, description) }
    }
}

impl Tool for Finish {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn examine<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Examination> {
        Box::pin(std::future::ready(Examination::plain(EffectClass::Once, Reach::Private)))
    }

    fn run<'a>(&'a self, _: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        let text = "`finish` is decided by the run itself and cannot be called from here. Call it as a tool call.";
        Box::pin(std::future::ready(ToolResult::failed(text)))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}
