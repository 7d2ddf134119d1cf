//! The map and the front page: there, short, complete, and true about the tests they cite.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::Failure;

/// The length that the map may not reach, in lines.
const MAP_CEILING: usize = 200;

/// A backticked word in snake case with this many underscores or more cites a test by its name.
const CITATION_UNDERSCORES: usize = 4;

/// Checks the documents of the workspace; `tests` are the names of all its tests.
pub(super) fn check(root: &Path, crates: &BTreeSet<String>, tests: &BTreeSet<String>) -> anyhow::Result<Vec<Failure>> {
    let mut failures = Vec::new();
    for file in ["README.md", "ARCHITECTURE.md"] {
        let path = root.join(file);
        if !path.is_file() {
            failures.push(Failure::new(file, 1, "The file is missing: write it."));
            continue;
        }
        let text = fs::read_to_string(path)?;
        failures.extend(check_citations(file, &text, tests));
        if file == "ARCHITECTURE.md" {
            failures.extend(check_map(file, &text, crates));
        }
    }
    Ok(failures)
}

fn check_map(file: &str, text: &str, crates: &BTreeSet<String>) -> Vec<Failure> {
    let mut failures = Vec::new();
    let lines = text.lines().count();
    if lines >= MAP_CEILING {
        let text =
            format!("The map has {lines} lines and must stay under {MAP_CEILING}: leave out what the code says.");
        failures.push(Failure::new(file, lines, text));
    }
    for name in crates {
        let named = [format!("`{name}`"), format!("crates/{name}`"), format!("crates/{name}/")];
        if !named.iter().any(|form| text.contains(form)) {
            failures.push(Failure::new(
                file,
                1,
                format!("The map does not name the crate `{name}`: say what it owns."),
            ));
        }
    }
    failures
}

fn check_citations(file: &str, text: &str, tests: &BTreeSet<String>) -> Vec<Failure> {
    let mut failures = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Backticks pair up: what lies between them is every second piece. A path to the test may stand before its name.
        for quoted in line.split('`').skip(1).step_by(2) {
            let name = quoted.rsplit("::").next().unwrap_or(quoted);
            if is_citation(name) && !tests.contains(name) {
                let text = format!("The test `{name}` does not exist: name one that does, or write it.");
                failures.push(Failure::new(file, index + 1, text));
            }
        }
    }
    failures
}

fn is_citation(name: &str) -> bool {
    let snake = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    snake && name.matches('_').count() >= CITATION_UNDERSCORES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_cited_test_must_exist() {
        let tests = set(&["a_torn_line_is_cut_once"]);
        let text =
            "Held by `a_torn_line_is_cut_once`, `writers::a_torn_line_is_cut_once`, `max_time_ms`, `A_B_C_D_E`.\n";
        assert_eq!(check_citations("README.md", text, &tests), []);
        let failures = check_citations("README.md", "\nHeld by `x`, `it::a_torn_line_is_cut_twice`.\n", &tests);
        let text = "The test `a_torn_line_is_cut_twice` does not exist: name one that does, or write it.";
        assert_eq!(failures, [Failure::new("README.md", 2, text)]);
    }

    #[test]
    fn the_map_is_short_and_names_every_crate() {
        let crates = set(&["agent", "session"]);
        assert_eq!(check_map("ARCHITECTURE.md", "`agent` and `crates/session`", &crates), []);
        let failures = check_map("ARCHITECTURE.md", &"agents\n".repeat(200), &crates);
        let texts: Vec<_> = failures.iter().map(|failure| failure.text.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].contains("200 lines") && texts[1].contains("`agent`") && texts[2].contains("`session`"));
    }

    #[test]
    fn missing_documents_are_told() {
        let folder = tempfile::TempDir::new().unwrap();
        let failures = check(folder.path(), &set(&[]), &set(&[])).unwrap();
        let files: Vec<_> = failures.iter().map(|failure| failure.file.as_str()).collect();
        assert_eq!(files, ["README.md", "ARCHITECTURE.md"]);
    }
}
