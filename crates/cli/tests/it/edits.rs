//! What an edit keeps of a file beside its bytes, through the whole binary: modes, links, nothing half-written.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::place::{Place, Ran};

const FILES: [&str; 6] = ["run.sh", "secret.cfg", "link.md", "h1", "ro.txt", "tool.sh"];

fn place() -> Place {
    let place = Place::empty();
    let work = place.work();
    fs::create_dir(work.join("docs")).unwrap();
    for (path, mode) in [
        ("run.sh", 0o755),
        ("tool.sh", 0o700),
        ("secret.cfg", 0o600),
        ("docs/real.md", 0o644),
        ("h1", 0o644),
        ("ro.txt", 0o444),
    ] {
        fs::write(work.join(path), "one\ntwo\n").unwrap();
        fs::set_permissions(work.join(path), Permissions::from_mode(mode)).unwrap();
    }
    symlink("docs/real.md", work.join("link.md")).unwrap();
    fs::hard_link(work.join("h1"), work.join("h2")).unwrap();
    place
}

/// Runs the binary under this umask.
fn run(place: &Place, umask: &str, model: &str) -> Ran {
    let hames = place.hames(["run", "--output-format", "json", "--model", model, "go"]);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("umask {umask}; exec \"$0\" \"$@\"")).arg(hames.get_program()).args(hames.get_args());
    shell.current_dir(place.work()).env_clear();
    shell.envs(hames.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(shell.stdin(std::process::Stdio::null()).output().unwrap())
}

#[test]
fn modes_and_links_survive_an_edit_and_a_move_under_any_umask() {
    let read = FILES.map(|file| format!("{{tool: read_file, args: {{path: {file}}}}}")).join(", ");
    let edit = FILES
        .map(|file| format!("{{tool: edit_file, args: {{path: {file}, old_string: one, new_string: ONE}}}}"))
        .join(", ");
    let patch =
        "*** Begin Patch\\n*** Update File: run.sh\\n*** Move to: bin/run.sh\\n@@\\n-two\\n+TWO\\n*** End Patch";
    let script = format!(
        "- calls: [{read}]\n- calls: [{edit}, {{tool: apply_patch, args: {{patch: \"{patch}\"}}}}, {{tool: write_file, args: \
         {{path: new.txt, content: x}}}}]\n- text: done\n"
    );
    for (umask, new) in [("077", 0o600), ("000", 0o666)] {
        let place = place();
        let ran = run(&place, umask, &place.script(&script));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let mode = |path: &str| fs::symlink_metadata(place.work().join(path)).unwrap().permissions().mode() & 0o777;
        let modes = ["bin/run.sh", "tool.sh", "secret.cfg", "docs/real.md", "ro.txt", "new.txt"].map(mode);
        assert_eq!(modes, [0o755, 0o700, 0o600, 0o644, 0o444, new], "umask {umask}");
        assert_eq!(place.read("bin/run.sh"), "ONE\nTWO\n");
        assert_eq!(
            (place.read("secret.cfg"), place.read("docs/real.md")),
            ("ONE\ntwo\n".to_owned(), "ONE\ntwo\n".to_owned())
        );
        assert!(place.work().join("link.md").is_symlink());
        // One file with two names, and one that is read-only, are refused by name.
        assert_eq!((place.read("h1"), place.read("h2"), place.read("ro.txt")), three("one\ntwo\n"));
        let log = serde_json::to_string(&place.log()).unwrap();
        assert!(log.contains("`h1`: it is one file with 2 names (hard links)"), "{log}");
        assert!(log.contains("`ro.txt`: it is read-only (mode 0444)"), "{log}");
        let names = ["bin", "docs", "h1", "h2", "link.md", "new.txt", "ro.txt", "secret.cfg", "tool.sh"];
        assert_eq!(place.listing(), names, "nothing half-written is left");
    }
}

fn three(text: &str) -> (String, String, String) {
    (text.to_owned(), text.to_owned(), text.to_owned())
}

#[test]
fn ignored_files_that_changed_are_told_in_the_result() {
    let place = Place::empty();
    fs::write(place.work().join(".gitignore"), "*.log\nbuild/\n").unwrap();
    let make = "echo x > a.txt; echo x > a.log; mkdir build; for n in $(seq 104); do echo $n > build/$n; done";
    let model = place.script(&format!("- calls: [{{tool: bash, args: {{command: '{make}'}}}}]\n- text: done\n"));
    let (code, result) = place.run_json(&model, &[]);
    assert_eq!(code, 0, "{result:#}");
    let files = result["files_changed"].as_array().unwrap();
    assert_eq!((files.len(), &result["files_not_listed"]), (101, &serde_json::json!(5)));
    assert_eq!(files[0], serde_json::json!({"path": "a.txt", "change": "added"}));
    assert_eq!(files[1], serde_json::json!({"path": "a.log", "change": "added", "ignored": true}));
    let place = Place::empty();
    fs::write(place.work().join(".gitignore"), "*.log\n").unwrap();
    let model = place.script("- calls: [{tool: bash, args: {command: 'touch a.log b.log c.txt'}}]\n- text: done\n");
    let shown = place.run(["run", "--model", &model, "go"]).stdout;
    assert!(shown.contains("  added c.txt\n  2 ignored files created or changed: a.log, b.log\n"), "{shown}");
}
