//! What a check runs in turn: the makefile behind `make test`, the scripts in `package.json` behind `npm test`.
//!
//! Who writes these decides what passes, and yet a new dependency or a new source file is written there for good
//! reasons. So they may be changed, and the checks run with them as they were: a makefile whole, of `package.json` the
//! scripts and the settings of test runners.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::addition::Node;
use crate::command::{Language, named_scripts, runners, starts};

/// The parts of `package.json` that say what runs and how.
const KEYS: [&str; 10] = ["scripts", "jest", "vitest", "mocha", "ava", "tap", "babel", "nyc", "c8", "config"];

/// Folders of packages that someone else keeps.
const FOREIGN: [&str; 5] = ["node_modules", "site-packages", ".venv", "venv", "target"];

/// Which files say what `commands` run, of all that lie in the workspace; `read` gives their text.
pub(crate) fn find(
    commands: &[String],
    nodes: &BTreeMap<String, Node>,
    read: impl Fn(&str) -> Option<String>,
) -> BTreeSet<String> {
    let candidates: Vec<&String> = nodes
        .iter()
        .filter(|(path, node)| **node == Node::File && !readers(path).is_empty())
        .map(|(path, _)| path)
        .collect();
    let mut found = BTreeSet::new();
    let mut lines: Vec<String> = commands.to_vec();
    while let Some(line) = lines.pop() {
        let programs = programs(&line);
        let scripts = named_scripts(&line).into_iter().map(|script| script.trim_start_matches("./").to_owned());
        let named = candidates.iter().filter(|path| readers(path).iter().any(|one| programs.contains(*one)));
        for path in scripts.chain(named.map(|path| (*path).clone())) {
            if nodes.get(&path) != Some(&Node::File) || !found.insert(path.clone()) {
                continue;
            }
            // Its own lines run others in turn.
            lines.extend(read(&path).iter().flat_map(|text| commands_of(&path, text)));
        }
    }
    found
}

/// The programs that a line starts, by their names; for a runner of JavaScript, `npx`.
fn programs(line: &str) -> BTreeSet<String> {
    let name = |program: &str| program.rsplit('/').next().unwrap_or(program).to_owned();
    let mut found: BTreeSet<String> = starts(line).iter().map(|start| name(start.program())).collect();
    if runners(line).iter().any(|runner| runner.language() == Some(Language::JavaScript)) {
        found.insert("npx".to_owned());
    }
    found
}

/// The programs that do what a file of this name says.
fn readers(path: &str) -> &'static [&'static str] {
    if path.split('/').any(|part| FOREIGN.contains(&part)) {
        return &[];
    }
    match path.rsplit('/').next().unwrap_or(path) {
        "Makefile" | "makefile" | "GNUmakefile" => &["make", "gmake"],
        "justfile" | "Justfile" | ".justfile" => &["just"],
        "Taskfile.yml" | "Taskfile.yaml" => &["task"],
        "Rakefile" => &["rake"],
        "noxfile.py" => &["nox"],
        "tox.ini" => &["tox"],
        "package.json" => &["npm", "pnpm", "yarn", "npx", "bun"],
        name if name.ends_with(".mk") => &["make", "gmake"],
        _ => &[],
    }
}

/// The command lines in a file: the scripts of `package.json`, the indented lines of a makefile, all of a script.
fn commands_of(path: &str, text: &str) -> Vec<String> {
    if is_manifest(path) {
        let scripts =
            serde_json::from_str::<Value>(text).ok().and_then(|manifest| manifest["scripts"].as_object().cloned());
        return scripts.iter().flat_map(Map::values).filter_map(Value::as_str).map(str::to_owned).collect();
    }
    let recipe = |line: &str| line.trim_start_matches(['\t', ' ', '@', '-', '+']).replace("$(MAKE)", "make");
    text.lines().map(recipe).collect()
}

/// Whether only some of the file is put back.
pub(crate) fn is_manifest(path: &str) -> bool {
    path == "package.json" || path.ends_with("/package.json")
}

/// `now` with what runs and how from `before`; none when that is the same in both. What is no manifest is put back
/// whole.
pub(crate) fn restored(before: &[u8], now: &[u8]) -> Option<Vec<u8>> {
    let parse = |bytes| serde_json::from_slice::<Map<String, Value>>(bytes);
    let (Ok(before_keys), Ok(mut merged)) = (parse(before), parse(now)) else {
        return (before != now).then(|| before.to_owned());
    };
    if KEYS.iter().all(|key| before_keys.get(*key) == merged.get(*key)) {
        return None;
    }
    for key in KEYS {
        match before_keys.get(key) {
            Some(value) => drop(merged.insert(key.to_owned(), value.clone())),
            None => drop(merged.remove(key)),
        }
    }
    serde_json::to_vec_pretty(&merged).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_check_runs_in_turn_is_found() {
        let files = [
            ("Makefile", "test: all\n\t@$(MAKE) -C sub test\n\t./ci/run.sh --all\n"),
            ("sub/Makefile", "test:\n\tnpm test\n"),
            ("ci/run.sh", "#!/bin/sh\nsh ci/more.sh\n"),
            ("ci/more.sh", "true\n"),
            ("ci/unrelated.sh", "true\n"),
            ("web/package.json", "{\"scripts\": {\"test\": \"bash web/check.sh\"}}"),
            ("web/check.sh", ""),
            ("node_modules/a/package.json", "{}"),
            ("justfile", ""),
        ];
        let nodes: BTreeMap<String, Node> = files.iter().map(|(path, _)| ((*path).to_owned(), Node::File)).collect();
        let of = |command: &str| {
            let read = |path: &str| files.iter().find(|file| file.0 == path).map(|file| file.1.to_owned());
            find(&[command.to_owned()], &nodes, read).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("make test"), "Makefile ci/more.sh ci/run.sh sub/Makefile web/check.sh web/package.json");
        assert_eq!(of("npx jest"), "web/check.sh web/package.json");
        assert_eq!(of("just test"), "justfile");
        assert_eq!(of("cargo test && pytest"), "");
    }

    #[test]
    fn of_a_manifest_only_what_runs_is_put_back() {
        let before = br#"{"name": "a", "scripts": {"test": "jest"}}"#;
        let more = br#"{"name": "a", "scripts": {"test": "jest"}, "dependencies": {"b": "1"}}"#;
        assert_eq!(restored(before, more), None);
        let forged = br#"{"name": "b", "scripts": {"test": "echo"}, "jest": {"setupFiles": ["./x.js"]}}"#;
        let merged: Value = serde_json::from_slice(&restored(before, forged).unwrap()).unwrap();
        assert_eq!(merged, serde_json::json!({"name": "b", "scripts": {"test": "jest"}}));
        assert_eq!(restored(before, b"{").unwrap(), before);
    }
}
