//! A view shows originals, stand-ins and gaps to one command, and changes nothing on the host.

use std::fs;
use std::os::unix::fs::symlink;

use hames_protocol::port::{CommandSpec, Exit, Sandbox, View};

use crate::process::{World, each, path_exists, run, shell, text};

fn world() -> World {
    let world = World::with(&[
        ("tests/test_a.py", "tampered"),
        ("tests/test_b.py", "b"),
        ("tests/conftest.py", "planted"),
        ("conftest.py", "planted"),
        ("src/lib.py", "code"),
        ("deep/er/file", "file"),
    ]);
    symlink("src/lib.py", world.root().join("link")).unwrap();
    fs::create_dir(world.outside().join("originals")).unwrap();
    fs::write(world.outside().join("originals/1"), "original").unwrap();
    world
}

fn original(world: &World, path: &str) -> View {
    let bytes = world.outside().join("originals/1");
    View { originals: [(path.to_owned(), bytes)].into(), ..View::default() }
}

fn seen(sandbox: &dyn Sandbox, view: &View, line: &str) -> String {
    text(&run(sandbox, CommandSpec { view: view.clone(), ..shell(line) }).unwrap())
}

#[test]
fn an_original_is_shown_over_what_the_workspace_holds() {
    let world = world();
    each(&world, |sandbox| {
        let view = original(&world, "tests/test_a.py");
        assert_eq!(seen(sandbox, &view, "cat tests/test_a.py; cat tests/test_b.py"), "originalb");
        assert_eq!(text(&run(sandbox, shell("cat tests/test_a.py")).unwrap()), "tampered");
        assert_eq!(fs::read_to_string(world.outside().join("originals/1")).unwrap(), "original");
    });
}

#[test]
fn an_original_cannot_be_changed() {
    let world = world();
    let view = original(&world, "tests/test_a.py");
    let line =
        "echo x > tests/test_a.py; rm -f tests/test_a.py; mv tests t2; chmod 777 tests/test_a.py; cat tests/test_a.py";
    assert!(seen(&world.sandbox(), &view, line).ends_with("original"));
    assert_eq!(fs::read_to_string(world.outside().join("originals/1")).unwrap(), "original");
    assert_eq!(fs::read_to_string(world.root().join("tests/test_a.py")).unwrap(), "tampered");
}

#[test]
fn an_original_is_visible_whatever_became_of_its_path() {
    let deleted = world();
    fs::remove_file(deleted.root().join("tests/test_a.py")).unwrap();
    let folder_gone = world();
    fs::remove_dir_all(folder_gone.root().join("tests")).unwrap();
    let folder_a_file = world();
    fs::remove_dir_all(folder_a_file.root().join("tests")).unwrap();
    fs::write(folder_a_file.root().join("tests"), "").unwrap();
    let file_a_folder = world();
    fs::remove_file(file_a_folder.root().join("tests/test_a.py")).unwrap();
    fs::create_dir(file_a_folder.root().join("tests/test_a.py")).unwrap();
    let file_a_link = world();
    fs::remove_file(file_a_link.root().join("tests/test_a.py")).unwrap();
    symlink("../src/lib.py", file_a_link.root().join("tests/test_a.py")).unwrap();
    let folder_a_link = world();
    fs::rename(folder_a_link.root().join("tests"), folder_a_link.root().join("t2")).unwrap();
    symlink("t2", folder_a_link.root().join("tests")).unwrap();
    for world in [deleted, folder_gone, folder_a_file, file_a_folder, file_a_link, folder_a_link] {
        each(&world, |sandbox| {
            let line = "cat tests/test_a.py src/lib.py deep/er/file; readlink link";
            assert_eq!(seen(sandbox, &original(&world, "tests/test_a.py"), line), "originalcodefilesrc/lib.py\n");
        });
        let untouched = fs::read_to_string(world.root().join("tests/test_a.py")).unwrap_or_default();
        assert!(["", "code", "tampered"].contains(&untouched.as_str()), "{untouched}");
    }
}

