//! AGENTS.md and CLAUDE.md as a run tells them: from the repository's root to the workspace at once, deeper ones when
//! they matter.

use std::fs;

use crate::place::Place;

fn put(place: &Place, path: &str, text: impl AsRef<[u8]>) {
    let path = place.work().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn started_in_a_subfolder_a_run_tells_all_from_the_repositorys_root_and_names_deeper_ones_on_the_way() {
    let place = Place::empty();
    fs::create_dir(place.work().join(".git")).unwrap();
    put(&place, "AGENTS.md", "ROOT-RULES");
    put(&place, "CLAUDE.md", "NEVER-TOLD");
    put(&place, "pkg/CLAUDE.md", b"PKG-RULES caf\xe9");
    put(&place, "pkg/app/AGENTS.md", "x".repeat(40_000));
    put(&place, "pkg/app/deep/AGENTS.md", "DEEP-RULES");
    put(&place, "pkg/app/deep/f.txt", "f");
    let model = place.script("- calls: [{tool: read_file, args: {path: deep/f.txt}}]\n- text: ok\n");
    let ran = place.run(["run", "--model", &model, "-C", "pkg/app", "go"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for says in ["pkg/app/AGENTS.md is left out", "40000 bytes", "pkg/CLAUDE.md is not valid UTF-8"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.stderr);
    }
    let log = serde_json::to_string(&place.log()).unwrap();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at("ROOT-RULES") < at("PKG-RULES") && at("PKG-RULES") < at("`pkg/app/AGENTS.md` was left out"));
    assert!(at("`pkg/app/AGENTS.md` was left out") < at("[`deep/AGENTS.md` says how to work"));
    assert!(!log.contains("NEVER-TOLD") && !log.contains("DEEP-RULES") && !log.contains("xxxx"));
}

#[test]
fn an_added_folder_has_its_own_instructions_named() {
    let place = Place::empty();
    let lib = place.beside("lib");
    fs::create_dir(&lib).unwrap();
    fs::write(lib.join("AGENTS.md"), "LIB-RULES").unwrap();
    fs::write(lib.join("f.txt"), "f").unwrap();
    let lib = lib.to_str().unwrap();
    let model = place.script(&format!("- calls: [{{tool: read_file, args: {{path: {lib}/f.txt}}}}]\n- text: ok\n"));
    assert_eq!(place.run(["run", "--model", &model, "--add-dir", lib, "go"]).code, 0);
    let log = serde_json::to_string(&place.log()).unwrap();
    assert!(log.contains(&format!("[`{lib}/AGENTS.md` says how to work")) && !log.contains("LIB-RULES"), "{log}");
}
