//! Hunks and files in, bytes out; and the property that a generated diff gives the text that it was made of.

use proptest::prelude::*;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::*;
use crate::patch::{Section, parse};

fn patched(file: &[u8], hunks: &str) -> Result<Vec<u8>, Vec<String>> {
    let patch = format!("*** Begin Patch\n*** Update File: f\n{hunks}\n*** End Patch");
    let sections = parse(&patch).unwrap();
    let [Section::Update { hunks, .. }] = sections.as_slice() else { panic!("{sections:?}") };
    let patched = apply(file, hunks)?;
    for place in &patched.places {
        assert!(patched.bytes.get(place.clone()).is_some());
    }
    Ok(patched.bytes)
}

fn check(file: &str, hunks: &str, after: &str) {
    let bytes = patched(file.as_bytes(), hunks).unwrap_or_else(|faults| panic!("{hunks:?} in {file:?}: {faults:?}"));
    assert_eq!(String::from_utf8(bytes).unwrap(), after, "{hunks:?} in {file:?}");
}

fn check_refused(file: &str, hunks: &str, says: &[&str]) {
    let faults = patched(file.as_bytes(), hunks).unwrap_err();
    assert_eq!(faults.len(), says.len(), "{faults:?}");
    for (fault, says) in faults.iter().zip(says) {
        assert!(fault.contains(says), "{hunks:?} in {file:?} says {fault:?}, not {says:?}");
    }
}

const THREE: &str = "def a():\n    return 1\n\ndef b():\n    return 1\n\ndef c():\n    return 1\n";

#[test]
fn a_header_names_where_lines_are_added() {
    let inserted = THREE.replace("def b():\n", "def b():\n    new()\n");
    check(THREE, "@@ def b\n+    new()", &inserted);
    check(THREE, "@@ def b():\n+    new()", &inserted);
    check_refused(THREE, "@@ def d\n+    new()", &["hunk 1 (line 3 of the patch): no line is `def d`"]);
    check_refused("x\nx\n", "@@ x\n+y", &["the line that its `@@` names stands 2 times, at lines 1, 2"]);
    check_refused(THREE, "@@\n+new()", &["only adds lines and does not say where"]);
    // `def b` is no beginning of another word.
    check_refused("def bad():\n", "@@ def b\n+x", &["no line is `def b`"]);
}

#[test]
fn a_header_chooses_among_equal_lines_by_the_block_that_it_begins() {
    let after = "def a():\n    return 1\n\ndef b():\n    return 2\n\ndef c():\n    return 1\n";
    check(THREE, "@@ def b():\n-    return 1\n+    return 2", after);
    check(THREE, "@@\n def b():\n-    return 1\n+    return 2", after);
    let rust = "fn a() {\n    1\n}\nfn b()\n{\n    1\n}\nfn c() {\n    1\n}\n";
    check(rust, "@@ fn b()\n-    1\n+    2\n }", &rust.replace("{\n    1\n}\nfn c", "{\n    2\n}\nfn c"));
    let nested = "class A:\n  def m(self):\n    x\n  def n(self):\n    x\nclass B:\n  def m(self):\n    x\n";
    check(nested, "@@ class B\n@@ def m(self):\n-    x\n+    y", &format!("{}    y\n", &nested[..nested.len() - 6]));
    check(nested, "@@ class A\n@@ def m(self):\n-    x\n+    y", &nested.replacen("    x", "    y", 1));
    // Above the first `class B` the lines do not count.
    check_refused(nested, "@@ class B\n   def n(self):\n-    x", &["above the line that its `@@` names"]);
}

#[test]
fn what_has_no_place_or_several_is_refused_by_name() {
    check_refused(THREE, "@@\n-    return 1\n+    return 2", &["its lines stand at 3 places, at lines 2, 5, 8"]);
    check_refused(
        THREE,
        "@@\n-    return 7\n+    return 2",
        &["do not stand in the file like this. The lines most like"],
    );
    check_refused("\tif x:\n", "-    if x:\n+    if y:", &["only in white space"]);
    check_refused("foo   bar baz\n", "-foo bar\n+Q", &["do not stand in the file"]);
    check_refused("a\na\na\n", "-a\n-a\n+b", &["2 places, at lines 1, 2"]);
    let two = "@@\n-def a():\n+x\n@@\n-nothing\n+y";
    check_refused(THREE, two, &["hunk 2 (line 6 of the patch): its lines do not"]);
    check_refused("", "-a\n+b", &["do not stand"]);
}

#[test]
fn hunks_that_overlap_are_refused() {
    let overlap = "@@\n a\n-b\n+B\n@@\n-b\n c\n+d";
    check_refused("a\nb\nc\n", overlap, &["hunk 2 (line 7 of the patch): it overlaps hunk 1 (line 3 of the patch)"]);
    check_refused("a\nb\n", "@@ a\n+x\n@@ a\n+y", &["overlaps hunk 1"]);
    check_refused("a\nb\nc\n", "@@\n a\n-b\n c\n@@ b\n+x", &["hunk 2"]);
    // Side by side is no overlap, and the order of the hunks does not matter.
    check("a\nb\nc\nd\n", "@@\n c\n-d\n+D\n@@\n-a\n+A\n b\n@@ b\n+x", "A\nb\nx\nc\nD\n");
}

#[test]
fn the_end_of_the_file_is_named_or_not_used() {
    check("a\nb\na\n", "@@\n-a\n+z\n*** End of File", "a\nb\nz\n");
    check("a\n", "@@\n+b\n*** End of File", "a\nb\n");
    check_refused("a\nb\n", "@@\n-a\n*** End of File", &["stand at line 1, not at the end of the file"]);
    check("", "@@\n+b", "b\n");
}

