//! Reports in JUnit's XML, as many runners write them into a file: `pytest --junitxml`, `gotestsum --junitfile`, Maven's
//! `target/surefire-reports`, `node --test-reporter=junit`.
//!
//! Such a file counts only when it was written while the check ran: one that lay there before says nothing. So the
//! command line that runs the check also prints the files whose inode changed since it began, and they come with its
//! output. When a file was last *modified* can be set by whoever owns it, when its inode changed cannot.

use hames_protocol::Digest;
use roxmltree::{Document, Node};

use super::Report;
use crate::command::{Runner, starts};

/// The most files that are printed, and the most bytes of one.
const MAX_FILES: u32 = 2_000;
const MAX_KIB: u32 = 4_096;

/// The most output that is read of a check that writes such reports, in bytes at either end.
pub(crate) const CAPTURE_BYTES: usize = 16 << 20;

/// Programs that write such reports without being told to.
const WRITERS: [&str; 8] = ["mvn", "mvnw", "gradle", "gradlew", "ant", "sbt", "gotestsum", "bazel"];

/// Whether a check may write reports in XML.
pub(crate) fn may_write(command: &str) -> bool {
    let file_name = |program: &str| program.rsplit('/').next().unwrap_or(program).to_owned();
    command.to_ascii_lowercase().contains("junit")
        || command.contains(".xml")
        || starts(command).iter().any(|start| WRITERS.contains(&file_name(start.program()).as_str()))
}

/// The command line that runs `command` and then prints what it wrote.
pub(crate) fn printing(command: &str) -> String {
    let quoted = command.replace('\'', "'\\''");
    let sign = sign(command);
    format!(
        "hames_began=\"${{TMPDIR:-/tmp}}/hames-began\"; : > \"$hames_began\"; sleep 0.02; ( eval '{quoted}' ); \
         hames_code=$?; find . -name .git -prune -o -name node_modules -prune -o -type f -name '*.xml' \
         -cnewer \"$hames_began\" -size -{MAX_KIB}k -exec grep -lE '<testsuites?[ />]' {{}} + 2>/dev/null \
         | head -n {MAX_FILES} | sort | while IFS= read -r hames_file; do printf '\\n%s\\n' '{sign}'; \
         cat -- \"$hames_file\"; done; exit $hames_code"
    )
}

/// Splits the output of such a command line: what the check printed, and the files that it wrote.
pub(crate) fn split<'a>(command: &str, output: &'a str) -> (&'a str, Vec<&'a str>) {
    let sign = format!("\n{}\n", sign(command));
    let mut parts = output.split(sign.as_str());
    (parts.next().unwrap_or(""), parts.collect())
}

/// The line before each file; no check prints it by accident.
fn sign(command: &str) -> String {
    format!("[hames: a report in XML, {}]", Digest::of(command.as_bytes()).short())
}

/// Adds up what the files say; none when none of them is a report. One that cannot be read speaks for no success.
pub(crate) fn read(files: &[&str]) -> Option<Report> {
    let mut spoke = false;
    let mut sum = Report::empty(Runner::JunitXml);
    for file in files {
        // What the files were cut to is no XML any more, and neither is what a forger left half written.
        let Ok(document) = Document::parse(file.trim()) else { return None };
        let root = document.root_element();
        if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
            continue;
        }
        let (mut ran, mut failed, mut skipped) = (0, 0, 0);
        for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
            let has = |name: &str| case.children().any(|child| child.tag_name().name() == name);
            if has("skipped") {
                skipped += 1;
            } else {
                ran += 1;
                failed += u64::from(has("failure") || has("error"));
            }
        }
        // A suite that could not be set up counts an error without a case.
        failed = failed.max(stated(root));
        sum.ran += ran;
        sum.failed += failed;
        sum.skipped += skipped;
        spoke = true;
    }
    spoke.then_some(sum)
}

/// Failures and errors as the outermost elements that state them do.
fn stated(node: Node<'_, '_>) -> u64 {
    let number = |name: &str| node.attribute(name).and_then(|text| text.parse::<u64>().ok());
    match (number("failures"), number("errors")) {
        (None, None) => node.children().filter(|child| child.has_tag_name("testsuite")).map(stated).sum(),
        (failures, errors) => failures.unwrap_or(0) + errors.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Maven's surefire, pytest and node 20 write them, cut to what matters.
    const SUREFIRE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="3.0" name="shop.PricingTest" time="0.05" tests="3" errors="1" skipped="1" failures="0">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="none" classname="shop.PricingTest" time="0.001"/>
  <testcase name="ten" classname="shop.PricingTest" time="0.002"><error message="x" type="java.lang.Error"><![CDATA[java.lang.Error: x]]></error><system-out><![CDATA[<testcase name="printed"/>]]></system-out></testcase>
  <testcase name="later" classname="shop.PricingTest" time="0"><skipped/></testcase>
</testsuite>
"#;
    const PYTEST: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" skipped="1" tests="3" time="0.034" timestamp="2026-01-01T10:00:00" hostname="vm"><testcase classname="tests.test_a" name="test_a" time="0.000" /><testcase classname="tests.test_a" name="test_b" time="0.000"><failure message="assert 1 == 2">def test_b():
&gt;       assert 1 == 2</failure></testcase><testcase classname="tests.test_a" name="test_c" time="0.000"><skipped type="pytest.skip" message="x">x</skipped></testcase></testsuite></testsuites>"#;
    const NODE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<testsuites>\n\t<testcase name=\"none\" time=\"0.001683\" classname=\"test\"/>\n\t<testsuite name=\"suite\" time=\"0.0004\" disabled=\"0\" errors=\"0\" tests=\"1\" failures=\"0\" skipped=\"0\" hostname=\"vm\">\n\t\t<testcase name=\"inside\" time=\"0.000177\" classname=\"test\"/>\n\t</testsuite>\n\t<!-- tests 2 -->\n</testsuites>\n";

    #[track_caller]
    fn check(files: &[&str], expected: Option<(u64, u64, u64)>) {
        assert_eq!(read(files).map(|one| (one.ran, one.failed, one.skipped)), expected, "{files:?}");
    }

    #[test]
    fn reports_in_xml_are_read_as_runners_write_them() {
        check(&[SUREFIRE], Some((2, 1, 1)));
        check(&[PYTEST], Some((2, 1, 1)));
        check(&[NODE], Some((2, 0, 0)));
        check(&[NODE, SUREFIRE], Some((4, 1, 1)));
        check(&["<testsuite name=\"x\" tests=\"0\" errors=\"1\" failures=\"0\"/>"], Some((0, 1, 0)));
    }

    #[test]
    fn what_is_no_whole_report_shows_nothing() {
        check(&[], None);
        check(&[&SUREFIRE[..400]], None);
        check(&[NODE, "<testsuites>"], None);
    }

    #[test]
    fn checks_that_may_write_reports_are_known() {
        for command in ["pytest -qq --junitxml=out.xml", "./mvnw -q test", "gotestsum ./...", "make JUNIT=1 test"] {
            assert!(may_write(command), "{command}");
        }
        for command in ["pytest -q", "make test", "cargo test"] {
            assert!(!may_write(command), "{command}");
        }
    }
}
