//! Reading script files: what is accepted, and what is said about the rest.

use std::path::Path;

use hames_model::script::Script;

fn problem(yaml: &str) -> String {
    Script::from_yaml("demo.yaml", yaml).unwrap_err().to_string()
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_valid_one() {
    let text = problem("- text: fine\n- text: Hello.\n  usge: {input: 1}\n");
    assert!(text.contains("line 3"), "{text}");
    assert!(text.contains("reply 2"), "{text}");
    assert!(text.contains("unknown key `usge`; the nearest valid one is `usage`"), "{text}");
    assert!(text.starts_with("The script demo.yaml cannot be used: "), "{text}");
    assert!(text.ends_with("docs/script.md."), "{text}");
}

#[test]
fn unknown_keys_are_found_at_every_depth() {
    for (yaml, line, key, nearest) in [
        ("replies: []\nprize: {}\n", 2, "prize", "price"),
        ("price: {input: 1, output: 2, cached: 3}\nreplies: [{text: a}]\n", 1, "cached", "cache_read"),
        ("- calls:\n    - tool: bash\n      arg: {}\n", 3, "arg", "args"),
        ("- reasoning:\n    txt: a\n", 2, "txt", "text"),
        ("- parts:\n    - text: a\n    - think: b\n", 3, "think", "text"),
        ("- text: a\n  usage:\n    cache_reads: 1\n", 3, "cache_reads", "cache_read"),
        ("- fault:\n    sttus: 529\n", 2, "sttus", "status"),
        ("- text: a\n  fault:\n    cut:\n      after_event: 1\n", 4, "after_event", "after_events"),
        ("- text: a\n  fault:\n    error_event:\n      mesage: x\n", 4, "mesage", "message"),
        ("- text: a\n  fault:\n    hang:\n      after: 1\n", 4, "after", "after_events"),
        ("- text: a\n  stop: tool_us\n", 2, "tool_us", "tool_use"),
        ("- text: a\n  fault: emty\n", 2, "emty", "empty"),
    ] {
        let text = problem(yaml);
        assert!(text.contains(&format!("line {line}: ")), "{yaml}\n{text}");
        assert!(text.contains(&format!("unknown key `{key}`; the nearest valid one is `{nearest}`")), "{yaml}\n{text}");
    }
}

#[test]
fn what_does_not_fit_together_is_said_in_a_sentence_with_its_line() {
    for (yaml, line, said) in [
        ("- text: a\n- stop: end_turn\n", 2, "a reply needs content"),
        ("- text: a\n  parts: [{text: b}]\n", 1, "`parts` holds the whole content"),
        ("- parts:\n    - {text: a, redacted: b}\n", 2, "exactly one of `text`"),
        ("- calls:\n    - {tool: a, args: {}, raw_args: ''}\n", 2, "either `args` or `raw_args`"),
        ("- calls:\n    - {args: {}}\n", 2, "missing field `tool`"),
        ("- fault:\n    status: 200\n", 2, "give one from 400 to 599"),
        ("- fault:\n    status: 529\n    hang: true\n", 2, "a fault is exactly one of"),
        ("- fault:\n    headers: {a: b}\n    hang: true\n", 2, "belong to `status`"),
        ("- text: a\n  fault: {cut: {after_events: 1, after_bytes: 1}}\n", 2, "exactly one of `after_events`"),
        ("- text: a\n  fault: hang\n", 1, "takes the place of the whole reply"),
        ("- text: a\n  fault: {empty: false}\n", 2, "either `true` or left out"),
        ("- text: a\n  chunk: 0\n", 1, "at least 1"),
        ("- just words\n", 1, "write `- text: just words`"),
        ("- text: a\n bad\n- text: b\n", 2, "did not find expected"),
        ("- text: [a]\n", 1, "expected a string"),
        ("context_tokens: 0\nreplies: [{text: a}]\n", 1, "more than zero"),
    ] {
        let text = problem(yaml);
        assert!(text.contains(said), "{yaml}\n{text}");
        assert!(text.contains(&format!("line {line}: ")), "{yaml}\n{text}");
    }
    for yaml in ["", "# to come\n", "[]", "replies: []", "~"] {
        assert!(problem(yaml).contains("it has no replies"), "{yaml}");
    }
}

#[test]
fn a_jsonl_problem_names_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.jsonl");
    std::fs::write(&path, "{\"text\": \"a\"}\n\n{\"txt\": \"b\"}\n").unwrap();
    let text = Script::load(&path).unwrap_err().to_string();
    assert!(text.contains("demo.jsonl cannot be used: line 3: unknown key `txt`"), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let text = Script::load(Path::new("no/such.yaml")).unwrap_err().to_string();
    assert!(text.contains("no/such.yaml") && text.contains("cannot be read"), "{text}");
}

#[test]
fn yaml_and_jsonl_mean_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo");
    std::fs::write(path.with_extension("yaml"), "- text: a\n- calls: [{tool: bash, args: {command: ls}}]\n").unwrap();
    let lines = "{\"text\":\"a\"}\n{\"calls\":[{\"tool\":\"bash\",\"args\":{\"command\":\"ls\"}}]}\n";
    std::fs::write(path.with_extension("jsonl"), lines).unwrap();
    let yaml = Script::load(&path.with_extension("yaml")).unwrap();
    let jsonl = Script::load(&path.with_extension("jsonl")).unwrap();
    assert_eq!(yaml.reply_count(), 2);
    assert_eq!(format!("{yaml:?}").replace("demo.yaml", ""), format!("{jsonl:?}").replace("demo.jsonl", ""));
}

#[test]
fn the_examples_in_the_documentation_are_scripts() {
    let documentation = include_str!("../../../../docs/script.md");
    let mut examples = 0;
    for block in documentation.split("```yaml\n").skip(1) {
        let yaml = block.split("```").next().unwrap();
        Script::from_yaml("docs/script.md", yaml).unwrap_or_else(|problem| panic!("{problem}\n{yaml}"));
        examples += 1;
    }
    for block in documentation.split("```jsonl\n").skip(1) {
        Script::from_jsonl("docs/script.md", block.split("```").next().unwrap()).unwrap();
        examples += 1;
    }
    assert!(examples >= 3, "{examples} examples");
}
