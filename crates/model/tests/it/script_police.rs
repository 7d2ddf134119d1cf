//! The checker: for every rule a body that passes and the smallest change that breaks it.

use base64::Engine;
use hames_model::script::Script;
use hames_model::script::police::{Issued, check};
use serde_json::{Value, json};

/// A conversation with everything in it that can be wrong: system, tools, reasoning, two calls, results, an image.
fn whole() -> Value {
    json!({
        "model": "scripted.yaml", "max_tokens": 1000, "stream": true,
        "system": [{"type": "text", "text": "You are careful.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {"path": {}}}},
            {"name": "bash", "description": "Runs.", "input_schema": {"type": "object"}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "First \n", "signature": "s1"},
                {"type": "text", "text": "Two files."},
                {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},
                {"type": "redacted_thinking", "data": "d1"},
                {"type": "thinking", "thinking": "", "signature": "s2"},
                {"type": "tool_use", "id": "t2", "name": "bash", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}, picture(1, 1)]},
                {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": true},
                {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
            ]},
        ],
    })
}

const ISSUED: &str = "
- parts:
  - reasoning: {text: \"First \\n\", signature: s1}
  - text: Two files.
  - call: {tool: read_file, args: {path: a}, id: t1}
  - redacted: d1
  - reasoning: {text: '', signature: s2}
  - call: {tool: bash, id: t2}
- reasoning: {text: Other., signature: s3}
  text: Done.
";

fn issued() -> Issued {
    Issued::by(&Script::from_yaml("issued.yaml", ISSUED).unwrap())
}

/// A GIF of that size: the smallest picture with a header that counts.
fn picture(width: u16, height: u16) -> Value {
    let mut bytes = b"GIF89a".to_vec();
    bytes.extend(width.to_le_bytes());
    bytes.extend(height.to_le_bytes());
    bytes.extend([0, 0, 0, 0x3b]);
    image("image/gif", &bytes)
}

fn image(media_type: &str, bytes: &[u8]) -> Value {
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

/// Puts `value` at `pointer` of the whole conversation; an undefined place of an object is made.
fn with(pointer: &str, value: Value) -> Value {
    let mut body = whole();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(map) => _ = map.insert(name.to_owned(), value),
        Value::Array(list) if name == "-" => list.push(value),
        Value::Array(list) => list[name.parse::<usize>().unwrap()] = value,
        other => panic!("{pointer}: {other}"),
    }
    body
}

fn without(pointer: &str) -> Value {
    let mut body = whole();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    match body.pointer_mut(parent).unwrap() {
        Value::Object(map) => _ = map.remove(name).unwrap(),
        Value::Array(list) => _ = list.remove(name.parse().unwrap()),
        other => panic!("{pointer}: {other}"),
    }
    body
}

/// A short conversation of these messages.
fn short(messages: Value) -> Value {
    let tools = json!([{"name": "bash", "input_schema": {"type": "object"}}]);
    json!({"model": "m", "max_tokens": 1, "tools": tools, "messages": messages})
}

fn passes(body: &Value) {
    if let Err(violation) = check(body.to_string().as_bytes(), &issued()) {
        panic!("{violation}\n{body:#}");
    }
}

fn refused(body: &Value, words: &str) {
    match check(body.to_string().as_bytes(), &issued()) {
        Ok(_) => panic!("passed, yet should say {words:?}: {body:#}"),
        Err(violation) => {
            assert!(violation.message.contains(words), "{words:?} is not in {:?}", violation.message);
            assert_eq!((violation.status, violation.kind), (400, "invalid_request_error"));
        }
    }
}

#[test]
fn the_whole_conversation_passes() {
    passes(&whole());
}

#[test]
fn v1_every_call_has_its_result_first_thing_in_the_next_message() {
    let found = "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: ";
    refused(&without("/messages/2/content/1"), &format!("{found}t2. Each `tool_use` block must have"));
    refused(&without("/messages/2"), &format!("{found}t1, t2."));
    // Text before the results.
    let mut body = whole();
    body["messages"][2]["content"].as_array_mut().unwrap().rotate_right(1);
    refused(&body, found);
    // Results in two messages.
    let mut body = whole();
    let second = body["messages"][2]["content"].as_array_mut().unwrap().remove(1);
    body["messages"].as_array_mut().unwrap().push(json!({"role": "user", "content": [second]}));
    refused(&body, &format!("{found}t2."));
    // A message in between.
    let mut body = whole();
    body["messages"].as_array_mut().unwrap().insert(2, json!({"role": "user", "content": "Wait."}));
    refused(&body, found);
}

#[test]
fn v2_no_text_is_empty_or_blank() {
    let empty = "messages: text content blocks must be non-empty";
    let blank = "messages: text content blocks must contain non-whitespace text";
    refused(&with("/messages/0/content/0/text", json!("")), empty);
    refused(&with("/messages/0/content/0/text", json!(" \n")), blank);
    refused(&with("/messages/0/content", json!(" ")), blank);
    refused(&with("/messages/1/content/1/text", json!("")), empty);
    refused(&with("/messages/2/content/0/content/0/text", json!("")), empty);
    refused(&with("/messages/2/content/0/content/0/text", json!("\t")), blank);
    refused(&with("/system/0/text", json!(" ")), "system: text content blocks must contain non-whitespace text");
    refused(&with("/system", json!("")), "system: text content blocks must be non-empty");
    passes(&with("/system", json!("Careful.")));
    let hollow = "messages.0: all messages must have non-empty content except for the optional final assistant message";
    refused(&with("/messages/0/content", json!([])), hollow);
    refused(&with("/messages/0/content", json!("")), hollow);
    for content in [json!([]), json!("")] {
        let user = json!({"role": "user", "content": "Hi."});
        let assistant = json!({"role": "assistant", "content": content});
        passes(&short(json!([user, assistant])));
        refused(&short(json!([user, assistant, user])), "messages.1: all messages must have non-empty content");
    }
    // A result may be empty, unless it tells of an error.
    passes(&with("/messages/2/content/0/content", json!("")));
    passes(&with("/messages/2/content/0/content", json!([])));
    refused(
        &with("/messages/2/content/1/content", json!("")),
        "messages.2.content.1.tool_result: content cannot be empty if `is_error` is true",
    );
}

#[test]
fn v3_tool_names_are_words_of_at_most_64_and_unique() {
    let pattern = "tools.1.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'";
    for name in ["", "a b", "a.b", "münze", "a/b", &"x".repeat(65)] {
        refused(&with("/tools/1/name", json!(name)), pattern);
    }
    passes(&with("/tools/1/name", json!("x".repeat(64))));
    passes(&with("/tools/1/name", json!("Ab_9-")));
    refused(&with("/tools/1/name", json!("read_file")), "tools: Tool names must be unique");
    refused(
        &with("/messages/1/content/5/name", json!("no such tool")),
        "messages.1.content.5.tool_use.name: String should",
    );
    refused(&without("/tools/1/name"), "tools.1.custom.name: Field required");
}

#[test]
fn v4_a_schema_is_an_object_without_a_choice_at_its_top() {
    let path = "tools.1.custom.input_schema";
    for (schema, words) in [
        (json!({"type": "string"}), ".type: Input should be 'object'"),
        (json!({}), ".type: Field required"),
        (json!([]), ": Input should be a valid dictionary"),
        (json!({"type": "object", "anyOf": []}), ": input_schema does not support oneOf, allOf, or anyOf at the top"),
        (json!({"type": "object", "oneOf": []}), ": input_schema does not support"),
        (json!({"type": "object", "allOf": []}), ": input_schema does not support"),
        (json!({"type": "object", "properties": {"a b": {}}}), ".properties: Property keys should match pattern"),
    ] {
        refused(&with("/tools/1/input_schema", schema), &format!("{path}{words}"));
    }
    refused(&without("/tools/1/input_schema"), "tools.1.custom.input_schema: Field required");
    passes(&with("/tools/1/input_schema", json!({"type": "object", "properties": {"a": {"anyOf": []}}})));
}

#[test]
fn v5_reasoning_comes_back_as_it_was_given_out() {
    let modified = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified";
    // Changed.
    let bad_signature = "messages.1.content.0: Invalid `signature` in `thinking` block";
    refused(&with("/messages/1/content/0/signature", json!("forged")), bad_signature);
    refused(&with("/messages/1/content/0/signature", json!("")), bad_signature);
    refused(&with("/messages/1/content/0/thinking", json!("First")), &format!("messages.1.content.0: {modified}"));
    refused(&with("/messages/1/content/4/thinking", json!("made up")), modified);
    refused(
        &with("/messages/1/content/3/data", json!("d2")),
        "messages.1.content.3: Invalid `data` in `redacted_thinking`",
    );
    refused(&without("/messages/1/content/0/signature"), "messages.1.content.0.thinking.signature: Field required");
    // Dropped in the middle.
    for place in ["0", "3", "4"] {
        refused(&without(&format!("/messages/1/content/{place}")), modified);
    }
    // Out of order.
    for (one, other) in [(0, 4), (0, 1), (3, 4), (1, 3)] {
        let mut body = whole();
        body["messages"][1]["content"].as_array_mut().unwrap().swap(one, other);
        refused(&body, modified);
    }
    // From another turn of the same script.
    let other = json!({"type": "thinking", "thinking": "Other.", "signature": "s3"});
    refused(&with("/messages/1/content/0", other), modified);
    // Left out as a whole, or beside text that is blank: allowed.
    let mut body = whole();
    body["messages"][1]["content"]
        .as_array_mut()
        .unwrap()
        .retain(|block| block["type"] != "redacted_thinking" && block["type"] != "thinking");
    passes(&body);
    passes(&without("/messages/1/content/1"));
    // Without knowledge of what was given out only the shape counts.
    let forged = with("/messages/1/content/0/signature", json!("forged")).to_string();
    assert!(check(forged.as_bytes(), &Issued::unknown()).is_ok());
}

#[test]
fn reasoning_is_never_the_last_block_and_carries_no_marker() {
    let last = json!([{"type": "thinking", "thinking": "Other.", "signature": "s3"}]);
    refused(
        &short(
            json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": last}, {"role": "user", "content": "b"}]),
        ),
        "messages.1: The final block in an assistant message cannot be `thinking`.",
    );
    refused(
        &with("/messages/1/content/0/cache_control", json!({"type": "ephemeral"})),
        "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
    );
}

#[test]
fn v6_a_result_belongs_to_a_call_of_the_message_before_and_comes_once() {
    let unexpected = "unexpected `tool_use_id` found in `tool_result` blocks: ";
    let stray = json!({"type": "tool_result", "tool_use_id": "t9", "content": "x"});
    refused(&with("/messages/2/content/-", stray.clone()), &format!("messages.2.content.3: {unexpected}t9. Each"));
    refused(&with("/messages/0/content/-", stray), &format!("messages.0.content.1: {unexpected}t9"));
    let again = json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"});
    refused(
        &with("/messages/2/content/-", again.clone()),
        "messages.2.content.3: each tool_use must have a single result. Found multiple `tool_result` blocks with id: t1",
    );
    let mut body = whole();
    let later = [json!({"role": "assistant", "content": "ok"}), json!({"role": "user", "content": [again]})];
    body["messages"].as_array_mut().unwrap().extend(later);
    refused(&body, &format!("messages.4.content.0: {unexpected}t1"));
    refused(&with("/messages/1/content/5/id", json!("t1")), "messages.1.content.5: `tool_use` ids must be unique");
    for id in ["", "a.b", "a b"] {
        refused(
            &with("/messages/1/content/5/id", json!(id)),
            "messages.1.content.5.tool_use.id: String should match pattern",
        );
    }
    refused(
        &with("/messages/2/content/1/tool_use_id", json!("a:b")),
        "messages.2.content.1.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    );
}

#[test]
fn ids_are_unique_across_the_request() {
    let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {}}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]});
    let user = json!({"role": "user", "content": "a"});
    passes(&short(json!([user, call, result])));
    refused(&short(json!([user, call, result, call, result])), "messages.3.content.0: `tool_use` ids must be unique");
}

