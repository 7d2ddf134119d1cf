//! The library face with real parts: a scripted model that is watched, a real sandbox, a temporary folder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at what it did not expect")]

mod jobs;

use std::sync::{Arc, Mutex};

use hames::model::script::{Script, Scripted};
use hames::protocol::port::{Approver, Model};
use hames::protocol::{
    Answer, Ask, BoxFuture, Delta, Encoded, Head, Message, ModelFailure, ModelInfo, Outcome, Reply, Request, RunResult,
};
use hames::{Agent, Isolation, SessionChoice};
use tempfile::TempDir;

/// A model that keeps what it was asked.
struct Watched {
    model: Scripted,
    heads: Mutex<Vec<Head>>,
    requests: Mutex<Vec<Request>>,
}

impl Watched {
    fn new(yaml: &str) -> Arc<Self> {
        let model = Scripted::new(Script::from_yaml("test.yaml", yaml).unwrap());
        Arc::new(Self { model, heads: Mutex::default(), requests: Mutex::default() })
    }
}

impl Model for Watched {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn encode_head(&self, head: &Head) -> Arc<str> {
        self.heads.lock().unwrap().push(head.clone());
        self.model.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Encoded {
        self.model.encode(message)
    }

    fn send<'a>(
        &'a self,
        request: Request,
        on_delta: &'a (dyn Fn(Delta) + Send + Sync),
    ) -> BoxFuture<'a, Result<Reply, ModelFailure>> {
        self.requests.lock().unwrap().push(request.clone());
        self.model.send(request, on_delta)
    }
}

struct Place {
    work: TempDir,
    state: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { work: TempDir::new().unwrap(), state: TempDir::new().unwrap() }
    }

    fn agent(&self, model: &Arc<Watched>, session: SessionChoice) -> Agent {
        Agent::builder(model.clone())
            .workspace(self.work.path())
            .sessions(self.state.path())
            .session(session)
            .check("true")
            .build()
            .unwrap()
    }

    /// Where files of this name are kept with the sessions.
    fn kept(&self, name: &str) -> String {
        let find = std::process::Command::new("find").arg(self.state.path()).args(["-name", name]).output().unwrap();
        String::from_utf8(find.stdout).unwrap()
    }

    async fn run(&self, model: &Arc<Watched>) -> RunResult {
        self.agent(model, SessionChoice::New).run("go").await.unwrap()
    }
}

const SCRIPT: &str = "
- calls: [{tool: write_file, args: {path: a.txt, content: one}}, {tool: list_files}]
- reasoning: Let me see.
  calls: [{tool: bash, args: {command: cat a.txt}}]
- text: I think that is all.
- calls: [{tool: finish, args: {summary: ok}}]
";

#[tokio::test]
async fn instructions_and_tools_are_small_and_the_same_everywhere() {
    let model = Watched::new(&SCRIPT.repeat(2));
    Place::new().run(&model).await;
    Place::new().agent(&model, SessionChoice::New);
    let heads = model.heads.lock().unwrap();
    assert_eq!(heads[0], heads[1], "nothing of the folder or the machine stands in the head");
    let tools = serde_json::to_string(&heads[0].tools).unwrap();
    let bytes = heads[0].system.len() + tools.len();
    assert!(bytes < 6_000, "{bytes} bytes");
}

#[tokio::test]
async fn each_request_begins_with_the_bytes_of_the_one_before() {
    let model = Watched::new(SCRIPT);
    assert_eq!(Place::new().run(&model).await.outcome, Outcome::Done);
    let requests = model.requests.lock().unwrap();
    assert_eq!(requests.len(), 4);
    for pair in requests.windows(2) {
        assert_eq!(pair[0].head, pair[1].head);
        assert!(pair[1].messages.starts_with(&pair[0].messages), "an earlier message was altered");
    }
}

#[tokio::test]
async fn a_resumed_session_sends_the_same_bytes_again() {
    let place = Place::new();
    let model = Watched::new(&format!("{SCRIPT}{SCRIPT}"));
    let first = place.run(&model).await;
    let session = hames::protocol::SessionId::new(first.session_id);
    place.agent(&model, SessionChoice::Resume(session)).run("and again").await.unwrap();
    let requests = model.requests.lock().unwrap();
    let (before, after) = (&requests[3], &requests[4]);
    assert_eq!(before.head, after.head);
    assert!(after.messages.starts_with(&before.messages), "folding the log gives the bytes that were sent");
}

