//! `read_file`, `list_files` and `search`.

use hames_protocol::*;
use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn lines_are_numbered_and_line_ends_named() {
    let world = World::new();
    world.put("a.txt", "one\ntwo");
    assert_eq!(world.read("a.txt").await, "     1\tone\n     2\ttwo\n");
    world.put("b.txt", "\u{feff}one\r\ntwo\r\n");
    assert_eq!(
        world.read("b.txt").await,
        "     1\tone\n     2\ttwo\n\n[The file has CRLF line ends; edits keep them.]"
    );
    world.put("e.txt", "");
    assert_eq!(world.read("e.txt").await, "`e.txt` is empty.");
    world.put("l.txt", b"caf\xE9\n");
    assert!(world.read("l.txt").await.contains("The file is not UTF-8"));
}

#[tokio::test]
async fn a_long_file_is_paged() {
    let world = World::new();
    world.put("a.txt", (1..=2_500).map(|n| format!("{n}\n")).collect::<String>());
    let text = world.read("a.txt").await;
    assert!(text.contains("  2000\t2000\n\n[Lines 1 to 2000 of 2,500. Go on with offset 2001.]"), "{text}");
    let text = world.ok("read_file", json!({"path": "a.txt", "offset": 2_499, "limit": 9})).await.text();
    assert_eq!(text, "  2499\t2499\n  2500\t2500\n\n[Lines 2499 to 2500 of 2,500.]");
    let result = world.run("read_file", json!({"path": "a.txt", "offset": 2_501})).await;
    assert_eq!(result.status, Status::Failed);
    assert_eq!(result.text(), "`a.txt` has 2,500 lines; there is nothing at offset 2501.");
}

#[tokio::test]
async fn a_result_is_at_most_thirty_thousand_bytes_and_says_how_to_go_on() {
    let world = World::new();
    world.put("wide.txt", format!("{}\n", "é".repeat(600)).repeat(100));
    let text = world.read("wide.txt").await;
    assert!(text.len() <= 30_000, "{}", text.len());
    assert!(text.contains("[Lines 1 to 24 of 100. Go on with offset 25.]"), "{}", &text[text.len() - 200..]);
    world.put("min.js", "x".repeat(50_000));
    assert!(world.read("min.js").await.contains("x… [48,000 bytes left out]"));
}

#[tokio::test]
async fn what_is_no_text_file_is_named() {
    let world = World::new();
    world.put("d/f", "a");
    world.put("bin", b"\x7fELF\0\0");
    for (path, says) in [("d", "Use `list_files`"), ("bin", "a binary file of 6 bytes"), ("no", "does not exist")] {
        let result = world.run("read_file", json!({"path": path})).await;
        assert_eq!(result.status, Status::Failed);
        assert!(result.text().contains(says), "{}", result.text());
        assert!(result.data.is_null(), "{path} must not count as read");
    }
}

