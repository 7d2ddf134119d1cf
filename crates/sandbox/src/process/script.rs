//! The few lines of shell around each command.
//!
//! A shell starts the command as its child, so that something inside outlives it: it sees which processes are left,
//! and its own exit code is the command's. Reports go to its standard output, which the command does not inherit;
//! what the command prints goes to the standard error.

use std::ffi::OsString;
use std::path::Path;

use hames_protocol::port::{Program, SandboxProblem};

/// The shell that runs the scripts.
pub(crate) const SHELL: &str = "/bin/sh";

/// Enters the folder `$1` and runs the rest of the arguments; `exec` in a subshell keeps words such as `cd` from
/// being taken for the shell's own. When the folder cannot be entered, `ls` says why, which the shell does not. Signals
/// that the command sends to its whole group must not end this shell. When nobody is there to read the first report any
/// more, nothing is run.
const RUN: &str = r#"
cd -P -- "$1" || { ls -ld -- "$1" >&2; printf 'nowhere\0'; exit 1; }
shift
trap : HUP INT QUIT PIPE ALRM TERM USR1 USR2
printf 'ready\0' || exit 1
exec 3>&2 2>/dev/null
( exec "$@" ) >&3 2>&3 3>&-
code=$?
"#;

/// In a process namespace: counts what is left beside the first process and this one, after giving it a little while
/// to end by itself, as the reader of a pipe does.
const COUNT: &str = r#"
round=0
set -- /proc/[0-9]*
while [ $# -gt 2 ] && [ $round -lt 5 ]; do
    sleep 0.02
    round=$((round + 1))
    set -- /proc/[0-9]*
done
printf 'strays:%s\0' $(($# - 2))
exit $code
"#;

/// Without a namespace: stays, for what is left is this process's offspring and is found through it.
const STAY: &str = r#"
printf 'ended:%s\0' $code
kill -STOP $$
"#;

/// What bash reads before a command line: at its end it tells where it is.
pub(crate) const BASH_ENV: &str = r#"unset BASH_ENV
trap 'builtin cd -P . 2>/dev/null && printf "cwd:%s\0" "$PWD" 2>/dev/null >/proc/$PPID/fd/1' EXIT
"#;

/// What follows the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// See [`COUNT`].
    Count,
    /// See [`STAY`].
    Stay,
}

/// The longest word of a command that the system takes, in bytes (`MAX_ARG_STRLEN` in linux/binfmts.h).
const WORD_BYTES: usize = 128 << 10;

/// The arguments for [`SHELL`] that run `program` in `cwd`.
///
/// # Errors
/// When the command is too long or empty, or holds what no command can.
pub(crate) fn arguments(epilogue: Epilogue, cwd: &Path, program: &Program) -> Result<Vec<OsString>, SandboxProblem> {
    let words: &[String] = match program {
        Program::Shell(line) => std::slice::from_ref(line),
        Program::Direct(words) => words,
    };
    let refuse = |why: &str| Err(SandboxProblem(format!("The command cannot be run: {why}.")));
    if words.is_empty() {
        return refuse("it is empty. Name a program");
    }
    if words.iter().any(|word| word.len() >= WORD_BYTES) {
        return refuse(
            "it is longer than the 131,072 bytes that the system takes. Write it to a file and run the file",
        );
    }
    if words.iter().any(|word| word.contains('\0')) {
        return refuse("it holds a NUL character. Leave that out");
    }
    let epilogue = match epilogue {
        Epilogue::Count => COUNT,
        Epilogue::Stay => STAY,
    };
    let mut arguments: Vec<OsString> = vec!["-c".into(), format!("{RUN}{epilogue}").into(), "hames".into(), cwd.into()];
    match program {
        Program::Shell(line) => arguments.extend(["bash", "-c", line].map(OsString::from)),
        Program::Direct(words) => arguments.extend(words.iter().map(OsString::from)),
    }
    Ok(arguments)
}

/// The variable that makes bash read [`BASH_ENV`] at `path`, for a command line.
pub(crate) fn variable(program: &Program, path: &Path) -> Option<(OsString, OsString)> {
    matches!(program, Program::Shell(_)).then(|| ("BASH_ENV".into(), path.into()))
}
