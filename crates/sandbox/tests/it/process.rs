//! A workspace with a sandbox around it, for the tests of processes; and that commands run as asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hames_protocol::Network;
use hames_protocol::port::{CommandSpec, Exit, Finished, Peers, Program, Sandbox, SandboxProblem, Tmp, View};
use hames_sandbox::{
    AddedFolders, Bubblewrap, GitIdentity, Mode, ProcessLimits, Protection, ProtectionConfig, SandboxConfig, TestFiles,
    Toolchains, Unconfined,
};

/// A temporary folder that holds a workspace `ws` and a session's `state`.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) mode: Mode,
    pub(crate) protect: ProtectionConfig,
    pub(crate) limits: ProcessLimits,
    pub(crate) added: AddedFolders,
    pub(crate) network: Network,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("ws")).unwrap();
        let protect = ProtectionConfig { tests: TestFiles::Guarded, ..ProtectionConfig::default() };
        Self {
            folder,
            mode: Mode::WorkspaceWrite,
            protect,
            limits: ProcessLimits::default(),
            added: AddedFolders::default(),
            network: Network::None,
        }
    }

    /// A workspace with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("ws")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.outside().join("state")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn config(&self) -> SandboxConfig {
        SandboxConfig {
            root: self.root(),
            mode: self.mode,
            network: self.network,
            state: self.state(),
            protection: Arc::new(Protection::new(&self.root(), self.protect.clone()).unwrap()),
            identity: Some(GitIdentity { name: "Ada \"Countess\" L".to_owned(), email: "ada@example.org".to_owned() }),
            toolchains: Toolchains::default(),
            added: self.added.clone(),
            limits: self.limits,
        }
    }

    pub(crate) fn sandbox(&self) -> Bubblewrap {
        Bubblewrap::new(self.config()).unwrap()
    }

    pub(crate) fn unconfined(&self) -> Unconfined {
        Unconfined::new(self.config()).unwrap()
    }

    /// Runs a command line in a new sandbox.
    pub(crate) fn bash(&self, line: &str) -> Finished {
        run(&self.sandbox(), shell(line)).unwrap()
    }
}

pub(crate) fn shell(line: &str) -> CommandSpec {
    spec(Program::Shell(line.to_owned()))
}

pub(crate) fn direct(words: &[&str]) -> CommandSpec {
    spec(Program::Direct(words.iter().map(|&word| word.to_owned()).collect()))
}

fn spec(program: Program) -> CommandSpec {
    CommandSpec {
        program,
        cwd: PathBuf::from("."),
        env: Vec::new(),
        timeout_ms: 60_000,
        tmp: Tmp::Session,
        view: View::default(),
        peers: Peers::Session,
        keep_output: None,
        capture_bytes: 1 << 20,
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn run(sandbox: &dyn Sandbox, command: CommandSpec) -> Result<Finished, SandboxProblem> {
    runtime().block_on(sandbox.run(command, &|_| {}))
}

pub(crate) fn text(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.capture.head).into_owned()
}

/// Runs a check on either sandbox.
pub(crate) fn each(world: &World, check: impl Fn(&dyn Sandbox)) {
    check(&world.sandbox());
    check(&world.unconfined());
}

#[test]
fn output_and_exit_code_are_those_of_the_command() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, shell("echo out; echo err >&2; exit 7")).unwrap();
        assert_eq!(text(&finished), "out\nerr\n");
        assert_eq!(finished.exit, Exit::Code(7));
        assert_eq!(finished.strays, 0);
    });
}

#[test]
fn a_direct_program_gets_its_words_untouched_and_is_never_a_shell_word() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, direct(&["printf", "[%s]", "a b", "$HOME", "*", "", "'"])).unwrap();
        assert_eq!(text(&finished), "[a b][$HOME][*][][']");
        assert_eq!(run(sandbox, direct(&["cd", "/"])).unwrap().exit, Exit::Code(127));
        assert_eq!(run(sandbox, direct(&["A=1", "true"])).unwrap().exit, Exit::Code(127));
    });
}

#[test]
fn a_missing_program_is_exit_127_and_says_so() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, direct(&["no-such-program"])).unwrap();
        assert_eq!(finished.exit, Exit::Code(127));
        assert!(text(&finished).contains("no-such-program"), "{}", text(&finished));
    });
}

