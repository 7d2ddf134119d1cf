//! `write_file`: what is created, what is kept, what is refused.

use hames_protocol::port::Toolbox;
use hames_protocol::*;
use serde_json::json;

use crate::world::World;

async fn replaced(before: &[u8], content: &str) -> (Vec<u8>, String) {
    let world = World::new();
    world.put("f", before);
    world.read("f").await;
    let result = world.ok("write_file", json!({"path": "f", "content": content})).await;
    (world.bytes("f"), result.text())
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders() {
    let world = World::new();
    let result = world.ok("write_file", json!({"path": "a/b/c.txt", "content": "one\ntwo\n"})).await;
    assert_eq!(result.text(), "Created `a/b/c.txt` (2 lines, 8 bytes).");
    assert_eq!(world.bytes("a/b/c.txt"), b"one\ntwo\n");
    assert_eq!(result.changes.len(), 1);
    assert_eq!((result.changes[0].path.as_str(), result.changes[0].change), ("a/b/c.txt", ChangeKind::Added));
}

#[tokio::test]
async fn line_ends_and_mark_of_a_replaced_file_are_kept() {
    let (bytes, text) = replaced(b"one\r\ntwo\r\n", "one\nTWO\n").await;
    assert_eq!(bytes, b"one\r\nTWO\r\n");
    assert!(text.contains("CRLF line ends were kept"), "{text}");
    let (bytes, text) = replaced(b"\xEF\xBB\xBFone\n", "two\n").await;
    assert_eq!(bytes, b"\xEF\xBB\xBFtwo\n");
    assert!(text.contains("byte order mark was kept"), "{text}");
    let (bytes, text) = replaced(b"one\r\ntwo\n", "1\n2\n").await;
    assert_eq!(bytes, b"1\n2\n");
    assert!(text.contains("had mixed LF and CRLF line ends and now has LF"), "{text}");
    let (bytes, text) = replaced(b"one\n", "1\r\n2\r\n").await;
    assert_eq!(bytes, b"1\r\n2\r\n");
    assert!(text.contains("had LF line ends and now has CRLF"), "{text}");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_not_sent_to_be_read() {
    let world = World::new();
    world.put("wide.txt", b"\xFF\xFEa\0\n\0");
    world.put("data.bin", b"a\0b");
    for (path, what) in [("wide.txt", "UTF-16"), ("data.bin", "binary file")] {
        let before = world.bytes(path);
        let text = world.refused("write_file", json!({"path": path, "content": "new\n"})).await;
        assert!(text.contains(what) && text.contains("`bash`") && !text.contains("read_file"), "{text}");
        assert_eq!(world.bytes(path), before);
    }
}

#[tokio::test]
async fn the_same_content_again_changes_nothing() {
    let world = World::new();
    let call = json!({"path": "f", "content": "a\r\nb\r\n"});
    world.ok("write_file", call).await;
    let result = world.ok("write_file", json!({"path": "f", "content": "a\nb\n"})).await;
    assert!(result.text().contains("nothing was changed"), "{}", result.text());
    assert!(result.changes.is_empty());
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_after_it_was_read() {
    let world = World::new();
    world.put("f", "a\n");
    let call = json!({"path": "f", "content": "b\n"});
    let text = world.refused("write_file", call.clone()).await;
    assert!(text.contains("exists and was not read"), "{text}");
    // A part is enough: the digest is that of the whole.
    world.ok("read_file", json!({"path": "f", "limit": 1})).await;
    world.ok("write_file", call).await;
    assert_eq!(world.bytes("f"), b"b\n");
}

#[tokio::test]
async fn a_file_read_through_a_link_counts_as_read() {
    let world = World::new();
    world.put("real.md", "a\n");
    std::os::unix::fs::symlink("real.md", world.workspace.root.join("link.md")).unwrap();
    world.read("link.md").await;
    let result = world.ok("write_file", json!({"path": "real.md", "content": "b\n"})).await;
    assert_eq!(result.changes[0].path, "real.md");
    world.ok("write_file", json!({"path": "link.md", "content": "c\n"})).await;
    assert!(world.workspace.root.join("link.md").is_symlink());
    assert_eq!(world.bytes("real.md"), b"c\n");
}

#[tokio::test]
async fn folders_and_the_private_tmp_are_not_written() {
    let world = World::new();
    world.put("d/f", "a");
    let text = world.refused("write_file", json!({"path": "d", "content": "x"})).await;
    assert!(text.contains("`d` is a folder"), "{text}");
    let result = world.run("write_file", json!({"path": "/tmp/x", "content": "x"})).await;
    assert_eq!((result.status, result.fired[0].guard), (Status::Failed, Guard::Protected));
    assert!(result.text().contains("only read the session's /tmp"), "{}", result.text());
    assert!(!world.workspace.tmp.join("x").exists());
}

#[tokio::test]
async fn a_creation_in_doubt_is_told_by_the_file() {
    let world = World::new();
    let call = world.call("write_file", json!({"path": "new", "content": "x"}));
    let examined = world.registry.examine(&call).await;
    assert_eq!(examined.plans[0].before, None);
    assert_eq!(world.registry.probe(&call, &examined).await, Probe::DidNotHappen);
    world.registry.run(&call, &|_| {}).await;
    assert!(matches!(
        world.registry.probe(&call, &examined).await,
        Probe::Settled(ToolResult { status: Status::Ok, .. })
    ));
}
