//! `edit_file`: file bytes in, call, file bytes out.

use hames_protocol::port::Toolbox;
use hames_protocol::*;
use serde_json::{Value, json};

use crate::world::{PROTECTED, World};

async fn edited(before: &[u8], arguments: Value) -> (World, ToolResult) {
    let world = World::new();
    world.put("f", before);
    world.run("read_file", json!({"path": "f"})).await;
    let mut call = json!({"path": "f"});
    call.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    let result = world.run("edit_file", call).await;
    (world, result)
}

async fn check(before: &[u8], old: &str, new: &str, after: &[u8]) {
    let (world, result) = edited(before, json!({"old_string": old, "new_string": new})).await;
    assert_eq!(result.status, Status::Ok, "{old:?}: {}", result.text());
    assert_eq!(world.bytes("f"), after, "{old:?} -> {new:?}");
}

async fn check_refused(before: &[u8], arguments: Value, says: &str) {
    let (world, result) = edited(before, arguments.clone()).await;
    assert_eq!(result.status, Status::Refused, "{arguments}: {}", result.text());
    assert!(result.text().contains(says), "{arguments}: {} does not say {says:?}", result.text());
    assert_eq!(world.bytes("f"), before);
}

#[tokio::test]
async fn line_ends_stay_those_of_the_file() {
    let bat = b"one\r\ntwo\r\nthree\r\n";
    check(bat, "two", "TWO\nextra", b"one\r\nTWO\r\nextra\r\nthree\r\n").await;
    check(bat, "one\ntwo", "ONE\ntwo", b"ONE\r\ntwo\r\nthree\r\n").await;
    check(b"a\nb\r\nc\n", "b", "B", b"a\nB\r\nc\n").await;
    check(b"a\nb\nc\n", "b", "B\nB2", b"a\nB\nB2\nc\n").await;
}

#[tokio::test]
async fn bytes_outside_the_edit_keep_their_encoding() {
    let cs = [b"\xEF\xBB\xBF".as_slice(), "class É {}\r\nint x=1;\r\n".as_bytes()].concat();
    let cs_after = [b"\xEF\xBB\xBF".as_slice(), "class É {}\r\nint x=2;\r\n".as_bytes()].concat();
    check(&cs, "x=1", "x=2", &cs_after).await;
    check(b"// \xA9 2020\r\nint x=1;\r\n", "x=1", "x=2", b"// \xA9 2020\r\nint x=2;\r\n").await;
    check(b"int x=1;\n", "x=1", "x=2", b"int x=2;\n").await;
}