#[test]
fn v7_images_keep_to_the_limits() {
    let place = "/messages/0/content/-";
    let source = "messages.0.content.1.image.source.base64";
    passes(&with(place, picture(8000, 1)));
    refused(&with(place, picture(8001, 1)), "image dimensions exceed max allowed size: 8000 pixels");
    refused(
        &with(place, image("image/bmp", b"BM")),
        &format!("{source}.media_type: Input should be 'image/jpeg', 'image/png'"),
    );
    let mut wrong = picture(1, 1);
    wrong["source"]["media_type"] = json!("image/png");
    refused(&with(place, wrong), &format!("{source}.data: Image does not match the provided media type image/png"));
    refused(&with(place, image("image/png", b"not a picture")), "Could not process image");
    let mut broken = picture(1, 1);
    broken["source"]["data"] = json!("R0lG*");
    refused(&with(place, broken), &format!("{source}.data: invalid base64 data"));
    refused(&with(place, image("image/gif", b"")), "image cannot be empty");
    let size = 5 * 1024 * 1024 / 4 * 3;
    let padded = |bytes: usize| {
        let mut gif = base64::engine::general_purpose::STANDARD
            .decode(picture(1, 1)["source"]["data"].as_str().unwrap())
            .unwrap();
        gif.resize(bytes, 0);
        image("image/gif", &gif)
    };
    passes(&with(place, padded(size)));
    refused(
        &with(place, padded(size + 1)),
        &format!("{source}: image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes"),
    );
    // In a result as well.
    refused(
        &with("/messages/2/content/0/content/1", picture(1, 9000)),
        "messages.2.content.0.tool_result.content.1.image.source.base64.data: At least one",
    );
    let many = |count: usize, side: u16| short(json!([{"role": "user", "content": vec![picture(side, 1); count]}]));
    passes(&many(100, 2000));
    refused(&many(101, 1), "Too much media: 0 document pages + 101 images > 100");
    passes(&many(20, 2001));
    refused(&many(21, 2001), "max allowed size for many-image requests: 2000 pixels");
}