#[tokio::test]
async fn the_untouched_copy_goes_away_with_the_run() {
    let place = Place::new();
    std::fs::write(place.work.path().join("large.bin"), vec![7; 100_000]).unwrap();
    let model = Watched::new(SCRIPT);
    assert_eq!(place.run(&model).await.outcome, Outcome::Done);
    assert_eq!(place.kept("large.bin"), "");
}

const QUESTION: &str = "
- calls: [{tool: write_file, args: {path: b.txt, content: b}}, {tool: ask_user, args: {question: 'Which?'}}]
- calls: [{tool: finish, args: {summary: ok}}]
";

/// A person who gives every question back.
struct Echo;

impl Approver for Echo {
    fn ask<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Option<Answer>> {
        let Ask::Question(question) = ask;
        Box::pin(std::future::ready(Some(Answer::said(format!("{question} That one.")))))
    }
}

#[tokio::test]
async fn whoever_embeds_hames_says_who_answers() {
    let (place, model) = (Place::new(), Watched::new(QUESTION));
    let builder = Agent::builder(model.clone()).workspace(place.work.path()).sessions(place.state.path());
    let result = builder.approver(Arc::new(Echo)).build().unwrap().run("go").await.unwrap();
    assert_eq!(result.outcome, Outcome::Answered);
    let last = model.requests.lock().unwrap().pop().unwrap();
    assert!(last.messages.last().unwrap().body.contains("Which? That one."));
}

#[tokio::test]
async fn with_nobody_named_a_question_suspends_the_run_and_the_next_prompt_answers_it() {
    let (place, model) = (Place::new(), Watched::new(QUESTION));
    std::fs::write(place.work.path().join("a.txt"), "a").unwrap();
    let mut agent = place.agent(&model, SessionChoice::New);
    let suspended = agent.run("go").await.unwrap();
    assert_eq!(suspended.outcome, Outcome::NeedsApproval);
    assert_ne!(place.kept("a.txt"), "", "the untouched copy is still needed");
    let result = agent.run("That one.").await.unwrap();
    assert_eq!((result.outcome, result.run_id), (Outcome::Done, suspended.run_id), "verified, in the same run");
    assert_eq!(place.kept("a.txt"), "");
}

#[tokio::test]
async fn without_a_sandbox_the_result_says_so() {
    let place = Place::new();
    let model = Watched::new("- text: hello\n");
    let builder = Agent::builder(model).workspace(place.work.path()).sessions(place.state.path());
    let result = builder.isolation(Isolation::Off).build().unwrap().run("hi").await.unwrap();
    assert_eq!(result.sandbox, "off");
}

#[tokio::test]
async fn instructions_of_the_project_stand_in_the_first_message_and_again_only_when_they_changed() {
    let place = Place::new();
    let file = place.work.path().join("AGENTS.md");
    std::fs::write(&file, "MARK-1").unwrap();
    let model = Watched::new("- text: a\n- text: b\n- text: c\n");
    let mut agent = Agent::builder(model.clone())
        .workspace(place.work.path())
        .sessions(place.state.path())
        .isolation(Isolation::Off)
        .build()
        .unwrap();
    agent.run("one").await.unwrap();
    agent.run("two").await.unwrap();
    std::fs::write(&file, "MARK-2").unwrap();
    agent.run("three").await.unwrap();
    let requests = model.requests.lock().unwrap();
    assert!(!requests[2].head.contains("MARK"), "the head is the same everywhere");
    let bodies: Vec<&str> = requests[2].messages.iter().map(|message| &*message.body).collect();
    assert_eq!(bodies.len(), 5);
    assert!(bodies[0].contains("MARK-1") && bodies[0].contains("one"), "{}", bodies[0]);
    assert!(!bodies[2].contains("MARK"), "{}", bodies[2]);
    assert!(bodies[4].contains("MARK-2"), "{}", bodies[4]);
}