#[tokio::test]
async fn tabs_and_a_missing_final_line_end_stay_as_they_are() {
    check(b"if x:\n\ty = 1\t# one\n\tz\n", "\ty = 1", "\ty = 2", b"if x:\n\ty = 2\t# one\n\tz\n").await;
    check(b"a\nb", "b", "B", b"a\nB").await;
    check(b"a\nb", "a\nb", "A\nB", b"A\nB").await;
    check(b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc").await;
    check(b"a\nb\n", "b\n", "b", b"a\nb").await;
}

#[tokio::test]
async fn every_byte_outside_the_edit_stays_whatever_it_is() {
    let every: Vec<u8> = (1..=255).collect();
    let before = [every.as_slice(), b"\nx=1;\n", every.as_slice()].concat();
    let after = [every.as_slice(), b"\nx=2;\n", every.as_slice()].concat();
    check(&before, "x=1", "x=2", &after).await;
}

#[tokio::test]
async fn a_text_that_is_only_nearly_there_is_shown_as_the_file_has_it_and_not_replaced() {
    let table: [(&str, &str, &str, &str); 5] = [
        ("name = \"cafe\u{301}\"\n", "caf\u{e9}", "Unicode normalisation", "     1\tname = \"cafe\u{301}\""),
        ("name = \"caf\u{e9}\"\n", "cafe\u{301}", "Unicode normalisation", "     1\tname = \"caf\u{e9}\""),
        ("say \u{201c}hi\u{201d}\n", "say \"hi\"", "typographic quotes", "     1\tsay \u{201c}hi\u{201d}"),
        ("it\u{2019}s\n", "it's", "typographic quotes", "     1\tit\u{2019}s"),
        ("foo   bar baz\n", "foo bar", "only in white space", "     1\tfoo   bar baz"),
    ];
    for (file, old, why, shown) in table {
        let call = json!({"old_string": old, "new_string": "Q"});
        check_refused(file.as_bytes(), call.clone(), why).await;
        check_refused(file.as_bytes(), call, shown).await;
    }
}

#[tokio::test]
async fn all_occurrences_are_replaced_from_left_to_right_without_overlap_and_no_line_is_lost() {
    let file = "  x)\nx)\n    x)\nend\n";
    let all = json!({"old_string": "x)\nx)", "new_string": "y", "replace_all": true});
    let (world, result) = edited(file.as_bytes(), all).await;
    assert_eq!(result.status, Status::Ok, "{}", result.text());
    assert_eq!(world.bytes("f"), b"  y\n    x)\nend\n");
    let all = json!({"old_string": "x)\nx)", "new_string": "y", "replace_all": true});
    let (world, _) = edited(b"x)\nx)\nx)\n", all).await;
    assert_eq!(world.bytes("f"), b"y\nx)\n");
    // A new text without a final line end does not glue the next line on.
    check(b"a  \nb  \nc\n", "a  \nb", "x", b"x  \nc\n").await;
    check_refused(b"a  \nb  \nc\n", json!({"old_string": "a\nb", "new_string": "x"}), "only in white space").await;
}

#[tokio::test]
async fn a_file_too_large_to_edit_is_refused_with_its_size() {
    let world = World::new();
    let file = std::fs::File::create(world.workspace.root.join("big.txt")).unwrap();
    file.set_len(11 * 1024 * 1024).unwrap();
    let edit = json!({"path": "big.txt", "old_string": "a", "new_string": "b"});
    for (tool, call) in [("edit_file", edit), ("write_file", json!({"path": "big.txt", "content": "x"}))] {
        let text = world.refused(tool, call).await;
        assert!(text.contains("11534336 bytes, more than the 10485760"), "{tool}: {text}");
    }
    let patch = "*** Begin Patch\n*** Update File: big.txt\n-a\n+b\n*** End Patch";
    let text = world.refused("apply_patch", json!({ "patch": patch })).await;
    assert!(text.contains("11534336 bytes"), "{text}");
    file.set_len(65 * 1024 * 1024).unwrap();
    let text = world.run("read_file", json!({"path": "big.txt"})).await.text();
    assert!(text.contains("68157440 bytes, more than the 67108864"), "{text}");
    assert_eq!(std::fs::metadata(world.workspace.root.join("big.txt")).unwrap().len(), 68_157_440);
}

#[tokio::test]
async fn the_report_shows_a_first_line_without_its_mark() {
    let (_, result) = edited(b"\xEF\xBB\xBFone\ntwo\n", json!({"old_string": "two", "new_string": "2"})).await;
    assert!(result.text().contains("     1\tone\n"), "{:?}", result.text());
}

#[tokio::test]
async fn an_encoding_that_cannot_be_edited_is_named() {
    let wide: Vec<u8> = b"\xFF\xFE".iter().copied().chain("int x=1;\n".bytes().flat_map(|b| [b, 0])).collect();
    check_refused(&wide, json!({"old_string": "x=1", "new_string": "x=2"}), "UTF-16 (little endian)").await;
    check_refused(b"x=1\0", json!({"old_string": "x=1", "new_string": "x=2"}), "binary file of 4 bytes").await;
}

#[tokio::test]
async fn the_new_text_is_never_a_template() {
    let news = [
        "^[sv]d[a-z]$'",
        "cost $& and $$",
        "$1 $<n>",
        "$`",
        "\\1 \\g<0> \\n",
        "%s {0} ${HOME}",
        "$0",
        "\u{1F600}\t'\"`",
    ];
    for new in news {
        check(b"AAA\nX\nBBB\n", "X", new, format!("AAA\n{new}\nBBB\n").as_bytes()).await;
        let (world, _) = edited(b"X X\n", json!({"old_string": "X", "new_string": new, "replace_all": true})).await;
        assert_eq!(world.bytes("f"), format!("{new} {new}\n").as_bytes());
    }
}

#[tokio::test]
async fn a_loose_or_empty_old_text_changes_nothing() {
    let file: String = (1..=300).map(|n| format!("line {n:03}\n")).collect();
    let file = file.as_bytes();
    check_refused(file, json!({"old_string": "", "new_string": "# tail"}), "`old_string` is empty").await;
    let all = json!({"old_string": "", "new_string": "# tail", "replace_all": true});
    check_refused(file, all, "`old_string` is empty").await;
    let elided = json!({"old_string": "line 001\n...\nline 300", "new_string": "x"});
    check_refused(file, elided, "does not occur").await;
    check_refused(file, json!({"old_string": "line 001", "new_string": "line 001"}), "are the same").await;
    let thrice = json!({"old_string": "x", "new_string": "y"});
    check_refused(b"x\na\nx\nx\n", thrice, "occurs 3 times in `f`, at lines 1, 3, 4").await;
    let many = json!({"old_string": "x", "new_string": "y"});
    check_refused("x".repeat(100_000).as_bytes(), many, "occurs 100000 times").await;
    check_refused(b"a\r\nb\r\n", json!({"old_string": "\r\n", "new_string": "\n", "replace_all": true}), "line ends")
        .await;
}

#[tokio::test]
async fn a_missing_file_is_not_made_by_an_edit() {
    let world = World::new();
    for old in ["", "a"] {
        let text = world.refused("edit_file", json!({"path": "no", "old_string": old, "new_string": "b"})).await;
        assert!(text.contains("does not exist. Use `write_file`"), "{text}");
    }
    assert!(!world.exists("no"));
}

#[tokio::test]
async fn the_result_shows_the_lines_as_they_are_now() {
    let (_, result) = edited(b"a\nb\nc\nd\ne\n", json!({"old_string": "c", "new_string": "C1\nC2"})).await;
    let expected =
        "Replaced 1 place in `f`. It now reads:\n     1\ta\n     2\tb\n     3\tC1\n     4\tC2\n     5\td\n     6\te";
    assert_eq!(result.text(), expected);
    let file: String = (1..=100).map(|n| format!("{}\n", if n % 40 == 0 { "x" } else { "." })).collect();
    let (_, result) = edited(file.as_bytes(), json!({"old_string": "x", "new_string": "y", "replace_all": true})).await;
    assert!(result.text().contains("    42\t.\n     …\n    78\t.\n"), "{}", result.text());
}

#[tokio::test]
async fn an_edit_that_would_explode_is_refused() {
    let arguments = json!({"old_string": "a", "new_string": "b".repeat(100_000), "replace_all": true});
    check_refused("a".repeat(1_000).as_bytes(), arguments, "would grow beyond").await;
}

#[tokio::test]
async fn an_unread_file_is_not_edited() {
    let world = World::new();
    world.put("f", "a\n");
    let call = json!({"path": "f", "old_string": "a", "new_string": "b"});
    let text = world.refused("edit_file", call.clone()).await;
    assert!(text.contains("was not read in this session. Read it with `read_file`"), "{text}");
    world.read("f").await;
    world.ok("edit_file", call).await;
    // What the tool itself wrote is known without another read.
    world.ok("edit_file", json!({"path": "f", "old_string": "b", "new_string": "c"})).await;
    assert_eq!(world.bytes("f"), b"c\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_edited() {
    let world = World::new();
    world.put("f", "a\n");
    world.read("f").await;
    assert_eq!(world.bash("echo more >> f").await.status, Status::Ok);
    let text = world.refused("edit_file", json!({"path": "f", "old_string": "a", "new_string": "b"})).await;
    assert!(text.contains("has changed since it was read"), "{text}");
    assert_eq!(world.bytes("f"), b"a\nmore\n");
}

#[tokio::test]
async fn a_change_between_examination_and_run_is_not_overwritten() {
    let world = World::new();
    world.put("f", "a\n");
    world.read("f").await;
    let call = world.call("edit_file", json!({"path": "f", "old_string": "a", "new_string": "b"}));
    assert!(world.registry.examine(&call).await.problems.is_empty());
    world.put("f", "a\nuser\n");
    let result = world.registry.run(&call, &|_| {}).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!(world.bytes("f"), b"a\nuser\n");
}

#[tokio::test]
async fn a_change_in_the_middle_of_the_run_is_not_overwritten() {
    let world = World::new();
    world.put("f", "a\n");
    world.read("f").await;
    *world.workspace.intruder.lock().unwrap() = Some("user\n");
    let result = world.run("edit_file", json!({"path": "f", "old_string": "a", "new_string": "b"})).await;
    assert_eq!(result.status, Status::Failed);
    assert!(result.text().contains("has changed since it was read"), "{}", result.text());
    *world.workspace.intruder.lock().unwrap() = Some("user\n");
    let result = world.run("write_file", json!({"path": "new", "content": "b\n"})).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!((world.bytes("f"), world.bytes("new")), (b"user\n".to_vec(), b"user\n".to_vec()));
}

#[tokio::test]
async fn a_protected_file_is_left_to_the_policy_and_never_written() {
    let world = World::new();
    world.put(PROTECTED, "a\n");
    world.read(PROTECTED).await;
    for path in [PROTECTED, "tests/../tests/test_sum.py"] {
        let call = world.call("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"}));
        let examined = world.registry.examine(&call).await;
        assert!(examined.problems.is_empty());
        assert_eq!(examined.touches[0].lands, PROTECTED);
        assert!(examined.touches[0].protected.is_some());
        let result = world.registry.run(&call, &|_| {}).await;
        assert_eq!((result.status, result.fired[0].guard), (Status::Failed, Guard::Protected));
    }
    assert_eq!(world.bytes(PROTECTED), b"a\n");
}