#[test]
fn v8_the_body_is_whole_json_in_utf8() {
    let refused = |body: &[u8], words: &str| {
        let violation = check(body, &Issued::unknown()).unwrap_err();
        assert!(violation.message.starts_with("The request body is not valid JSON: "), "{violation}");
        assert!(violation.message.contains(words), "{violation}");
    };
    let text = |text: &str| {
        format!("{{\"model\":\"m\",\n\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}")
    };
    assert!(check(text(r"\ud83d\ude00 é").as_bytes(), &Issued::unknown()).is_ok());
    for lone in [r"\ud800", r"\ud83d x", r"\ud83d\n", r"\ud83dA", r"\ude00", r"\ud83d\ud83d"] {
        refused(text(lone).as_bytes(), "no low surrogate in string: line 2 column ");
    }
    let mut latin1 = text("x").into_bytes();
    let place = latin1.iter().rposition(|byte| *byte == b'x').unwrap();
    latin1[place] = 0xe9;
    refused(&latin1, "str is not valid UTF-8");
    // The bytes that an encoder makes of a lone surrogate when it does not care.
    latin1.splice(place..=place, [0xed, 0xa0, 0x80]);
    refused(&latin1, "str is not valid UTF-8");
    refused(b"", "EOF");
    refused(b"{\"model\":\"m\"", "EOF");
    refused(b"{\"model\":\"m\",}", "trailing comma");
    refused("\u{feff}{}".as_bytes(), "expected value");
    refused(b"{} {}", "trailing characters: line 1 column 4 (char 3)");
}

