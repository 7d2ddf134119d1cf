//! The rules of the house that the compiler does not check, each failure with its place and its remedy.

mod document;
mod manifest;
mod name;
mod rust;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// One rule that is broken at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failure {
    file: String,
    line: usize,
    text: String,
}

impl Failure {
    fn new(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Checks the workspace at `root` against every rule.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<Failure>> {
    let mut failures = Vec::new();
    let crates = folder_names(&root.join("crates"))?;
    for name in &crates {
        let file = format!("crates/{name}/Cargo.toml");
        failures.extend(manifest::check(name, &file, &read(root, &file)?)?);
    }
    failures.extend(manifest::check_table(&crates));
    failures.extend(manifest::check_lock(&read(root, "Cargo.lock")?)?);

    let mut tests = BTreeSet::new();
    let mut long = BTreeSet::new();
    for file in rust_files(root)? {
        let text = read(root, &file)?;
        let rust = rust::split(&text);
        failures.extend(source::check(&file, &text, &rust));
        failures.extend(name::check(&file, &rust.code));
        tests.extend(source::tests(&rust.code).into_iter().map(str::to_owned));
        if text.lines().count() > source::CEILING {
            long.insert(file);
        }
    }
    failures.extend(source::check_exempt(&long));
    failures.extend(document::check(root, &crates, &tests)?);
    failures.sort();
    Ok(failures)
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("`{file}` cannot be read"))
}

fn folder_names(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("`{}` cannot be listed", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Every Rust file of the workspace, relative to its root.
fn rust_files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("`{}` cannot be listed", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The number of the first line that `wanted` accepts; 1 when none does.
fn line_of(text: &str, wanted: impl Fn(&str) -> bool) -> usize {
    text.lines().position(wanted).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small workspace that breaks a rule of each kind.
    #[test]
    fn a_workspace_is_checked_as_a_whole() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Cargo.lock", "[[package]]\nname = \"openssl-sys\"\n");
        write("crates/policy/Cargo.toml", "[package]\nname = \"hames-policy\"\n[dependencies]\ntokio = \"1\"\n");
        write("crates/policy/src/lib.rs", "//! Rules.\nmod util;\n");
        write("crates/policy/target/skipped.rs", "no doc");
        write("xtask/src/main.rs", "fn main() {}\n");
        write("ARCHITECTURE.md", "`policy`, held by `a_test_that_is_nowhere_found`\n");
        write("README.md", "Hames\n");
        let found: Vec<String> = check(folder.path()).unwrap().iter().map(Failure::to_string).collect();
        let found = found.join("\n");
        for start in [
            "ARCHITECTURE.md:1: The test `a_test_that_is_nowhere_found`",
            "Cargo.lock:2: ",
            "crates/policy/Cargo.toml:4: ",
            "crates/policy/src/lib.rs:2: ",
            "xtask/src/main.rs:1: ",
            "xtask/src/tidy/manifest.rs:1: ",
        ] {
            assert!(found.lines().any(|line| line.starts_with(start)), "{start} is not in:\n{found}");
        }
        assert!(!found.contains("skipped"), "{found}");
    }

    #[test]
    fn a_failure_names_its_place() {
        assert_eq!(Failure::new("a/b.rs", 7, "It is so.").to_string(), "a/b.rs:7: It is so.");
    }
}