#[test]
fn a_signal_is_told_from_an_exit_code() {
    each(&World::new(), |sandbox| {
        assert_eq!(run(sandbox, shell("kill -TERM $$")).unwrap().exit, Exit::Signal(15));
        assert_eq!(run(sandbox, shell("kill -KILL $$")).unwrap().exit, Exit::Signal(9));
        assert_eq!(run(sandbox, shell("exit 128")).unwrap().exit, Exit::Code(128));
        assert_eq!(run(sandbox, shell("exit 255")).unwrap().exit, Exit::Code(255));
    });
}

#[test]
fn nothing_is_added_to_the_output_of_a_command_that_a_signal_ends() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, shell("echo before; kill -SEGV $$")).unwrap();
        assert_eq!((text(&finished).as_str(), finished.exit), ("before\n", Exit::Signal(11)));
    });
}

#[test]
fn the_working_directory_at_the_end_is_told() {
    let world = World::with(&[("sub dir/file", "")]);
    each(&world, |sandbox| {
        let finished = run(sandbox, shell("cd 'sub dir'; false")).unwrap();
        assert_eq!(finished.cwd.as_deref(), Some(world.root().join("sub dir").as_path()));
        assert_eq!(finished.exit, Exit::Code(1));
        let mut again = shell("ls");
        again.cwd = finished.cwd.unwrap();
        assert_eq!(text(&run(sandbox, again).unwrap()), "file\n");
        let relative = CommandSpec { cwd: PathBuf::from("sub dir"), ..shell("ls; cd ..; exit 3") };
        let finished = run(sandbox, relative).unwrap();
        assert_eq!((text(&finished).as_str(), finished.exit), ("file\n", Exit::Code(3)));
        assert_eq!(finished.cwd.as_deref(), Some(world.root().as_path()));
    });
}

#[test]
fn a_working_directory_that_cannot_be_entered_is_told_with_the_cause() {
    let world = World::with(&[("file", "")]);
    each(&world, |sandbox| {
        let problem = run(sandbox, CommandSpec { cwd: "gone".into(), ..shell("true") }).unwrap_err();
        assert!(problem.0.contains("working directory") && problem.0.contains("No such file"), "{problem}");
        let problem = run(sandbox, CommandSpec { cwd: "file".into(), ..shell("true") }).unwrap_err();
        assert!(problem.0.contains("working directory") && problem.0.contains("/file"), "{problem}");
    });
}

#[test]
fn a_syntax_error_reads_as_bash_writes_it() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, shell("echo 'a")).unwrap();
        assert_eq!(finished.exit, Exit::Code(2));
        assert!(text(&finished).contains("bash: -c: line 1: unexpected EOF"), "{}", text(&finished));
    });
}

#[test]
fn a_command_that_cannot_be_one_is_refused_in_a_sentence() {
    each(&World::new(), |sandbox| {
        let long = run(sandbox, shell(&"x".repeat(200_000))).unwrap_err();
        assert!(long.0.contains("longer than"), "{long}");
        assert!(run(sandbox, direct(&[])).unwrap_err().0.contains("empty"));
        assert!(run(sandbox, shell("echo \0")).unwrap_err().0.contains("NUL"));
    });
}

#[test]
fn input_is_closed_and_no_descriptor_but_the_standard_ones_is_open() {
    // Such as one that this process was started with.
    let leak = rustix::fs::open("/", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, direct(&["ls", "-l", "/proc/self/fd"])).unwrap();
        let links: Vec<_> =
            text(&finished).lines().filter_map(|line| line.split(" -> ").nth(1)).map(str::to_owned).collect();
        // The last one is the folder that is being listed.
        assert_eq!(links.len(), 4, "{}", text(&finished));
        assert_eq!(links[0], "/dev/null");
    });
    drop(leak);
}

#[test]
fn variables_of_the_command_are_added() {
    each(&World::new(), |sandbox| {
        let command = CommandSpec { env: vec![("CHOICE".into(), "a b".into())], ..shell("echo $CHOICE") };
        assert_eq!(text(&run(sandbox, command).unwrap()), "a b\n");
    });
}