#[tokio::test]
async fn a_path_outside_the_workspace_is_refused_by_the_jail() {
    let world = World::new();
    std::os::unix::fs::symlink("/etc/passwd", world.workspace.root.join("link")).unwrap();
    for path in ["/etc/passwd", "../../etc/passwd", "link"] {
        for (tool, mut call) in [
            ("read_file", json!({})),
            ("list_files", json!({})),
            ("search", json!({"pattern": "x"})),
            ("write_file", json!({"content": "x"})),
            ("edit_file", json!({"old_string": "a", "new_string": "b"})),
        ] {
            call["path"] = json!(path);
            let examined = world.examine(tool, call.clone()).await;
            assert_eq!(examined.problems[0].guard, Guard::Jail, "{tool} {path}");
            let result = world.registry.run(&world.call(tool, call), &|_| {}).await;
            assert_eq!(result.status, Status::Failed, "{tool} {path}");
        }
    }
}

#[tokio::test]
async fn an_edit_in_doubt_is_told_by_the_digests() {
    let world = World::new();
    world.put("f", "a\n");
    world.read("f").await;
    let call = world.call("edit_file", json!({"path": "f", "old_string": "a", "new_string": "b"}));
    let examined = world.registry.examine(&call).await;
    assert_eq!(examined.class, EffectClass::Reconcilable);
    let plan = &examined.plans[0];
    assert_eq!((&plan.before, &plan.after), (&Some(Digest::of("a\n")), &Some(Digest::of("b\n"))));

    assert_eq!(world.registry.probe(&call, &examined).await, Probe::DidNotHappen);
    world.put("f", "c\n");
    assert!(matches!(
        world.registry.probe(&call, &examined).await,
        Probe::Settled(ToolResult { status: Status::InDoubt, .. })
    ));
    world.put("f", "b\n");
    let Probe::Settled(result) = world.registry.probe(&call, &examined).await else { panic!("it happened") };
    assert_eq!(result.changes[0].after, Some(Digest::of("b\n")));
    // The model knows the content that its own edit left.
    world.ok("edit_file", json!({"path": "f", "old_string": "b", "new_string": "d"})).await;
}

#[tokio::test]
async fn what_was_read_is_known_again_after_a_restart() {
    let world = World::new();
    world.put("f", "a\n");
    let data = world.ok("read_file", json!({"path": "./f"})).await.data;
    let call = json!({"path": "f", "old_string": "a", "new_string": "b"});
    let world = world.restarted();
    world.refused("edit_file", call.clone()).await;
    world.memory.recall(&data);
    world.memory.recall(&json!({"path": "f", "digest": 7}));
    world.memory.recall(&Value::Null);
    world.ok("edit_file", call).await;
}