#[tokio::test]
async fn an_image_is_shown_whatever_its_name_is() {
    let world = World::new();
    let gif = b"GIF89a\x03\0\x02\0\0\0\0;";
    world.put("logo.txt", gif);
    let result = world.ok("read_file", json!({"path": "logo.txt"})).await;
    assert_eq!(result.text(), "`logo.txt`: GIF image, 3 × 2 pixels, 14 bytes.");
    let image = Block::Image { media_type: "image/gif".to_owned(), data: "R0lGODlhAwACAAAAADs=".to_owned() };
    assert_eq!(result.blocks[1..], [image]);
    // It was seen, so it may be replaced.
    world.ok("write_file", json!({"path": "logo.txt", "content": "none\n"})).await;
    world.put("cut.png", &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01"[..]);
    let cut = world.run("read_file", json!({"path": "cut.png"})).await;
    assert_eq!((cut.status, cut.data.is_null()), (Status::Failed, true));
    assert!(cut.text().contains("`cut.png` begins like an image, but it is cut or damaged"), "{}", cut.text());
    world.put("notes.md", "GIF89a is a format;\n");
    assert_eq!(world.read("notes.md").await, "     1\tGIF89a is a format;\n");
    // A picture of another kind is a binary file like any other.
    world.put("a.bmp", b"BM\x3a\0\0\0");
    assert!(world.run("read_file", json!({"path": "a.bmp"})).await.text().contains("a binary file of 6 bytes"));
}

#[tokio::test]
async fn a_listing_is_flat_sorted_and_leaves_out_what_is_ignored() {
    let world = World::new();
    for path in ["b.txt", "a/one.rs", "a/deep/er/still/x", ".github/ci.yml", ".git/config", "target/out", "new\nline"] {
        world.put(path, "");
    }
    world.put(".gitignore", "/target\n");
    std::os::unix::fs::symlink("/etc", world.workspace.root.join("etc")).unwrap();
    let text = world.ok("list_files", json!({})).await.text();
    let expected = ".github/\n.github/ci.yml\n.gitignore\na/\na/deep/\na/deep/er/\na/one.rs\nb.txt\netc -> /etc\nnew\\nline\n\
                    [Shown to 3 levels. Give a folder as `path`, or a larger `depth`, to see more.]";
    assert_eq!(text, expected);
    let text = world.ok("list_files", json!({"path": "a/deep", "depth": 1})).await.text();
    assert!(text.starts_with("a/deep/er/\n[Shown to 1 level."), "{text}");
    // Asked for by name, an ignored folder is listed.
    assert_eq!(world.ok("list_files", json!({"path": "target"})).await.text(), "target/out");
    assert_eq!(world.ok("list_files", json!({"path": ".git"})).await.text(), ".git/config");
}

#[tokio::test]
async fn ignore_files_above_the_workspace_do_not_count() {
    let world = World::new();
    world.put("a.txt", "x");
    std::fs::write(world.workspace.root.parent().unwrap().join(".ignore"), "*\n").unwrap();
    assert_eq!(world.ok("list_files", json!({})).await.text(), "a.txt");
}

#[tokio::test]
async fn a_large_listing_is_cut_with_a_count() {
    let world = World::new();
    for n in 0..1_203 {
        world.put(&format!("f{n:04}"), "");
    }
    let text = world.ok("list_files", json!({})).await.text();
    assert_eq!(text.lines().count(), 1_001);
    assert!(text.contains("[203 entries left out."), "{}", &text[text.len() - 100..]);
}

#[tokio::test]
async fn a_search_shows_path_line_and_text() {
    let world = World::new();
    world.put("src/a.rs", "fn total() {}\r\nlet x = total();\r\n");
    world.put("src/b.py", "total = 1\n");
    world.put(".hidden/c.rs", "total\n");
    world.put("target/d.rs", "total\n");
    world.put(".gitignore", "target/\n");
    world.put("bin", b"total\0");
    std::os::unix::fs::symlink("b.py", world.workspace.root.join("src/link.py")).unwrap();
    let text = world.ok("search", json!({"pattern": "total"})).await.text();
    assert_eq!(text, "src/a.rs:1:fn total() {}\nsrc/a.rs:2:let x = total();\nsrc/b.py:1:total = 1");
    for glob in ["*.rs", "src/*.rs", "**/*.rs", "./src/*.rs"] {
        let text = world.ok("search", json!({"pattern": r"\btotal\(\);$", "glob": glob})).await.text();
        assert_eq!(text, "src/a.rs:2:let x = total();", "{glob}");
    }
    let text = world.ok("search", json!({"pattern": "TOTAL"})).await.text();
    assert_eq!(text, "Nothing matches `TOTAL` (3 files searched).");
    for (path, expected) in [(".hidden", ".hidden/c.rs:1:total"), ("target/d.rs", "target/d.rs:1:total")] {
        assert_eq!(world.ok("search", json!({"pattern": "total", "path": path})).await.text(), expected);
    }
}

#[tokio::test]
async fn the_whole_output_of_a_command_can_be_read_and_searched() {
    let world = World::new();
    std::fs::write(world.workspace.tmp.join("outputs/call-9.txt"), "first\nneedle\n").unwrap();
    assert!(world.read("/tmp/outputs/call-9.txt").await.contains("     2\tneedle"));
    for path in ["/tmp/outputs", "/tmp/outputs/call-9.txt"] {
        let text = world.ok("search", json!({"pattern": "needle", "path": path})).await.text();
        assert_eq!(text, "/tmp/outputs/call-9.txt:2:needle");
    }
    assert_eq!(world.ok("list_files", json!({"path": "/tmp/outputs"})).await.text(), "/tmp/outputs/call-9.txt");
}

#[tokio::test]
async fn a_search_is_bounded_and_counts_what_it_leaves_out() {
    let world = World::new();
    world.put("many.txt", "hit\n".repeat(250));
    let text = world.ok("search", json!({"pattern": "hit"})).await.text();
    assert_eq!(text.lines().count(), 201);
    assert!(text.ends_with("[50 matches left out, of 250 in 1 file. Narrow the pattern, `path` or `glob`.]"));
    world.put("many.txt", format!("{}needle{}\n", "é".repeat(5_000), "x".repeat(5_000)));
    let text = world.ok("search", json!({"pattern": "needle"})).await.text();
    assert!(text.contains("needle") && text.len() < 350, "{text}");
    world.put("many.txt", format!("needle {}\n", "y".repeat(290)).repeat(190));
    let text = world.ok("search", json!({"pattern": "needle"})).await.text();
    assert!(text.len() <= 30_000 && text.contains("left out, of 190"), "{}", text.len());
}

#[tokio::test]
async fn anchors_hold_at_every_kind_of_line_end() {
    let world = World::new();
    world.put("crlf", "1\r\n2\r\n");
    world.put("lf", "1\n2\n");
    world.put("mixed", "1\n2\r\n3\n2");
    let text = world.ok("search", json!({"pattern": "^2$"})).await.text();
    assert_eq!(text, "crlf:2:2\nlf:2:2\nmixed:2:2\nmixed:4:2");
}

#[tokio::test]
async fn a_pattern_that_is_no_expression_is_explained_before_anything_runs() {
    let world = World::new();
    let text = world.refused("search", json!({"pattern": "foo("})).await;
    assert!(text.contains("not a valid regular expression: unclosed group"), "{text}");
    assert!(text.contains("put a `\\` before each"), "{text}");
    let text = world.refused("search", json!({"pattern": "a\nb"})).await;
    assert!(text.contains("cannot span lines"), "{text}");
    let text = world.refused("search", json!({"pattern": "a", "glob": "{a"})).await;
    assert!(text.contains("not a valid glob"), "{text}");
}