#[test]
fn what_is_left_out_is_not_there() {
    let world = world();
    each(&world, |sandbox| {
        let left_out = ["tests/conftest.py", "conftest.py", "deep/er", "not/there"].map(str::to_owned).to_vec();
        let view = View { left_out, ..original(&world, "tests/test_a.py") };
        assert_eq!(
            seen(sandbox, &view, "ls . deep tests"),
            ".:\ndeep\nlink\nsrc\ntests\n\ndeep:\n\ntests:\ntest_a.py\ntest_b.py\n"
        );
        assert_eq!(seen(sandbox, &view, "cat tests/test_a.py tests/test_b.py link"), "originalbcode");
        assert_eq!(seen(sandbox, &view, "test -e conftest.py || echo gone"), "gone\n");
    });
    assert!(path_exists(&world.root().join("tests/conftest.py")) && path_exists(&world.root().join("deep/er/file")));
}

#[test]
fn what_stays_in_a_folder_with_a_gap_is_as_protected_and_as_writable_as_before() {
    let world = world();
    let view = View { left_out: vec!["conftest.py".to_owned()], ..View::default() };
    let sandbox = world.sandbox();
    let line =
        "echo x > tests/test_b.py; mv tests t2; mv deep/er deep/new && echo new > src/lib.py && cat tests/test_b.py";
    assert!(seen(&sandbox, &view, line).ends_with('b'));
    assert_eq!(fs::read_to_string(world.root().join("tests/test_b.py")).unwrap(), "b");
    assert_eq!(fs::read_to_string(world.root().join("src/lib.py")).unwrap(), "new\n");
    assert!(path_exists(&world.root().join("deep/new/file")));
}

#[test]
fn a_file_left_out_of_a_large_folder_is_empty() {
    let world = world();
    for number in 0..300 {
        world.write(&format!("many/{number}"), "");
    }
    world.write("many/conftest.py", "planted");
    let view = View { left_out: vec!["many/conftest.py".to_owned()], ..View::default() };
    assert_eq!(seen(&world.sandbox(), &view, "cat many/conftest.py; ls many | wc -l"), "301\n");
}

#[test]
fn a_stand_in_takes_the_workspaces_place() {
    let world = world();
    let copy = world.outside().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::write(copy.join("only"), "copy").unwrap();
    each(&world, |sandbox| {
        let view = View { stand_in: Some(copy.clone()), ..View::default() };
        assert_eq!(seen(sandbox, &view, "ls; cat only; echo more > more"), "only\ncopy");
        assert_eq!(fs::read_to_string(copy.join("more")).unwrap(), "more\n");
        fs::remove_file(copy.join("more")).unwrap();
        assert!(!path_exists(&world.root().join("more")));
        let view = View { stand_in: Some(copy.clone()), ..original(&world, "tests/test_a.py") };
        assert_eq!(seen(sandbox, &view, "cat tests/test_a.py only"), "originalcopy");
        assert!(!path_exists(&copy.join("tests")), "nothing is left in the stand-in");
    });
    let finished =
        run(&world.sandbox(), CommandSpec { view: View { stand_in: Some(copy), ..View::default() }, ..shell("pwd") });
    assert_eq!(text(&finished.unwrap()), format!("{}\n", world.root().display()));
}

#[test]
fn a_view_that_leads_outside_is_refused() {
    let world = world();
    each(&world, |sandbox| {
        for path in ["../x", "/etc/passwd", "", "tests/../../x"] {
            let left_out = View { left_out: vec![path.to_owned()], ..View::default() };
            for view in [left_out, original(&world, path)] {
                let problem = run(sandbox, CommandSpec { view, ..shell("true") }).unwrap_err();
                assert!(problem.0.contains("plain path"), "{problem}");
            }
        }
    });
}

#[test]
fn the_directory_at_the_end_is_one_of_the_workspace_in_every_view() {
    let world = world();
    each(&world, |sandbox| {
        let view = View { left_out: vec!["conftest.py".to_owned()], ..View::default() };
        let finished = run(sandbox, CommandSpec { view, ..shell("cd tests; exit 2") }).unwrap();
        assert_eq!((finished.exit, finished.cwd), (Exit::Code(2), Some(world.root().join("tests"))));
    });
}
