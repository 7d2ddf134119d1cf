//! Tool calls: from proposal to result.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Arguments, Ask, Block, CallId, Digest, FileChange};

/// The tool that asks for the verdict; the agent itself runs it.
pub const FINISH: &str = "finish";

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments; an object without anyOf, oneOf or allOf at its top.
    pub schema: Map<String, Value>,
}

/// A proposed call with its ids.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Hames's own id.
    pub id: CallId,
    /// The provider's id, where it sent one.
    pub provider_id: Option<String>,
    /// The id that is echoed to the provider: its own, unless that repeats or is not valid for the dialect.
    pub wire_id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as they arrived.
    pub arguments: Arguments,
    /// The call of the same reply that this one repeats exactly; it shares that call's result and does not run.
    pub twin_of: Option<CallId>,
}

impl Call {
    /// The arguments when they are whole.
    pub fn whole_arguments(&self) -> Option<&Map<String, Value>> {
        match &self.arguments {
            Arguments::Whole(map) => Some(map),
            Arguments::Broken { .. } => None,
        }
    }

    /// The id shown to people and programs: the provider's, else Hames's.
    pub fn shown_id(&self) -> &str {
        self.provider_id.as_deref().unwrap_or(self.id.as_str())
    }
}

/// What doing a call twice would mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// It changes nothing.
    Pure,
    /// Doing it again leaves the same state.
    Idempotent,
    /// A probe can tell whether it happened.
    Reconcilable,
    /// It must not be repeated blindly.
    Once,
}

/// How far an effect can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Workspace files and the session's private folders, enforced by the jail or the sandbox.
    Workspace,
    /// Only Hames's own state.
    Private,
    /// Beyond the machine or the sandbox.
    Outward,
}

/// What a call wants with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// To look.
    Read,
    /// To create, change or remove.
    Write,
}

/// A path that a call would touch, resolved to where it really lands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// As the model wrote it.
    pub path: String,
    /// Where it lands, relative to the workspace root (absolute for the session's private /tmp).
    pub lands: String,
    /// What the call wants.
    pub access: Access,
    /// The protection rule that covers it, in words, when there is one.
    pub protected: Option<String>,
}

/// What a tool says of a call before it runs; the rules judge this, never the arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// Why the call is not valid; empty when it is.
    pub problems: Vec<Problem>,
    /// The paths it would touch.
    pub touches: Vec<Touch>,
    /// What a repetition would mean.
    pub class: EffectClass,
    /// How far it reaches.
    pub reach: Reach,
    /// For file edits: each file's state before and after, so that a probe can tell whether they happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<EditPlan>,
    /// What a person is asked, in the model's words: their answer is the call's result, and the tool does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

impl Examination {
    /// A valid call that touches no path.
    pub fn plain(class: EffectClass, reach: Reach) -> Self {
        Self { problems: Vec::new(), touches: Vec::new(), class, reach, plans: Vec::new(), question: None }
    }

    /// A call that must not run.
    pub fn problem(guard: Guard, text: impl Into<String>) -> Self {
        let problems = vec![Problem { guard, text: text.into() }];
        Self { problems, ..Self::plain(EffectClass::Pure, Reach::Private) }
    }
}

/// One reason why a call is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The gate that found it.
    pub guard: Guard,
    /// A sentence for the model: the thing, the cause, the remedy.
    pub text: String,
}

/// A gate that refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// The reply or the arguments were cut.
    Complete,
    /// No such tool, wrong types, or a precondition that does not hold.
    Valid,
    /// The policy refuses the effect.
    Permitted,
    /// The path is outside the workspace.
    Jail,
    /// A protected path would have been, or was tried to be, changed.
    Protected,
    /// `finish` was called before the checks pass.
    Finish,
}

impl Guard {
    /// The name in logs and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Valid => "valid",
            Self::Permitted => "permitted",
            Self::Jail => "jail",
            Self::Protected => "protected",
            Self::Finish => "finish",
        }
    }
}

/// What the policy says of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may run.
    Allow {
        /// The rule that allows it.
        rule: String,
    },
    /// It may not.
    Refuse {
        /// The gate that refuses.
        guard: Guard,
        /// A sentence for the model.
        reason: String,
    },
    /// A person must answer first.
    Ask(Ask),
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It did what it was asked.
    Ok,
    /// It ran and failed.
    Failed,
    /// A gate refused it.
    Refused,
    /// It was cancelled.
    Cancelled,
    /// A crash hides whether it happened.
    InDoubt,
}

/// What a call leaves running after it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// Nothing.
    #[default]
    Nothing,
    /// A job, which must be ended before the verifier judges or the run ends.
    Job,
}

impl Leaves {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// The result of a call. `blocks` are for the model and bounded; `data` is whole, for facts and evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// How it ended.
    pub status: Status,
    /// What the model reads.
    pub blocks: Vec<Block>,
    /// What programs read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
    /// The files it changed in the workspace, as Hames observed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Guards that Hames saw fire while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fired: Vec<Problem>,
    /// What it left running.
    #[serde(default, skip_serializing_if = "Leaves::is_nothing")]
    pub leaves: Leaves,
    /// Set when trying again cannot help (a missing program of a check): the run ends with this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permanent: Option<String>,
}

impl ToolResult {
    /// A result of one text block.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Self {
            status,
            blocks: vec![Block::text(text)],
            data: Value::Null,
            changes: Vec::new(),
            fired: Vec::new(),
            leaves: Leaves::Nothing,
            permanent: None,
        }
    }

    /// A success of one text block.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Status::Ok, text)
    }

    /// A result that says what is known of a call whose effect nobody can tell.
    pub fn in_doubt(known: impl std::fmt::Display) -> Self {
        let text = format!(
            "IN DOUBT: Hames was interrupted while this ran, and cannot tell whether it happened. {known} Look before you repeat it."
        );
        Self::new(Status::InDoubt, text)
    }

    /// A failure of one text block.
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(Status::Failed, text)
    }

    /// The text blocks joined.
    pub fn text(&self) -> String {
        self.blocks.iter().filter_map(Block::as_text).collect::<Vec<_>>().join("\n")
    }
}

/// What a probe found out about a call in doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// It has this result: `Ok` when it is known to have happened, `InDoubt` with what is known when nobody can tell.
    Settled(ToolResult),
    /// It did not happen; it may run.
    DidNotHappen,
}

/// What an edit recorded of one file before it wrote, so that a probe can tell whether it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditPlan {
    /// The path, relative to the workspace root.
    pub path: String,
    /// The digest before; none when the file did not exist.
    pub before: Option<Digest>,
    /// The digest after; none when the edit removes the file.
    pub after: Option<Digest>,
}
