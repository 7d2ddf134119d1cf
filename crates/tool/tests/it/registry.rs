//! The gate *valid*, and what the tools cost in a prompt.

use std::sync::Arc;

use hames_protocol::port::{Tool, Toolbox};
use hames_protocol::*;
use hames_tool::{Registry, RegistryProblem};
use serde_json::{Map, Value, json};

use crate::world::{Checks, World};

fn passing() -> Checks {
    let judgement = Judgement { verdict: Verdict::Pass, evidence: Vec::new(), set_aside: Vec::new() };
    Checks { rehearsal: Some(Ok(judgement)) }
}

#[test]
fn the_specifications_of_all_tools_cost_at_most_5000_bytes() {
    let specs = World::with_checks(passing()).registry.specs();
    let size = serde_json::to_string(&specs).unwrap().len();
    assert!(size <= 5_000, "{size} bytes");
}

#[test]
fn the_tools_have_the_agreed_names_and_arguments() {
    let specs = World::with_checks(passing()).registry.specs();
    let signatures: Vec<String> = specs.iter().map(signature).collect();
    let expected = [
        "list_files(path?, depth?)",
        "read_file(path, offset?, limit?)",
        "write_file(path, content)",
        "edit_file(path, old_string, new_string, replace_all?)",
        "apply_patch(patch)",
        "search(pattern, path?, glob?)",
        "bash(command, timeout_ms?, background?)",
        "job_output(job, wait_ms?)",
        "job_kill(job)",
        "plan(items)",
        "ask_user(question)",
        "run_tests()",
        "finish(summary)",
    ];
    assert_eq!(signatures, expected);
}

fn signature(spec: &ToolSpec) -> String {
    let required = spec.schema.get("required").cloned().unwrap_or(json!([]));
    let required = required.as_array().unwrap();
    let properties = spec.schema["properties"].as_object().unwrap();
    let mark = |name: &String| if required.contains(&json!(name)) { name.clone() } else { format!("{name}?") };
    format!("{}({})", spec.name, properties.keys().map(mark).collect::<Vec<_>>().join(", "))
}

#[test]
fn schemas_are_plain_objects_that_describe_every_argument_whose_name_leaves_a_question() {
    let plain = ["command", "content", "job", "patch", "replace_all"];
    for spec in World::with_checks(passing()).registry.specs() {
        let text = serde_json::to_string(&spec.schema).unwrap();
        for noise in ["$ref", "$schema", "\"title\"", "\"format\"", "anyOf", "null"] {
            assert!(!text.contains(noise), "{}: {noise} in {text}", spec.name);
        }
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert_eq!(spec.schema["additionalProperties"], false, "{}", spec.name);
        assert!(!spec.description.is_empty());
        for (name, schema) in spec.schema["properties"].as_object().unwrap() {
            let described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described || plain.contains(&name.as_str()), "{}.{name}", spec.name);
            assert!(schema["type"].is_string(), "{}.{name}: {schema}", spec.name);
        }
    }
}

#[test]
fn run_tests_is_offered_only_when_checks_are_configured() {
    let offered = |world: &World| world.registry.specs().iter().any(|spec| spec.name == "run_tests");
    assert!(offered(&World::with_checks(passing())));
    assert!(!offered(&World::new()));
}

#[tokio::test]
async fn wrong_arguments_are_answered_in_sentences_that_say_how_to_correct_them() {
    let world = World::new();
    let table = [
        (
            "read_file",
            json!({"path": "a", "offset": "ten"}),
            "`read_file` needs `offset` as an integer; got the string \"ten\".",
        ),
        (
            "read_file",
            json!({"path": "a", "offset": 0}),
            "`read_file` needs `offset` to be at least 1; got the number 0.",
        ),
        (
            "read_file",
            json!({"path": "a", "offset": 1.5}),
            "`read_file` needs `offset` as an integer; got the number 1.5.",
        ),
        ("read_file", json!({"path": "a", "limit": 1e30}), "`read_file`: 1e+30 is not a whole number in reach."),
        ("read_file", json!({}), "`read_file` needs `path` (a string), which is missing."),
        ("read_file", json!({"path": null}), "`read_file` needs `path` as a string; got null."),
        ("read_file", json!({"path": ["a"]}), "`read_file` needs `path` as a string; got an array of 1."),
        (
            "read_file",
            json!({"file_path": "a", "path": "a"}),
            "`read_file` has no argument `file_path`. Did you mean `path`? It takes `path`, `offset`, `limit`.",
        ),
        (
            "bash",
            json!({"command": "true", "timeout_ms": 600_001}),
            "`bash` needs `timeout_ms` to be at most 600000; got the number 600001.",
        ),
        ("bash", json!({"command": " "}), "`command` is empty. Give a command line."),
        (
            "bash",
            json!({"command": "a\0b"}),
            "`command` holds a NUL character, which no command line can. Leave it out.",
        ),
        ("Read", json!({}), "There is no tool `Read`. Did you mean `read_file`?"),
        ("web_fetch", json!({}), "The tools are `list_files`, `read_file`,"),
        ("", json!({}), "The call names no tool. The tools are"),
    ];
    for (tool, arguments, sentence) in table {
        let text = world.refused(tool, arguments.clone()).await;
        assert!(text.contains(sentence), "{tool} {arguments}: {text}");
    }
}

