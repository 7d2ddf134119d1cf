//! The user's own tool chains work in the sandbox, offline and without what lies beside them.

use std::path::{Path, PathBuf};

use crate::place::{Place, Ran};

/// A folder that a variable names, else the one in the home folder of whoever runs the tests.
pub(crate) fn folder(variable: &str, default: &str) -> PathBuf {
    let home = || Path::new(&std::env::var_os("HOME").expect("a home")).join(default);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}

#[test]
fn a_rust_crate_is_fixed_and_verified_with_the_users_own_cargo() {
    let place = Place::empty();
    std::fs::create_dir(place.work().join("src")).unwrap();
    let manifest = "[package]\nname = \"sum\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    std::fs::write(place.work().join("Cargo.toml"), manifest).unwrap();
    let source =
        "pub fn sum(a: u32, b: u32) -> u32 {\n    a - b\n}\n\n#[test]\nfn adds() {\n    assert_eq!(sum(2, 1), 3);\n}\n";
    std::fs::write(place.work().join("src/lib.rs"), source).unwrap();
    let model = place.script(
        "- calls: [{tool: read_file, args: {path: src/lib.rs}}, {tool: finish, args: {summary: early}}]\n\
         - calls: [{tool: edit_file, args: {path: src/lib.rs, old_string: a - b, new_string: a + b}}]\n\
         - calls: [{tool: finish, args: {summary: fixed}}]\n",
    );
    let cargo = folder("CARGO_HOME", ".cargo");
    let output = place
        .hames(["run", "--model", &model, "--verify", "cargo test", "--output-format", "json", "Fix the sum."])
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", cargo.join("bin").display()))
        .env("CARGO_HOME", &cargo)
        .env("RUSTUP_HOME", folder("RUSTUP_HOME", ".rustup"))
        .output()
        .unwrap();
    let ran = Ran::of(output);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let result = ran.json();
    assert_eq!(result["verdict"], "pass");
    assert_eq!(result["guards"][0]["guard"], "finish");
    assert_eq!(result["evidence"][0]["kind"]["tests"]["runner"], "cargo test", "{result:#}");
}
