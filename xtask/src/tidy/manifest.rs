//! Who may import whom, and which crates may not come in at all.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::{Failure, line_of};

/// What a crate of the house may import of the house.
struct Row {
    /// The folder beneath `crates`.
    name: &'static str,
    /// The crates it may depend on.
    imports: &'static [&'static str],
    /// The crates that its tests may use beside those.
    in_tests: &'static [&'static str],
}

const fn row(name: &'static str, imports: &'static [&'static str]) -> Row {
    Row { name, imports, in_tests: &[] }
}

const ALL_RINGS: &[&str] = &["protocol", "model", "tool", "policy", "sandbox", "session", "context", "agent", "verify"];

/// The architecture, as arrows. Siblings meet in `protocol` only.
const MAY_IMPORT: &[Row] = &[
    row("protocol", &[]),
    row("model", &["protocol"]),
    // The tools are tested in the real sandbox as well, for what a shell can do no double does.
    Row { name: "tool", imports: &["protocol"], in_tests: &["sandbox"] },
    row("policy", &["protocol"]),
    row("sandbox", &["protocol"]),
    row("session", &["protocol"]),
    row("context", &["protocol"]),
    // The loop is tested against the scripted model and the journal in memory: real doubles that live in their rings.
    Row { name: "agent", imports: &["protocol", "policy", "context"], in_tests: &["model", "session"] },
    row("verify", &["protocol"]),
    row("hames", ALL_RINGS),
    row("cli", &["hames", "protocol", "model", "tool", "policy", "sandbox", "session", "context", "agent", "verify"]),
];

/// The crates that must stay pure: the compiler proves it as long as nothing impure is in their manifests.
pub(super) const PURE: &[&str] = &["policy", "context"];

/// The beginnings of the names of crates that bring async, I/O or a clock.
const IMPURE: &[&str] = &[
    "async-", "chrono", "fs-err", "futures", "hyper", "ignore", "jiff", "libc", "mio", "nix", "reqwest", "rustix",
    "smol", "socket2", "tempfile", "time", "tokio", "walkdir",
];

/// Packages that may not be in the lock file, with the reason.
const BANNED: &[(&str, &str)] = &[
    ("aws-lc-sys", "it takes six times as long to compile as ring"),
    ("openssl-sys", "it needs the system's OpenSSL, and TLS is rustls with ring"),
];

/// Checks the manifest of the crate in the folder `name`.
pub(super) fn check(name: &str, file: &str, text: &str) -> anyhow::Result<Vec<Failure>> {
    let manifest: Table = text.parse()?;
    let mut failures = Vec::new();
    let package = package_of(name);
    let stated = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    if stated != Some(package.as_str()) {
        let line = line_of(text, |line| line.starts_with("name"));
        failures.push(Failure::new(file, line, format!("The package of this folder is named `{package}`: rename it.")));
    }
    let Some(row) = MAY_IMPORT.iter().find(|row| row.name == name) else {
        let text =
            format!("`{name}` is not in the table of who may import whom: add it to xtask/src/tidy/manifest.rs.");
        failures.push(Failure::new(file, 1, text));
        return Ok(failures);
    };
    for (kind, dependency) in dependencies(&manifest) {
        let line = line_of(text, |line| line.split(['.', ' ', '=']).next() == Some(dependency.as_str()));
        if let Some(imported) = ring_of(&dependency) {
            let in_tests = if kind == "dev-dependencies" { row.in_tests } else { &[] };
            if !row.imports.contains(&imported) && !in_tests.contains(&imported) {
                let text = format!("`{name}` may not import `{imported}`: let them meet in `protocol`, or in `hames`.");
                failures.push(Failure::new(file, line, text));
            }
        }
        let impure = IMPURE.iter().any(|start| dependency.starts_with(start));
        if kind != "dev-dependencies" && PURE.contains(&name) && impure {
            let text = format!("`{name}` is pure and may not depend on `{dependency}`: give it the values it needs.");
            failures.push(Failure::new(file, line, text));
        }
    }
    Ok(failures)
}

/// Checks that the table names no crate that is gone.
pub(super) fn check_table(crates: &BTreeSet<String>) -> Vec<Failure> {
    let gone = MAY_IMPORT.iter().filter(|row| !crates.contains(row.name));
    gone.map(|row| {
        let text = format!("The table names `{}`, which is not in `crates`: remove its row.", row.name);
        Failure::new("xtask/src/tidy/manifest.rs", 1, text)
    })
    .collect()
}

/// Checks the lock file for packages that may not come in, not even through others.
pub(super) fn check_lock(text: &str) -> anyhow::Result<Vec<Failure>> {
    let lock: Table = text.parse()?;
    let packages = lock.get("package").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package.get("name")?.as_str()).collect();
    let banned = BANNED.iter().filter(|(name, _)| names.contains(name));
    Ok(banned
        .map(|(name, why)| {
            let line = line_of(text, |line| line == format!("name = \"{name}\""));
            let remedy = format!("find who brings it with `cargo tree -i {name}` and switch that feature off");
            Failure::new("Cargo.lock", line, format!("`{name}` may not be a dependency, for {why}: {remedy}."))
        })
        .collect())
}