#[test]
fn parameters_are_known_and_within_bounds() {
    for (body, words) in [
        (with("/temprature", json!(1)), "temprature: Extra inputs are not permitted"),
        (without("/model"), "model: Field required"),
        (with("/model", json!("")), "model: String should have at least 1 character"),
        (with("/model", json!(7)), "model: Input should be a valid string"),
        (without("/max_tokens"), "max_tokens: Field required"),
        (with("/max_tokens", json!(0)), "max_tokens: Input should be greater than or equal to 1"),
        (with("/max_tokens", json!(-1)), "max_tokens: Input should be greater than or equal to 1"),
        (with("/max_tokens", json!("9")), "max_tokens: Input should be a valid integer"),
        (with("/stream", json!("yes")), "stream: Input should be a valid boolean"),
        (with("/temperature", json!(1.5)), "temperature: Input should be less than or equal to 1"),
        (with("/temperature", json!(-1)), "temperature: Input should be greater than or equal to 0"),
        (with("/top_p", json!("x")), "top_p: Input should be a valid number"),
        (with("/output_config", json!({"effort": "huge"})), "output_config.effort: Input should be 'low'"),
        (with("/output_config", json!({"efort": "low"})), "output_config.efort: Extra inputs are not permitted"),
        (with("/stop_sequences", json!(["\n"])), "stop_sequences: each stop sequence must contain non-whitespace"),
        (without("/messages"), "messages: Field required"),
        (with("/messages", json!({})), "messages: Input should be a valid list"),
        (with("/messages", json!([])), "messages: at least one message is required"),
        (with("/system", json!(3)), "system: Input should be a valid"),
        (with("/system/0/type", json!("image")), "system.0: Input tag 'image' found using 'type' does not match"),
        (with("/tools", json!({})), "tools: Input should be a valid list"),
        (with("/tools/0/params", json!({})), "tools.0.custom.params: Extra inputs are not permitted"),
        (with("/tools/0/description", json!(1)), "tools.0.custom.description: Input should be a valid string"),
        (
            with("/thinking", json!({"type": "enabled", "budget_tokens": 500})),
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            with("/thinking", json!({"type": "enabled", "budget_tokens": 2000})),
            "`max_tokens` must be greater than `thinking.budget_tokens`",
        ),
        (with("/thinking", json!({"type": "on"})), "thinking: Input tag 'on' found"),
    ] {
        refused(&body, words);
    }
    assert!(check(b"[]", &Issued::unknown()).unwrap_err().message.contains("Input should be a valid dictionary"));
    let mut body = with("/thinking", json!({"type": "adaptive"}));
    passes(&body);
    body["temperature"] = json!(0.5);
    refused(&body, "`temperature` may only be set to 1 when thinking is enabled");
    body["temperature"] = json!(1);
    body["tool_choice"] = json!({"type": "any"});
    refused(&body, "Thinking may not be enabled when tool_choice forces tool use");
}