#[tokio::test]
async fn all_faults_of_a_call_are_told_at_once() {
    let world = World::new();
    let examined = world.examine("edit_file", json!({"path": 1, "old": "a", "replace_all": "yes"})).await;
    let texts: Vec<&str> = examined.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert_eq!(texts.len(), 5, "{texts:#?}");
    assert!(examined.problems.iter().all(|problem| problem.guard == Guard::Valid));
}

#[tokio::test]
async fn null_for_an_option_and_a_whole_float_are_taken_as_meant() {
    let world = World::new();
    world.put("a.txt", "one\ntwo\nthree\n");
    let text = world.ok("read_file", json!({"path": "a.txt", "offset": 2.0, "limit": null})).await.text();
    assert!(text.starts_with("     2\ttwo\n"), "{text}");
}

#[tokio::test]
async fn broken_arguments_are_a_matter_of_the_gate_complete() {
    let world = World::new();
    let broken = Arguments::Broken { text: "{\"pa".to_owned(), problem: "it ends in the middle".to_owned() };
    let call = world.raw_call("write_file", broken);
    let examined = world.registry.examine(&call).await;
    assert_eq!(examined.problems[0].guard, Guard::Complete);
    assert!(examined.problems[0].text.contains("it ends in the middle. Nothing was run."), "{:?}", examined.problems);
    assert_eq!(world.registry.run(&call, &|_| {}).await.status, Status::Refused);
}

#[tokio::test]
async fn a_caller_that_skips_the_examination_does_not_pass_the_gate() {
    let world = World::new();
    let call = world.call("bash", json!({"command": "touch made", "timeout_ms": "1"}));
    assert_eq!(world.registry.run(&call, &|_| {}).await.status, Status::Refused);
    assert!(!world.exists("made"));
}

#[tokio::test]
async fn huge_and_deep_arguments_are_refused_without_overflowing_the_stack() {
    let world = World::new();
    let large = "x".repeat(1_000_001);
    let text = world.refused("search", json!({"pattern": large})).await;
    assert!(text.contains("larger than 1,000,000 bytes"), "{text}");

    let mut deep = json!(1);
    for _ in 0..200_000 {
        deep = Value::Array(vec![deep]);
    }
    let mut map = Map::new();
    map.insert("path".to_owned(), deep);
    let call = world.raw_call("read_file", Arguments::Whole(map));
    let examined = world.registry.examine(&call).await;
    assert!(examined.problems[0].text.contains("more than 64 levels deep"), "{:?}", examined.problems);
    // Dropping a value nested like this would itself overflow the stack.
    std::mem::forget(call);
}

#[tokio::test]
async fn file_content_may_be_ten_megabytes_and_no_more() {
    let world = World::new();
    world.ok("write_file", json!({"path": "large.txt", "content": "x".repeat(10_000_000)})).await;
    assert_eq!(world.bytes("large.txt").len(), 10_000_000);
    let text = world.refused("write_file", json!({"path": "larger.txt", "content": "x".repeat(11_000_000)})).await;
    assert!(text.contains("smaller steps"), "{text}");
}

#[tokio::test]
async fn finish_is_specified_here_and_decided_elsewhere() {
    let world = World::new();
    let call = world.call("finish", json!({"summary": "done"}));
    let examined = world.registry.examine(&call).await;
    assert_eq!((examined.class, examined.reach), (EffectClass::Once, Reach::Private));
    assert!(examined.problems.is_empty());
    assert_eq!(world.registry.run(&call, &|_| {}).await.status, Status::Failed);
}

/// A tool with any name and schema.
struct Named(ToolSpec);

impl Tool for Named {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn examine<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Examination> {
        Box::pin(std::future::ready(Examination::plain(EffectClass::Pure, Reach::Private)))
    }

    fn run<'a>(&'a self, _: &'a Call, _: &'a (dyn Fn(&str) + Send + Sync)) -> BoxFuture<'a, ToolResult> {
        Box::pin(std::future::ready(ToolResult::ok("")))
    }

    fn probe<'a>(&'a self, _: &'a Call, _: &'a Examination) -> BoxFuture<'a, Probe> {
        Box::pin(std::future::ready(Probe::DidNotHappen))
    }
}

fn registry_of(tools: &[(&str, Value)]) -> Result<Registry, RegistryProblem> {
    let tool = |(name, schema): &(&str, Value)| {
        let schema = schema.as_object().unwrap().clone();
        Arc::new(Named(ToolSpec { name: (*name).to_owned(), description: String::new(), schema })) as Arc<dyn Tool>
    };
    Registry::new(tools.iter().map(tool).collect())
}

#[test]
fn a_set_of_tools_that_a_provider_would_refuse_is_refused_first() {
    let object = json!({"type": "object"});
    assert!(registry_of(&[("a", object.clone()), ("b", object.clone())]).is_ok());
    for name in ["", "a b", "é", &"x".repeat(65)] {
        assert!(matches!(registry_of(&[(name, object.clone())]), Err(RegistryProblem::Name(_))), "{name}");
    }
    let twice = registry_of(&[("a", object.clone()), ("a", object)]);
    assert!(matches!(twice, Err(RegistryProblem::Twice(name)) if name == "a"));
    for schema in [
        json!({"type": "string"}),
        json!({}),
        json!({"type": "object", "anyOf": []}),
        json!({"type": "object", "properties": 1}),
        json!({"type": "object", "$ref": "https://example.com/schema.json"}),
    ] {
        let registry = registry_of(&[("a", schema.clone())]);
        assert!(matches!(registry, Err(RegistryProblem::Schema { .. })), "{schema}");
    }
}