#[test]
fn output_beyond_the_capture_is_counted_and_kept_whole() {
    let world = World::new();
    each(&world, |sandbox| {
        let mut command = shell("seq 1 100000");
        command.capture_bytes = 100;
        command.keep_output = Some("/tmp/outputs/deep/one.txt".to_owned());
        let finished = run(sandbox, command).unwrap();
        let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
        assert_eq!(finished.capture.head, &whole.as_bytes()[..100]);
        assert_eq!(finished.capture.tail, &whole.as_bytes()[whole.len() - 100..]);
        assert_eq!(finished.capture.left_out, whole.len() as u64 - 200);
        assert_eq!(fs::read_to_string(world.state().join("tmp/outputs/deep/one.txt")).unwrap(), whole);
    });
}

#[test]
fn output_that_just_fits_is_whole() {
    each(&World::new(), |sandbox| {
        let finished = run(sandbox, CommandSpec { capture_bytes: 4, ..shell("printf 12345678") }).unwrap();
        assert_eq!((finished.capture.head.as_slice(), finished.capture.left_out), (&b"12345678"[..], 0));
        assert!(finished.capture.tail.is_empty());
    });
}

#[test]
fn a_link_planted_where_output_is_kept_is_not_followed() {
    let world = World::new();
    let sandbox = world.sandbox();
    fs::create_dir(world.outside().join("precious")).unwrap();
    let plant = format!("rm -rf /tmp/outputs; ln -s {}/precious /tmp/outputs", world.outside().display());
    run(&sandbox, shell(&plant)).unwrap();
    let kept = CommandSpec { keep_output: Some("/tmp/outputs/x".to_owned()), ..shell("echo kept") };
    run(&sandbox, kept).unwrap();
    assert_eq!(fs::read_dir(world.outside().join("precious")).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(world.state().join("tmp/outputs/x")).unwrap(), "kept\n");
    let above = CommandSpec { keep_output: Some("/tmp/../x".to_owned()), ..shell("echo kept") };
    assert!(run(&sandbox, above).unwrap_err().0.contains("plain path"));
}

#[test]
fn output_is_told_while_the_command_runs() {
    each(&World::new(), |sandbox| {
        let seen = Mutex::new(Vec::new());
        let began = std::time::Instant::now();
        let note = |bytes: &[u8]| seen.lock().unwrap().push((bytes.to_vec(), began.elapsed()));
        let finished = runtime().block_on(sandbox.run(shell("echo one; sleep 0.5; echo two"), &note)).unwrap();
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), finished.capture.head);
        let gap = seen.last().unwrap().1 - seen.first().unwrap().1;
        assert!(gap > Duration::from_millis(300), "{seen:?}");
    });
}

#[test]
fn the_session_keeps_its_tmp_and_a_fresh_one_goes_away() {
    let world = World::new();
    each(&world, |sandbox| {
        run(sandbox, shell("echo kept > $TMPDIR/note")).unwrap();
        assert_eq!(text(&run(sandbox, shell("cat $TMPDIR/note")).unwrap()), "kept\n");
        let fresh = CommandSpec { tmp: Tmp::Fresh, ..shell("ls $TMPDIR; echo lost > $TMPDIR/lost") };
        assert_eq!(text(&run(sandbox, fresh.clone()).unwrap()), "");
        assert_eq!(text(&run(sandbox, fresh).unwrap()), "");
        fs::remove_file(world.state().join("tmp/note")).unwrap();
        let scratch = world.state().join("scratch");
        assert!(!scratch.exists() || fs::read_dir(scratch).unwrap().next().is_none());
    });
}

#[test]
fn a_second_sandbox_of_the_session_works_beside_the_first() {
    let world = World::new();
    let (one, two) = (world.sandbox(), world.sandbox());
    runtime().block_on(async {
        let (first, second) = (one.run(shell("sleep 0.2; echo 1"), &|_| {}), two.run(shell("echo 2"), &|_| {}));
        let (first, second) = tokio::join!(first, second);
        assert_eq!((text(&first.unwrap()).as_str(), text(&second.unwrap()).as_str()), ("1\n", "2\n"));
    });
}

pub(crate) fn path_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
