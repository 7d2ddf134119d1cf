//! Files of instructions beneath the workspace's root: named once, when it matters.

use hames_protocol::*;
use serde_json::json;

use crate::world::World;

fn world() -> World {
    let world = World::new();
    for file in [
        "AGENTS.md",
        "a.rs",
        "sub/AGENTS.md",
        "sub/CLAUDE.md",
        "sub/s.rs",
        "sub/t.rs",
        "sub/deep/d.rs",
        "sub/deep/CLAUDE.md",
    ] {
        world.put(file, "text\n");
    }
    world
}

fn named(result: &ToolResult) -> Vec<String> {
    let text = result.text();
    text.lines().filter_map(|line| Some(line.strip_prefix("[`")?.split_once("` says how")?.0.to_owned())).collect()
}

#[tokio::test]
async fn a_file_read_in_a_folder_with_instructions_names_them_once() {
    let world = world();
    let read = async |path: &str| named(&world.ok("read_file", json!({"path": path})).await);
    assert_eq!(read("a.rs").await, [""; 0]);
    assert_eq!(read("sub/deep/d.rs").await, ["sub/AGENTS.md", "sub/deep/CLAUDE.md"]);
    assert_eq!(read("sub/s.rs").await, [""; 0]);
    assert_eq!(read("sub/deep/d.rs").await, [""; 0]);
}

#[tokio::test]
async fn instructions_that_are_read_themselves_are_not_named_beside() {
    let world = world();
    assert_eq!(named(&world.ok("read_file", json!({"path": "sub/AGENTS.md"})).await), [""; 0]);
    assert_eq!(named(&world.ok("read_file", json!({"path": "sub/s.rs"})).await), [""; 0]);
}

#[tokio::test]
async fn a_change_in_a_folder_with_instructions_names_them() {
    let world = world();
    let written = world.ok("write_file", json!({"path": "sub/new/n.rs", "content": "x"})).await;
    assert_eq!(named(&written), ["sub/AGENTS.md"]);
    let patch = "*** Begin Patch\n*** Add File: sub/p.rs\n+p\n*** Add File: sub/deep/p.rs\n+p\n*** End Patch";
    assert_eq!(named(&world.ok("apply_patch", json!({ "patch": patch })).await), ["sub/deep/CLAUDE.md"]);
    assert_eq!(world.bytes("sub/new/n.rs"), b"x");
}

#[tokio::test]
async fn what_was_named_is_known_again_after_a_restart() {
    let world = world();
    let data = world.ok("read_file", json!({"path": "sub/s.rs"})).await.data;
    assert_eq!(data["instructions"], json!(["sub/AGENTS.md"]));
    let world = world.restarted();
    world.memory.recall(&data);
    assert_eq!(named(&world.ok("read_file", json!({"path": "sub/t.rs"})).await), [""; 0]);
    assert_eq!(named(&world.ok("read_file", json!({"path": "sub/deep/d.rs"})).await), ["sub/deep/CLAUDE.md"]);
}

#[tokio::test]
async fn only_a_plain_file_within_reach_is_named() {
    let world = World::new();
    for file in ["a/f", "b/f", "c/f", "b/AGENTS.md/folder"] {
        world.put(file, "x\n");
    }
    std::os::unix::fs::symlink("/etc/hostname", world.workspace.root.join("a/AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("gone", world.workspace.root.join("c/AGENTS.md")).unwrap();
    for path in ["a/f", "b/f", "c/f"] {
        assert_eq!(named(&world.ok("read_file", json!({"path": path})).await), [""; 0], "{path}");
    }
}