#[test]
fn line_ends_are_those_of_the_place() {
    check("one\r\ntwo\r\nthree\r\n", " one\n-two\n+TWO\n+extra\n three", "one\r\nTWO\r\nextra\r\nthree\r\n");
    check("a\nb\r\nc\n", "-b\n+B", "a\nB\r\nc\n");
    check("a\nb\r\nc\n", " b\n+x", "a\nb\r\nx\r\nc\n");
    check("a\r\nb\r\n", "@@ a\n+x", "a\r\nx\r\nb\r\n");
    check("a\r\nb\r\n", "+x\n a", "x\r\na\r\nb\r\n");
    check("\u{feff}a\nb\n", "-a\n+A", "\u{feff}A\nb\n");
    check("\u{feff}a\nb\n", "-a", "\u{feff}b\n");
}

#[test]
fn a_file_without_a_final_line_end_stays_one() {
    check("a\nb", "-b\n+B", "a\nB");
    check("a\nb", " b\n+c", "a\nb\nc");
    check("a\r\nb", " b\n+c", "a\r\nb\r\nc");
    check("a\nb", " a\n-b", "a");
    check("a", "-a", "");
    check("a\nb\n", "-b\n+B", "a\nB\n");
}

#[test]
fn white_space_at_line_ends_is_the_only_leniency_and_stays_in_the_file() {
    check("a  \nb\t\nc\n", " a\n-b\n+B\n c", "a  \nB\nc\n");
    check("a\nb\nc\n", " a  \n-b\n+B  \n c", "a\nB  \nc\n");
    check("a\n\n\nb\nc\n", " b\n-c\n+C", "a\n\n\nb\nC\n");
    // What stands exactly goes before what stands loosely.
    check("a  \na\n", "-a\n+b", "a  \nb\n");
    check_refused("  a\n", "-a\n+b", &["only in white space"]);
    // A following line is not glued on when the new text ends without a line end of its own.
    check("a  \nb  \nc\n", "-a\n-b\n+x", "x\nc\n");
}

#[test]
fn bytes_of_another_encoding_stay() {
    let after = patched(b"// \xA9 2020\r\nint x=1;\r\ncaf\xE9\r\n", "-int x=1;\n+int x=2;").unwrap();
    assert_eq!(after, b"// \xA9 2020\r\nint x=2;\r\ncaf\xE9\r\n");
    let literal = "cost $& and $$ \\1 \\g<0> %s {0} ${HOME}";
    check("AAA\nX\nBBB\n", &format!("-X\n+{literal}"), &format!("AAA\n{literal}\nBBB\n"));
}

#[test]
fn many_equal_lines_are_searched_in_linear_time() {
    let file = "x\n".repeat(200_000);
    let hunks = format!("{}+y", "-x\n".repeat(100_000));
    check_refused(&file, &hunks, &["its lines stand at 200 places"]);
}

/// The difference of two texts as hunks with `context` kept lines around each.
fn diff(before: &str, after: &str, context: usize) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut hunks = String::new();
    for group in diff.grouped_ops(context) {
        hunks.push_str("@@\n");
        for change in group.iter().flat_map(|op: &DiffOp| diff.iter_changes(op)) {
            hunks.push(match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            });
            hunks.push_str(change.value());
        }
        let at_end = group.last().is_some_and(|op| op.old_range().end == diff.old_len());
        if at_end {
            hunks.push_str("*** End of File\n");
        }
    }
    hunks.trim_end_matches('\n').to_owned()
}

proptest! {
    #[test]
    fn a_generated_diff_gives_the_second_text_exactly(
        before in proptest::collection::vec("[ab \t}]{0,3}", 1..12),
        after in proptest::collection::vec("[ab \t}]{0,3}", 1..12),
        crlf in any::<bool>(),
        open in any::<bool>(),
        mark in any::<bool>(),
        context in 0_usize..20,
    ) {
        let joined = |lines: &[String]| lines.join("\n") + "\n";
        let (plain_before, plain_after) = (joined(&before), joined(&after));
        prop_assume!(plain_before != plain_after);
        let hunks = diff(&plain_before, &plain_after, context);
        let as_file = |text: &str| {
            let text = if open { text.strip_suffix('\n').unwrap() } else { text };
            let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
            if mark { format!("\u{feff}{text}") } else { text }
        };
        // One line without an end does not tell which line ends its file has.
        prop_assume!(!open || !crlf || before.len() > 1);
        // The last line of a file that ends without a line end cannot be an empty one.
        prop_assume!(!open || (before.last().unwrap() != "" && after.last().unwrap() != ""));
        match patched(as_file(&plain_before).as_bytes(), &hunks) {
            Ok(bytes) => prop_assert_eq!(String::from_utf8(bytes).unwrap(), as_file(&plain_after)),
            // With all lines as context nothing can be in doubt.
            Err(faults) => prop_assert!(context < 12, "{:?}", faults),
        }
    }

    #[test]
    fn lines_outside_the_hunk_never_change(
        before in proptest::collection::vec(any::<u8>(), 0..40),
        after in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let file = [before.as_slice(), b"\n<old>\r\n", after.as_slice()].concat();
        if let Ok(bytes) = patched(&file, "-<old>\n+<new>") {
            prop_assert_eq!(bytes, [before.as_slice(), b"\n<new>\r\n", after.as_slice()].concat());
        }
    }
}