#[test]
fn a_tool_choice_names_a_tool_on_offer() {
    passes(&with("/tool_choice", json!({"type": "auto", "disable_parallel_tool_use": true})));
    passes(&with("/tool_choice", json!({"type": "tool", "name": "bash"})));
    refused(&with("/tool_choice", json!({"type": "tool", "name": "zsh"})), "Tool 'zsh' not found in provided tools");
    refused(&with("/tool_choice", json!({"type": "tool"})), "tool_choice.tool.name: Field required");
    refused(&with("/tool_choice", json!({"type": "must"})), "tool_choice: Input tag 'must' found");
    let mut body = with("/tool_choice", json!({"type": "auto"}));
    body.as_object_mut().unwrap().remove("tools");
    refused(&body, "tool_choice may only be specified while providing tools");
    refused(&without("/tools"), "Requests which include `tool_use` or `tool_result` blocks must define tools");
}

#[test]
fn messages_and_blocks_have_their_shape_and_their_side() {
    for (body, words) in [
        (without("/messages/0"), "messages: first message must use the \"user\" role"),
        (with("/messages/0/role", json!("system")), "messages: Unexpected role \"system\""),
        (with("/messages/0/role", json!("tool")), "messages.0.role: Input should be 'user' or 'assistant'"),
        (with("/messages/0/name", json!("x")), "messages.0.name: Extra inputs are not permitted"),
        (without("/messages/0/content"), "messages.0.content: Field required"),
        (with("/messages/0/content", json!(1)), "messages.0.content: Input should be a valid list"),
        (without("/messages/0/content/0/type"), "messages.0.content.0.type: Field required"),
        (
            with("/messages/0/content/0/type", json!("txt")),
            "messages.0.content.0: Input tag 'txt' found using 'type' does not",
        ),
        (without("/messages/0/content/0/text"), "messages.0.content.0.text.text: Field required"),
        (
            with("/messages/1/content/2/text", json!("x")),
            "messages.1.content.2.tool_use.text: Extra inputs are not permitted",
        ),
        (
            with("/messages/1/content/2/input", json!("{}")),
            "messages.1.content.2.tool_use.input: Input should be a valid dictionary",
        ),
        (without("/messages/1/content/2/input"), "messages.1.content.2.tool_use.input: Field required"),
        (
            with("/messages/2/content/0/content", json!(1)),
            "messages.2.content.0.tool_result.content: Input should be a valid list",
        ),
        (
            with("/messages/2/content/0/content/0", json!({"type": "tool_use"})),
            "messages.2.content.0.tool_result.content.0: Input tag",
        ),
        (
            with("/messages/2/content/0/is_error", json!("no")),
            "messages.2.content.0.tool_result.is_error: Input should be a valid boolean",
        ),
        (with("/messages/2/content/0/is_error", json!(true)), "all content must be type `text` if `is_error` is true"),
        (
            with("/messages/1/content/1", picture(1, 1)),
            "messages.1.content.1: `image` blocks can only be in `user` messages",
        ),
        (
            with("/messages/0/content/0", whole()["messages"][1]["content"][2].clone()),
            "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
        ),
    ] {
        refused(&body, words);
    }
}