/// Every dependency of a manifest with the kind of its table, those for one platform included.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables =
        std::iter::once(manifest).chain(platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    let mut found = Vec::new();
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            found.extend(entries.map(|(key, value)| {
                // A renamed dependency is what its `package` says.
                (kind, value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned())
            }));
        }
    }
    found
}

fn package_of(name: &str) -> String {
    if name == "hames" { name.to_owned() } else { format!("hames-{name}") }
}

/// The folder of a package of the house; none for a package from outside.
fn ring_of(package: &str) -> Option<&str> {
    if package == "hames" { Some(package) } else { package.strip_prefix("hames-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(name: &str, dependencies: &str, wanted: &[&str]) {
        let text = format!("[package]\nname = \"{}\"\n{dependencies}", package_of(name));
        let failures: Vec<_> = check(name, "Cargo.toml", &text).unwrap().iter().map(Failure::to_string).collect();
        assert_eq!(failures, wanted);
    }

    #[test]
    fn siblings_may_not_import_each_other() {
        check_one("tool", "[dependencies]\nhames-protocol.workspace = true\nserde = \"1\"\n", &[]);
        let refusal = "`tool` may not import `sandbox`: let them meet in `protocol`, or in `hames`.";
        let dotted = "[dependencies]\nhames-sandbox.workspace = true\n";
        check_one("tool", dotted, &[&format!("Cargo.toml:4: {refusal}")]);
        let in_tests = "[dev-dependencies]\nhames-sandbox = { path = \"../sandbox\" }\n";
        check_one("tool", in_tests, &[]);
        let elsewhere = "Cargo.toml:4: `session` may not import `sandbox`: let them meet in `protocol`, or in `hames`.";
        check_one("session", in_tests, &[elsewhere]);
        let renamed = "[dependencies.jail]\npackage = \"hames-sandbox\"\n";
        check_one("tool", renamed, &[&format!("Cargo.toml:1: {refusal}")]);
        let for_linux = "[target.'cfg(unix)'.dependencies]\nhames-sandbox.workspace = true\n";
        check_one("tool", for_linux, &[&format!("Cargo.toml:4: {refusal}")]);
    }

    #[test]
    fn the_loop_may_use_real_doubles_in_its_tests_only() {
        check_one("agent", "[dev-dependencies]\nhames-model.workspace = true\n", &[]);
        let refusal = "Cargo.toml:4: `agent` may not import `model`: let them meet in `protocol`, or in `hames`.";
        check_one("agent", "[dependencies]\nhames-model.workspace = true\n", &[refusal]);
    }

    #[test]
    fn pure_crates_have_no_async_io_or_clock() {
        let refusal =
            "Cargo.toml:4: `policy` is pure and may not depend on `futures-core`: give it the values it needs.";
        check_one("policy", "[dependencies]\nfutures-core = \"0.3\"\n", &[refusal]);
        check_one("session", "[dependencies]\nfutures-core = \"0.3\"\n", &[]);
    }

    #[test]
    fn every_crate_is_in_the_table_and_named_after_its_folder() {
        let failures = check("extra", "Cargo.toml", "[package]\nname = \"other\"\n").unwrap();
        assert!(failures[0].text.contains("named `hames-extra`"), "{failures:?}");
        assert!(failures[1].text.contains("not in the table"), "{failures:?}");
        let all = MAY_IMPORT.iter().map(|row| row.name.to_owned()).collect();
        assert!(check_table(&all).is_empty());
        assert_eq!(check_table(&BTreeSet::new()).len(), MAY_IMPORT.len());
    }

    #[test]
    fn banned_packages_are_found_in_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"aws-lc-sys\"\nversion = \"0.1.0\"\n";
        let failures = check_lock(lock).unwrap();
        assert_eq!((failures.len(), failures[0].line), (1, 4));
        assert!(failures[0].text.contains("cargo tree -i aws-lc-sys"), "{failures:?}");
        assert!(check_lock("[[package]]\nname = \"ring\"\n").unwrap().is_empty());
    }
}
