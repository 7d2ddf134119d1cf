//! `--add-dir`: a further folder, from the command line to the files that changed.

use std::fs;

use crate::place::Place;

/// A place with folders beside the workspace.
fn place() -> Place {
    let place = Place::empty();
    for folder in ["lib", "out", "x:rw"] {
        fs::create_dir(place.beside(folder)).unwrap();
        fs::write(place.beside(folder).join("f.txt"), format!("in {folder}\n")).unwrap();
    }
    fs::write(place.work().join("a.txt"), "a\n").unwrap();
    place
}

fn shown(place: &Place, path: &str) -> String {
    place.beside(path).to_str().unwrap().to_owned()
}

fn changed(result: &serde_json::Value) -> Vec<String> {
    let files = result["files_changed"].as_array().unwrap();
    files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_added_folder_is_read_listed_searched_and_with_rw_changed() {
    let place = place();
    let (lib, out) = (shown(&place, "lib"), shown(&place, "out"));
    let model = place.script(&format!(
        "- calls: [{{tool: list_files, args: {{path: {lib}}}}}, {{tool: search, args: {{pattern: in, path: {lib}}}}}, \
         {{tool: read_file, args: {{path: {lib}/f.txt}}}}, {{tool: read_file, args: {{path: {out}/f.txt}}}}]\n\
         - calls: [{{tool: write_file, args: {{path: {lib}/n.txt, content: x}}}}, {{tool: edit_file, args: {{path: \
         {out}/f.txt, old_string: in, new_string: IN}}}}, {{tool: bash, args: {{command: 'cd {out} && echo 1 > s.txt && \
         ! touch {lib}/t'}}}}, {{tool: bash, args: {{command: pwd}}}}]\n- text: done\n"
    ));
    let (code, result) = place.run_json(&model, &["--add-dir", &lib, "--add-dir", &format!("{out}:rw")]);
    assert_eq!(code, 0, "{result:#}");
    assert_eq!(changed(&result), [format!("{out}/f.txt"), format!("{out}/s.txt")]);
    assert_eq!(result["guards"].as_array().unwrap().len(), 1, "{result:#}");
    assert!(result["guards"][0]["reason"].as_str().unwrap().contains("added to be read only"), "{result:#}");
    assert_eq!(fs::read_to_string(place.beside("out/f.txt")).unwrap(), "IN out\n");
    let log = serde_json::to_string(&place.log()).unwrap();
    for says in [
        format!("Added folder: {lib} (read-only"),
        format!("Added folder: {out} (may be changed"),
        format!("\"{lib}/f.txt\""),
        format!("{lib}/f.txt:1:in lib"),
        format!("\"{out}\""),
    ] {
        assert!(log.contains(&says), "{says}: {log}");
    }
}

#[test]
fn a_resumed_session_has_the_same_folders() {
    let place = place();
    let out = shown(&place, "out");
    let model = place.script("- text: ok\n");
    let added = format!("{out}:rw");
    assert_eq!(place.run_json(&model, &["--add-dir", &added]).0, 0);
    // A script goes on where the session is.
    let call = format!("- calls: [{{tool: write_file, args: {{path: {out}/n.txt, content: x}}}}]\n- text: ok\n");
    let write = format!("- text: ok\n{call}{call}");
    let (_, result) = place.run_json(&place.script(&write), &["--continue"]);
    assert_eq!(changed(&result), [format!("{out}/n.txt")], "{result:#}");
    // Others given instead count instead.
    let (_, result) = place.run_json(&place.script(&write), &["--continue", "--add-dir", &shown(&place, "lib")]);
    assert_eq!(changed(&result), Vec::<String>::new());
    assert_eq!(result["guards"].as_array().unwrap().len(), 1, "{result:#}");
}

#[test]
fn a_folder_that_cannot_be_added_is_refused_with_the_reason() {
    let place = place();
    let model = place.script("- text: ok\n");
    fs::create_dir(place.work().join("sub")).unwrap();
    fs::create_dir_all(place.beside("home/.config/hames")).unwrap();
    let at = |path: &str| shown(&place, path);
    let (lib, nested) = (at("lib"), at("lib/d"));
    fs::create_dir(&nested).unwrap();
    let table: Vec<(Vec<String>, &str)> = vec![
        (vec![at("none")], "cannot be opened"),
        (vec![at("work/a.txt")], "is not a folder"),
        (vec!["/".to_owned()], "root folder of the system"),
        (vec![at("work")], "is the workspace"),
        (vec![at("")], "holds the workspace"),
        (vec![at("home")], "holds your home folder"),
        (vec![at("work/sub")], "lies in the workspace, where it is already"),
        (vec![format!("{}:rw", at("work/sub"))], "lies in the workspace, where it is already"),
        (vec![at("home/.local/state/hames")], "where Hames keeps its sessions"),
        (vec![at("home/.config")], "where your configuration of Hames lies"),
        (vec!["/proc/self".to_owned()], "every command has for itself"),
        (vec!["/tmp".to_owned()], ""),
        (vec!["/usr/share:rw".to_owned()], "belongs to the system"),
        (vec![format!("{lib}:rw"), nested.clone()], "which is added as well"),
        (vec![format!("{lib}:rw"), lib.clone()], "is named twice"),
        (vec![at("x:rw")], "cannot be opened"),
    ];
    // A session makes the folder of the sessions.
    assert_eq!(place.run_json(&model, &[]).0, 0);
    for (dirs, says) in table {
        let flags = dirs.iter().flat_map(|dir| ["--add-dir", dir]);
        let ran = place.run(["run", "--model", &model, "go"].into_iter().chain(flags));
        assert_eq!(ran.code, 2, "{dirs:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("cannot be added: it ") && ran.stderr.contains(says), "{dirs:?}: {}", ran.stderr);
    }
    let again = format!("{lib}:ro");
    let twice = [&lib, &nested, &again].map(|dir| ["--add-dir", dir]);
    let ran = place.run(["run", "--model", &model, "go"].into_iter().chain(twice.into_iter().flatten()));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_command_in_a_sandbox_sees_added_folders_and_a_name_may_hold_a_colon() {
    let place = place();
    let (file, odd) = (shown(&place, "lib/f.txt"), shown(&place, "x:rw"));
    let sandbox = |dir: &str, line: &str| place.run(["sandbox", "--add-dir", dir, "--", "sh", "-c", line]);
    assert_ne!(sandbox(&shown(&place, "out"), &format!("cat {file}")).code, 0);
    assert_eq!(sandbox(&shown(&place, "lib"), &format!("cat {file}")).stdout, "in lib\n");
    assert_ne!(sandbox(&shown(&place, "lib"), &format!("echo x >> {file}")).code, 0);
    assert_eq!(sandbox("../lib:rw", &format!("echo x >> {file}")).code, 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "in lib\nx\n");
    assert_eq!(sandbox(&format!("{odd}:ro"), &format!("cat {odd}/f.txt")).stdout, "in x:rw\n");
    assert_ne!(sandbox(&format!("{odd}:ro"), &format!("touch {odd}/n")).code, 0);
    assert_eq!(sandbox(&format!("{odd}:rw"), &format!("touch {odd}/n")).code, 0);
}

#[test]
fn your_own_file_adds_folders_and_a_workspaces_file_does_not() {
    let place = place();
    let lib = shown(&place, "lib");
    let configs = [place.beside("home/.config/hames/config.toml"), place.work().join(".hames/config.toml")];
    for config in &configs {
        fs::create_dir_all(config.parent().unwrap()).unwrap();
    }
    let look = format!("cat {lib}/f.txt");
    fs::write(&configs[1], format!("add_dir = [\"{lib}\"]\n")).unwrap();
    let ran = place.run(["sandbox", "--", "sh", "-c", &look]);
    assert!(ran.code != 0 && ran.stderr.contains("`add_dir` is ignored"), "{}", ran.stderr);
    fs::remove_file(&configs[1]).unwrap();
    // The workspace itself is there already.
    let work = place.work().to_str().unwrap().to_owned();
    fs::write(&configs[0], format!("add_dir = [\"{lib}:rw\", \"{work}\"]\n")).unwrap();
    assert_eq!(place.run(["sandbox", "--", "sh", "-c", &look]).stdout, "in lib\n");
    let model =
        place.script(&format!("- calls: [{{tool: bash, args: {{command: '{look}; touch {lib}/n'}}}}]\n- text: ok\n"));
    let (_, result) = place.run_json(&model, &[]);
    assert_eq!(changed(&result), [format!("{lib}/n")]);
    // A flag says more of the same folder.
    let (_, result) = place.run_json(&model, &["--add-dir", &lib]);
    assert_eq!(changed(&result), Vec::<String>::new());
    let shown = place.run(["config"]).stdout;
    assert!(shown.contains(&format!("add_dir = [\n  \"{lib}:rw\",")), "{shown}");
}