#[test]
fn cache_markers_are_few_whole_and_in_order() {
    let marker = json!({"type": "ephemeral"});
    let mut body = whole();
    body["tools"][1]["cache_control"] = marker.clone();
    body["messages"][2]["content"][0]["content"][0]["cache_control"] = marker.clone();
    passes(&body);
    body["messages"][0]["content"][0]["cache_control"] = marker;
    refused(&body, "A maximum of 4 blocks with cache_control may be provided. Found 5.");
    refused(
        &with("/system/0/cache_control/type", json!("forever")),
        "system.0.cache_control: Input tag 'forever' found",
    );
    refused(
        &with("/system/0/cache_control/ttl", json!("2h")),
        "system.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
    );
    passes(&with("/system/0/cache_control/ttl", json!("1h")));
    refused(
        &with("/messages/2/content/2/cache_control/ttl", json!("1h")),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
    );
    refused(
        &with("/messages/2/content/2/text", json!("")),
        "messages.2.content.2.text: cache_control cannot be set for empty text blocks",
    );
    // What looks like a marker within arguments is none.
    passes(&with("/messages/1/content/5/input", json!({"content": [{"cache_control": 1}], "cache_control": 2})));
}

#[test]
fn words_put_into_the_models_mouth_do_not_end_in_blanks() {
    let prefill = |model: &str, content: Value| {
        let mut body = short(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": content}]));
        body["model"] = json!(model);
        body
    };
    for model in
        ["scripted.yaml", "claude-sonnet-4-5-20250929", "claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514"]
    {
        passes(&prefill(model, json!("Well")));
        let words = "messages: final assistant content cannot end with trailing whitespace";
        refused(&prefill(model, json!("Well ")), words);
        refused(&prefill(model, json!([{"type": "text", "text": "Well\n"}])), words);
    }
    for model in ["claude-opus-4-6", "claude-sonnet-5", "claude-opus-5-1-20270101"] {
        refused(&prefill(model, json!("Well")), "This model does not support assistant message prefill");
    }
}
