//! `apply_patch`: files in, patch, files out. Where a hunk goes is tested beside the code that places it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hames_protocol::port::{Toolbox, Workspace};
use hames_protocol::*;
use serde_json::{Value, json};

use crate::world::{PROTECTED, World};

fn patch(sections: &str) -> Value {
    json!({ "patch": format!("*** Begin Patch\n{sections}\n*** End Patch\n") })
}

/// A world with these files, all of them read.
async fn world_of(files: &[(&str, &str)]) -> World {
    let world = World::new();
    for (path, content) in files {
        world.put(path, content);
        world.read(path).await;
    }
    world
}

fn mode(world: &World, path: &str) -> u32 {
    fs::metadata(world.workspace.root.join(path)).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn all_files_of_a_patch_change_together() {
    let world = world_of(&[("a.txt", "one\r\ntwo\r\n"), ("old.txt", "x\n"), ("run.sh", "#!/bin/sh\necho 1\n")]).await;
    fs::set_permissions(world.workspace.root.join("run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let sections = "*** Add File: new/b.txt\n+b\n*** Update File: a.txt\n@@\n one\n-two\n+TWO\n*** Delete File: \
                    old.txt\n*** Update File: run.sh\n*** Move to: bin/run.sh\n@@\n-echo 1\n+echo 2";
    let result = world.ok("apply_patch", patch(sections)).await;
    assert_eq!(world.bytes("a.txt"), b"one\r\nTWO\r\n");
    assert_eq!(world.bytes("new/b.txt"), b"b\n");
    assert_eq!(world.bytes("bin/run.sh"), b"#!/bin/sh\necho 2\n");
    assert_eq!(mode(&world, "bin/run.sh"), 0o750);
    assert!(!world.exists("old.txt") && !world.exists("run.sh"));
    let told = "Created `new/b.txt` (1 line).\nUpdated `a.txt` (1 hunk). It now reads:\n     1\tone\n     2\tTWO\n\
                Deleted `old.txt`.\nMoved `run.sh` to `bin/run.sh` (1 hunk). It now reads:\n     1\t#!/bin/sh\n     \
                2\techo 2";
    assert_eq!(result.text(), told);
    let mut changes: Vec<_> = result.changes.iter().map(|one| (one.path.as_str(), one.change)).collect();
    changes.sort_by_key(|(path, _)| *path);
    let expected = [
        ("a.txt", ChangeKind::Modified),
        ("bin/run.sh", ChangeKind::Added),
        ("new/b.txt", ChangeKind::Added),
        ("old.txt", ChangeKind::Deleted),
        ("run.sh", ChangeKind::Deleted),
    ];
    assert_eq!(changes, expected);
    // What the patch left is known without another read, here and after a restart.
    let data = result.data;
    let again = patch("*** Update File: bin/run.sh\n-echo 2\n+echo 3\n*** Update File: new/b.txt\n-b\n+c");
    let world = world.restarted();
    world.refused("apply_patch", again.clone()).await;
    world.memory.recall(&data);
    world.ok("apply_patch", again).await;
    assert_eq!(world.bytes("new/b.txt"), b"c\n");
}

#[tokio::test]
async fn a_file_may_move_without_a_change() {
    let world = world_of(&[("a", "x\n")]).await;
    let result = world.ok("apply_patch", patch("*** Update File: a\n*** Move to: b/c")).await;
    assert_eq!(result.text(), "Moved `a` to `b/c`.");
    assert_eq!(world.bytes("b/c"), b"x\n");
    assert!(!world.exists("a"));
}

#[tokio::test]
async fn one_section_that_cannot_be_refuses_the_whole_patch_and_every_fault_is_told() {
    let world = world_of(&[("a", "x\n"), ("b", "y\ny\n")]).await;
    let sections = "*** Update File: a\n-x\n+X\n*** Update File: b\n-y\n+Y\n@@\n-z\n*** Delete File: c\n*** Add File: a/d\n+d\n\
                    *** Add File: b\n+b";
    let text = world.refused("apply_patch", patch(sections)).await;
    for says in [
        "`b`, hunk 1 (line 6 of the patch): its lines stand at 2 places, at lines 1, 2",
        "`b`, hunk 2 (line 8 of the patch): its lines do not stand in the file",
        "`c` does not exist",
        "`b` exists already",
    ] {
        assert!(text.contains(says), "{text} does not say {says:?}");
    }
    assert_eq!((world.bytes("a"), world.bytes("b")), (b"x\n".to_vec(), b"y\ny\n".to_vec()));
    let table = [
        ("*** Update File: a\n-x\n+X\n*** Delete File: a", "The patch names `a` twice"),
        ("*** Update File: a\n*** Move to: ./n\n*** Add File: n\n+n", "The patch names `n` twice"),
        ("*** Update File: a\n*** Move to: b", "`b` exists already. Move to a path that is free"),
        ("*** Update File: a\n*** Move to: a", "`a` exists already"),
        ("*** Update File: a\n-x\n+x", "would change nothing in `a`"),
        ("*** Update File: .\n-x\n+x", "`.` is a folder"),
        ("*** Update File: a", "Line 3 of the patch: the update of `a` above has no hunk"),
    ];
    for (sections, says) in table {
        let text = world.refused("apply_patch", patch(sections)).await;
        assert!(text.contains(says), "{sections}: {text}");
    }
    assert_eq!((world.bytes("a"), world.exists("n")), (b"x\n".to_vec(), false));
}

#[tokio::test]
async fn a_hunk_goes_to_its_one_place_or_the_file_stays_as_it_is() {
    let three = "def a():\n    return 1\n\ndef b():\n    return 1\n\ndef c():\n    return 1\n";
    let inside = three.replace("def b():\n", "def b():\n    new()\n");
    let literal = "-    return 1\n+    ^[sv]d[a-z]$' $& $$ $1 $<n> $` \\1 \\g<0> \\n %s {0} ${HOME}";
    let literally = three.replacen("    return 1", &literal[literal.find('+').unwrap() + 1..], 1);
    let placed = [
        (three, "@@ def b\n+    new()", inside.as_str()),
        (three, &format!("@@\n def a():\n{literal}"), &literally),
        ("a  \nb  \nc\n", "-a\n-b\n+x", "x\nc\n"),
    ];
    for (before, hunks, after) in placed {
        let world = world_of(&[("f", before)]).await;
        world.ok("apply_patch", patch(&format!("*** Update File: f\n{hunks}"))).await;
        assert_eq!(String::from_utf8(world.bytes("f")).unwrap(), after, "{hunks}");
    }
    let refused = [
        (three, "@@ def d\n+    new()", "hunk 1 (line 3 of the patch): no line is `def d`"),
        ("foo   bar baz\n", "-foo bar\n+Q", "do not stand in the file"),
        (three, "@@\n def a():\n-    return 1\n+    return 2\n@@\n-    return 1\n \n def b():", "overlaps hunk 1"),
        (three, "@@\n-    return 1\n+    return 2", "its lines stand at 3 places, at lines 2, 5, 8"),
        (three, "@@\n-def a():\n+def z():\n@@\n+lost", "hunk 2"),
    ];
    for (before, hunks, says) in refused {
        let world = world_of(&[("f", before)]).await;
        let text = world.refused("apply_patch", patch(&format!("*** Update File: f\n{hunks}"))).await;
        assert!(text.contains(says), "{hunks}: {text}");
        assert_eq!(world.bytes("f"), before.as_bytes(), "{hunks}");
    }
}

#[tokio::test]
async fn only_a_file_that_was_read_and_did_not_change_since_is_changed_moved_or_deleted() {
    let world = World::new();
    world.put("f", "a\n");
    world.put("bin", b"\x7fELF\0");
    let sections = ["*** Update File: f\n-a\n+b", "*** Delete File: f", "*** Update File: f\n*** Move to: g"];
    for sections in sections {
        let text = world.refused("apply_patch", patch(sections)).await;
        assert!(text.contains("was not read in this session"), "{text}");
    }
    world.read("f").await;
    world.put("f", "a\nuser\n");
    for sections in sections {
        let text = world.refused("apply_patch", patch(sections)).await;
        assert!(text.contains("has changed since it was read"), "{text}");
    }
    let text = world.refused("apply_patch", patch("*** Delete File: bin")).await;
    assert!(text.contains("a binary file of 5 bytes"), "{text}");
    assert!(world.exists("f") && world.exists("bin") && !world.exists("g"));
}

#[tokio::test]
async fn every_file_is_shown_to_the_policy_and_a_protected_one_is_never_changed() {
    let world = world_of(&[("f", "a\n"), (PROTECTED, "a\n")]).await;
    for section in [
        format!("*** Update File: {PROTECTED}\n-a\n+b"),
        format!("*** Delete File: {PROTECTED}"),
        format!("*** Update File: tests/../{PROTECTED}\n*** Move to: free"),
    ] {
        let call = world.call("apply_patch", patch(&format!("*** Update File: f\n-a\n+b\n{section}")));
        let examined = world.registry.examine(&call).await;
        assert!(examined.problems.is_empty() && examined.plans.is_empty());
        let mut lands: Vec<&str> = examined.touches.iter().map(|touch| touch.lands.as_str()).collect();
        lands.sort_unstable();
        assert_eq!(lands, ["f", PROTECTED]);
        assert!(examined.touches.iter().all(|touch| touch.access == Access::Write));
        let result = world.registry.run(&call, &|_| {}).await;
        assert_eq!((result.status, result.fired[0].guard), (Status::Failed, Guard::Protected));
    }
    let outside = world.examine("apply_patch", patch("*** Update File: f\n*** Move to: ../g")).await;
    assert_eq!(outside.problems[0].guard, Guard::Jail);
    let moved = world.examine("apply_patch", patch("*** Update File: f\n*** Move to: d/g")).await;
    let lands: Vec<&str> = moved.touches.iter().map(|touch| touch.lands.as_str()).collect();
    assert_eq!(lands, ["d/g", "f"]);
    assert_eq!((world.bytes("f"), world.bytes(PROTECTED)), (b"a\n".to_vec(), b"a\n".to_vec()));
}

#[tokio::test]
async fn a_link_is_followed_for_a_change_and_not_for_a_removal() {
    let world = world_of(&[("docs/real.md", "a\n")]).await;
    std::os::unix::fs::symlink("docs/real.md", world.workspace.root.join("link.md")).unwrap();
    for sections in ["*** Delete File: link.md", "*** Update File: link.md\n*** Move to: other.md"] {
        let text = world.refused("apply_patch", patch(sections)).await;
        assert!(text.contains("`link.md` leads to `docs/real.md`"), "{text}");
    }
    world.ok("apply_patch", patch("*** Update File: link.md\n-a\n+b")).await;
    assert!(world.workspace.root.join("link.md").is_symlink());
    assert_eq!(world.bytes("docs/real.md"), b"b\n");
    let absolute = world.workspace.root.join("./docs/real.md");
    world.ok("apply_patch", patch(&format!("*** Delete File: {}", absolute.display()))).await;
    assert!(!world.exists("docs/real.md"));
}

const FOUR: &str =
    "*** Delete File: gone\n*** Add File: new\n+n\n*** Update File: a\n-a\n+A\n*** Update File: b\n-b\n+B";

#[tokio::test]
async fn a_failure_in_the_middle_puts_back_what_was_written() {
    for sealed in ["b", "gone"] {
        let world = world_of(&[("a", "a\n"), ("b", "b\n"), ("gone", "g\n")]).await;
        world.workspace.sealed.lock().unwrap().insert(sealed, 0);
        let result = world.run("apply_patch", patch(FOUR)).await;
        assert_eq!(result.status, Status::Failed);
        let says = format!("`{sealed}`: it is read-only. So nothing was changed: what had been written");
        assert!(result.text().contains(&says), "{}", result.text());
        assert!(result.changes.is_empty() && result.data.is_null());
        assert_eq!((world.bytes("a"), world.bytes("b")), (b"a\n".to_vec(), b"b\n".to_vec()));
        assert!(world.exists("gone") && !world.exists("new"));
        // The model still knows what is there.
        world.workspace.sealed.lock().unwrap().clear();
        world.ok("apply_patch", patch(FOUR)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_put_back_is_told_and_counts_as_changed() {
    let world = world_of(&[("a", "a\n"), ("b", "b\n"), ("gone", "g\n")]).await;
    world.workspace.sealed.lock().unwrap().extend([("a", 1), ("gone", 0)]);
    let result = world.run("apply_patch", patch(FOUR)).await;
    assert_eq!(result.status, Status::Failed);
    let says = "was put back, except: `a` could not be put back and is as the call left it: `a`: it is read-only.";
    assert!(result.text().contains(says), "{}", result.text());
    let changed: Vec<&str> = result.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(changed, ["a"]);
    assert_eq!((world.bytes("a"), world.bytes("b")), (b"A\n".to_vec(), b"b\n".to_vec()));
}

#[tokio::test]
async fn a_change_by_someone_else_in_the_middle_of_the_run_is_not_overwritten() {
    let world = world_of(&[("a", "a\n")]).await;
    for sections in ["*** Update File: a\n-a\n+b", "*** Delete File: a"] {
        world.put("a", "a\n");
        *world.workspace.intruder.lock().unwrap() = Some("user\n");
        let result = world.run("apply_patch", patch(sections)).await;
        assert_eq!(result.status, Status::Failed);
        assert!(result.text().contains("has changed since it was read"), "{}", result.text());
        assert_eq!(world.bytes("a"), b"user\n");
    }
}

#[tokio::test]
async fn a_patch_in_doubt_is_told_by_the_digests_of_all_its_files() {
    let world = world_of(&[("a", "a\n"), ("b", "b\n"), ("gone", "g\n")]).await;
    world.workspace.observe().unwrap();
    let call = world.call("apply_patch", patch(FOUR));
    let examined = world.registry.examine(&call).await;
    assert_eq!((examined.class, examined.plans.len()), (EffectClass::Reconcilable, 4));
    assert_eq!(world.registry.probe(&call, &examined).await, Probe::DidNotHappen);

    world.put("new", "n\n");
    world.put("b", "user\n");
    let Probe::Settled(result) = world.registry.probe(&call, &examined).await else { panic!("a part happened") };
    assert_eq!(result.status, Status::InDoubt);
    for says in [
        "`new` is as the call would have left it. `a` is as it was before the call. `b` is neither as it was",
        "`gone` is as it was before the call.",
    ] {
        assert!(result.text().contains(says), "{}", result.text());
    }

    world.put("a", "A\n");
    world.put("b", "B\n");
    fs::remove_file(world.workspace.root.join("gone")).unwrap();
    let Probe::Settled(result) = world.registry.probe(&call, &examined).await else { panic!("it happened") };
    assert_eq!((result.status, result.changes.len()), (Status::Ok, 4), "{}", result.text());
    world.ok("apply_patch", patch("*** Update File: a\n-A\n+c")).await;
}

#[tokio::test]
async fn a_large_patch_shows_a_bounded_part_of_what_it_changed() {
    let world = World::new();
    let mut sections = String::new();
    for n in 0..40 {
        let path = format!("f{n}");
        world.put(&path, format!("old\n{}\n", "x".repeat(190)).repeat(1) + &format!("{}\n", "y".repeat(190)));
        world.read(&path).await;
        sections.push_str(&format!("*** Update File: {path}\n-old\n+new\n"));
    }
    let text = world.ok("apply_patch", patch(sections.trim_end())).await.text();
    assert!(text.len() < 16_000, "{}", text.len());
    assert!(text.contains("Updated `f39` (1 hunk)."), "{text}");
}
