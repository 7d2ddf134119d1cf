//! The registry: every tool of a session by name, and the one place where schemas are checked (promise P3).
//!
//! Whoever makes a call, the main run, a script or a hook, makes it here, so none can pass by the gate *valid*.

use std::sync::Arc;

use hames_protocol::port::{Tool, Toolbox};
use hames_protocol::{
    Arguments, BoxFuture, Call, EffectClass, Examination, Guard, JobsEnded, Probe, Problem, Reach, Status, ToolResult,
    ToolSpec,
};
use jsonschema::Validator;
use serde_json::Value;

use crate::text::shown;
use crate::validation::{check, listed, nearest};

/// Why a set of tools cannot be offered together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryProblem {
    /// A name that providers refuse.
    #[error("The tool name `{0}` is not valid. Use 1 to 64 letters, digits, `_` and `-`.")]
    Name(String),
    /// Two tools with one name.
    #[error("Two tools are named `{0}`. Rename one, or leave it out.")]
    Twice(String),
    /// A schema that is no valid JSON Schema of an object, or that providers refuse.
    #[error(
        "The argument schema of the tool `{name}` cannot be used: {why}. Correct the schema, or leave the tool out."
    )]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        why: String,
    },
}

struct Slot {
    tool: Arc<dyn Tool>,
    validator: Validator,
}

/// All tools of a session, in the order given.
pub struct Registry {
    slots: Vec<Slot>,
}

impl Registry {
    /// Compiles the schemas of `tools`.
    ///
    /// # Errors
    /// When a name or a schema is one that a provider would refuse, or a name comes twice.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, RegistryProblem> {
        let mut slots: Vec<Slot> = Vec::with_capacity(tools.len());
        for tool in tools {
            let name = &tool.spec().name;
            if !is_valid_name(name) {
                return Err(RegistryProblem::Name(shown(name)));
            }
            if slots.iter().any(|slot| slot.tool.spec().name == *name) {
                return Err(RegistryProblem::Twice(name.clone()));
            }
            let validator = compile(tool.spec())?;
            slots.push(Slot { tool, validator });
        }
        Ok(Self { slots })
    }

    /// The tool that a call names, when its arguments are whole and fit the schema.
    fn admit(&self, call: &Call) -> Result<&dyn Tool, Vec<Problem>> {
        let refuse = |guard, text| Err(vec![Problem { guard, text }]);
        let Some(slot) = self.slots.iter().find(|slot| slot.tool.spec().name == call.name) else {
            return refuse(Guard::Valid, self.unknown(&call.name));
        };
        let arguments = match &call.arguments {
            Arguments::Whole(arguments) => arguments,
            Arguments::Broken { problem, .. } => {
                let text = format!(
                    "The arguments of `{}` are not a whole JSON object: {} Nothing was run. Send the call again, whole.",
                    call.name,
                    sentence(problem)
                );
                return refuse(Guard::Complete, text);
            }
        };
        match check(slot.tool.spec(), &slot.validator, arguments) {
            problems if problems.is_empty() => Ok(slot.tool.as_ref()),
            problems => Err(problems),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.slots.iter().map(|slot| slot.tool.spec().name.as_str()).collect();
        if name.trim().is_empty() {
            return format!("The call names no tool. The tools are {}.", listed(&names));
        }
        let meant = nearest(name, &names).map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
        format!("There is no tool `{}`.{meant} The tools are {}.", shown(name), listed(&names))
    }
}

impl Toolbox for Registry {
    fn specs(&self) -> Vec<ToolSpec> {
        self.slots.iter().map(|slot| slot.tool.spec().clone()).collect()
    }

    fn examine<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Examination> {
        match self.admit(call) {
            Ok(tool) => tool.examine(call),
            Err(problems) => {
                let examination = Examination { problems, ..Examination::plain(EffectClass::Pure, Reach::Private) };
                Box::pin(std::future::ready(examination))
            }
        }
    }

    fn run<'a>(&'a self, call: &'a Call, output: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        match self.admit(call) {
            Ok(tool) => tool.run(call, output),
            Err(problems) => {
                let text = problems.iter().map(|problem| problem.text.as_str()).collect::<Vec<_>>().join("\n");
                Box::pin(std::future::ready(ToolResult::new(Status::Refused, text)))
            }
        }
    }

    fn probe<'a>(&'a self, call: &'a Call, examined: &'a Examination) -> BoxFuture<'a, Probe> {
        match self.admit(call) {
            Ok(tool) => tool.probe(call, examined),
            // What the gate refuses never ran.
            Err(_) => Box::pin(std::future::ready(Probe::DidNotHappen)),
        }
    }

    fn end_jobs(&self) -> BoxFuture<'_, JobsEnded> {
        Box::pin(async {
            let mut all = JobsEnded::default();
            for ending in self.slots.iter().filter_map(|slot| slot.tool.end_jobs()) {
                let JobsEnded { jobs, changes, fired } = ending.await;
                all.jobs.extend(jobs);
                all.changes.extend(changes);
                all.fired.extend(fired);
            }
            all
        })
    }
}

/// The Anthropic API's pattern for tool names, the strictest of those in use.
fn is_valid_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn compile(spec: &ToolSpec) -> Result<Validator, RegistryProblem> {
    let refuse = |why: String| RegistryProblem::Schema { name: spec.name.clone(), why };
    if spec.schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(refuse("it is not of type object".to_owned()));
    }
    if let Some(keyword) = ["anyOf", "oneOf", "allOf"].into_iter().find(|keyword| spec.schema.contains_key(*keyword)) {
        return Err(refuse(format!("it has `{keyword}` at its top")));
    }
    jsonschema::validator_for(&Value::Object(spec.schema.clone())).map_err(|error| refuse(error.to_string()))
}

/// Ends a text as a sentence, whoever wrote it.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}
