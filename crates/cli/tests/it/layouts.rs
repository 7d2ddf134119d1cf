//! A task in each layout of repository: edited, committed, verified, and nothing of it runs on the host.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::place::Place;

const SCRIPT: &str = r#"
- calls:
    - {tool: read_file, args: {path: price.py}}
- calls:
    - {tool: edit_file, args: {path: price.py, old_string: "PRICE = 1", new_string: "PRICE = 2"}}
    - {tool: bash, args: {command: "git status --short && git diff --stat && git commit -q -a -m fixed && git log --format=%s -1"}}
    - {tool: bash, args: {command: "git init -q sub && cd sub && git config core.fsmonitor 'touch ../canary' && printf '#!/bin/sh\ntouch ../canary' > .git/hooks/post-commit && chmod +x .git/hooks/post-commit && echo x > a && git add a"}}
- calls:
    - {tool: finish, args: {summary: fixed}}
"#;

const TEST: &str = "import unittest, price\n\nclass T(unittest.TestCase):\n    def test_price(self):\n        \
                    self.assertEqual(price.PRICE, 2)\n";

fn git(folder: &Path, arguments: &[&str]) {
    let options = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"];
    let done = Command::new("git").args(options).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A repository with the task in it.
fn task(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("price.py"), "PRICE = 1\n").unwrap();
    fs::write(folder.join("test_price.py"), TEST).unwrap();
    git(folder, &["init", "-q", "-b", "main"]);
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "-m", "start"]);
}

/// Runs the task in the place's workspace and looks at what it came to.
fn check(place: &Place, layout: &str) {
    let settings = place.work().with_file_name("home").join(".gitconfig");
    fs::write(settings, "[user]\n\tname = T\n\temail = t@example.org\n").unwrap();
    let (code, result) = place.run_json(&place.script(SCRIPT), &["--verify", "python3 -m unittest"]);
    assert_eq!((code, result["outcome"].as_str()), (0, Some("done")), "{layout}: {result:#}");
    let changed: Vec<&str> =
        result["files_changed"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(changed, ["price.py", "sub/a"], "{layout}");
    let guards = result["guards"].as_array().unwrap();
    assert_eq!(guards.len(), 2, "{layout}: {guards:#?}");
    let is_told = |path: &str| {
        guards.iter().any(|guard| {
            guard["guard"] == "protected"
                && guard["reason"].as_str().is_some_and(|reason| reason.contains(path) && reason.contains("is kept as"))
        })
    };
    assert!(is_told("sub/.git/config") && is_told("sub/.git/hooks/post-commit"), "{layout}: {guards:#?}");
    let log = place.log();
    let bash = log.iter().filter_map(|record| record["entry"]["ended"]["result"]["blocks"].as_array());
    let said: String = bash.flatten().filter_map(|block| block["text"].as_str()).collect();
    assert!(said.contains(" M price.py") && said.contains("fixed"), "{layout}: {said}");
    assert!(said.contains("New git repositories: `sub/.git`"), "{layout}: {said}");

    let sub = place.work().join("sub");
    git(&sub, &["status"]);
    git(&sub, &["commit", "-q", "-m", "by the user"]);
    git(&place.work(), &["status"]);
    assert!(!place.work().join("canary").exists(), "{layout}");
    let head = Command::new("git").args(["log", "-1", "--format=%s"]).current_dir(place.work()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&head.stdout), "fixed\n", "{layout}");
}

#[test]
fn a_task_is_done_in_a_plain_repository() {
    let place = Place::empty();
    task(&place.work());
    check(&place, "plain");
}

#[test]
fn a_task_is_done_in_a_linked_worktree() {
    let place = Place::empty();
    let main = place.work().with_file_name("main");
    task(&main);
    git(&main, &["worktree", "add", "-q", place.work().to_str().unwrap(), "-b", "side"]);
    check(&place, "worktree");
}

#[test]
fn a_task_is_done_in_a_submodule() {
    let place = Place::empty();
    let library = place.work().with_file_name("library");
    task(&library);
    fs::remove_dir(place.work()).unwrap();
    let above = place.work().parent().unwrap().to_owned();
    git(&above, &["init", "-q"]);
    git(&above, &["submodule", "add", "-q", library.to_str().unwrap(), "work"]);
    check(&place, "submodule");
}

#[test]
fn a_task_is_done_with_repositories_inside_the_workspace() {
    let place = Place::empty();
    task(&place.work());
    task(&place.work().join("vendor/tracked"));
    git(&place.work(), &["add", "vendor"]);
    git(&place.work(), &["commit", "-q", "-m", "vendor"]);
    fs::write(place.work().join(".gitignore"), "/scratch\n").unwrap();
    git(&place.work(), &["add", "-A"]);
    git(&place.work(), &["commit", "-q", "-m", "ignore"]);
    task(&place.work().join("scratch/untracked"));
    check(&place, "nested");
}

#[test]
fn a_task_is_done_where_there_is_no_git() {
    let place = Place::empty();
    fs::write(place.work().join("price.py"), "PRICE = 1\n").unwrap();
    fs::write(place.work().join("test_price.py"), TEST).unwrap();
    let script = "- calls: [{tool: read_file, args: {path: price.py}}]\n\
                  - calls: [{tool: edit_file, args: {path: price.py, old_string: 'PRICE = 1', new_string: 'PRICE = 2'}}]\n\
                  - calls: [{tool: finish, args: {summary: fixed}}]\n";
    let (code, result) = place.run_json(&place.script(script), &["--verify", "python3 -m unittest"]);
    assert_eq!((code, &result["verdict"]), (0, &Value::from("pass")), "{result:#}");
}

#[test]
fn what_a_check_makes_of_repositories_is_set_aside_and_told_with_the_verdict() {
    let place = Place::empty();
    task(&place.work());
    let script = r#"
- calls: [{tool: read_file, args: {path: price.py}}]
- calls:
    - tool: edit_file
      args:
        path: price.py
        old_string: PRICE = 1
        new_string: |-
          import subprocess
          subprocess.run('git init -q sub; git -C sub config core.fsmonitor ./x', shell=True)
          PRICE = 2
- calls: [{tool: finish, args: {summary: fixed}}]
"#;
    let (code, _) = place.run_json(&place.script(script), &["--verify", "python3 -m unittest"]);
    assert_eq!(code, 0);
    let log = place.log();
    let judged: Vec<&Value> =
        log.iter().map(|record| &record["entry"]["judged"]).filter(|one| one.is_array()).collect();
    let told = judged[0][1]["set_aside"].to_string();
    assert!(told.contains("sub/.git/config") && told.contains("core.fsmonitor"), "{told}");
    assert!(!fs::read_to_string(place.work().join("sub/.git/config")).unwrap().contains("fsmonitor"));
}
