//! Reads a check's command line as far as the verifier needs it: which test runners it names and which programs it
//! starts.
//!
//! This is no shell grammar. What it cannot read it leaves out, and then the check is judged by what it shows.

/// A test runner whose report can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// Python's own.
    Unittest,
    /// pytest.
    Pytest,
    /// libtest, started by cargo.
    CargoTest,
    /// cargo-nextest.
    Nextest,
    /// `go test`.
    Go,
    /// Node's own (`node --test`).
    Node,
    /// Jest.
    Jest,
    /// Vitest.
    Vitest,
    /// Whichever wrote a report in JUnit's XML while the check ran.
    JunitXml,
}

/// The language in which a runner's tests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Language {
    Python,
    Rust,
    Go,
    /// And TypeScript.
    JavaScript,
}

impl Language {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Python, Self::Rust, Self::Go, Self::JavaScript];
}

impl Runner {
    /// The name in evidence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unittest => "unittest",
            Self::Pytest => "pytest",
            Self::CargoTest => "cargo test",
            Self::Nextest => "cargo nextest",
            Self::Go => "go test",
            Self::Node => "node --test",
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::JunitXml => "JUnit XML",
        }
    }

    /// The language of its tests; none when any runner may have spoken.
    pub(crate) fn language(self) -> Option<Language> {
        match self {
            Self::Unittest | Self::Pytest => Some(Language::Python),
            Self::CargoTest | Self::Nextest => Some(Language::Rust),
            Self::Go => Some(Language::Go),
            Self::Node | Self::Jest | Self::Vitest => Some(Language::JavaScript),
            Self::JunitXml => None,
        }
    }
}

/// Shells, whose first plain argument is a script.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "source", "."];

/// The scripts that a check runs by their path, as written: `./check.sh`, `bash ci/check.sh`. They say what the check
/// is, so whoever wants it to pass must not be the one who writes them.
pub fn named_scripts(command: &str) -> Vec<String> {
    let script = |start: Start| {
        let is_shell = SHELLS.contains(&file_name(start.program()));
        let named = if is_shell { start.words.get(1)? } else { start.words.first()? };
        (!named.starts_with('-') && (is_shell || named.contains('/'))).then(|| named.clone())
    };
    starts(command).into_iter().filter_map(script).collect()
}

/// One program that the command line starts, with its plain arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Start {
    /// Assignments before it, as written (`PATH=bin:$PATH`).
    pub(crate) assignments: Vec<String>,
    /// The program and its arguments, quotes removed.
    pub(crate) words: Vec<String>,
}

impl Start {
    /// The program.
    pub(crate) fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// The module of `python -m MODULE`.
    pub(crate) fn python_module(&self) -> Option<&str> {
        if !file_name(self.program()).starts_with("python") {
            return None;
        }
        let at = self.words.iter().position(|word| word == "-m")?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// The subcommand of `cargo SUBCOMMAND`.
    pub(crate) fn cargo_subcommand(&self) -> Option<&str> {
        if file_name(self.program()) != "cargo" {
            return None;
        }
        self.words.iter().skip(1).find(|word| !word.starts_with(['+', '-'])).map(String::as_str)
    }
}

/// The test runners that the command line names, in order; one entry for each time it names one.
pub(crate) fn runners(command: &str) -> Vec<Runner> {
    // Inner command lines (`bash -c "pytest -q"`) are split like outer ones.
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || "\"'`();|&{}=".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found = Vec::new();
    let mut before = "";
    for word in words {
        let name = file_name(word);
        match (before, name) {
            // The last part of a script's path (`node node_modules/jest/bin/jest.js`), or `npx jest@29`.
            (_, "unittest") => found.push(Runner::Unittest),
            (_, "pytest" | "py.test") => found.push(Runner::Pytest),
            ("cargo", "nextest") => found.push(Runner::Nextest),
            ("cargo", "test" | "t") => found.push(Runner::CargoTest),
            ("go", "test") => found.push(Runner::Go),
            ("node", "--test") => found.push(Runner::Node),
            (_, "jest" | "jest.js") => found.push(Runner::Jest),
            (_, "vitest" | "vitest.mjs") => found.push(Runner::Vitest),
            (_, name) if name.starts_with("jest@") => found.push(Runner::Jest),
            (_, name) if name.starts_with("vitest@") => found.push(Runner::Vitest),
            _ => {}
        }
        // Only options may stand between a program and its subcommand.
        before = match name {
            "cargo" | "go" | "node" => name,
            _ if word.starts_with(['+', '-']) => before,
            _ => "",
        };
    }
    found
}

/// The command line with cargo told to go on after a failure, so that each of its binaries is heard. What is written
/// otherwise than `cargo … test` or `cargo … nextest run` stays as it is.
pub(crate) fn without_fail_fast(command: &str) -> String {
    if command.contains("fail-fast") {
        return command.to_owned();
    }
    let mut written = String::with_capacity(command.len());
    let mut before = "";
    for word in command.split_inclusive(char::is_whitespace) {
        let name = file_name(word.trim());
        let (ends, next) = match (before, name) {
            ("cargo", "test" | "t") | ("nextest", "run" | "r") => (true, ""),
            ("cargo", "nextest") => (false, "nextest"),
            (_, "cargo") => (false, "cargo"),
            (_, option) if option.starts_with(['+', '-']) => (false, before),
            _ => (false, ""),
        };
        written.push_str(word);
        if ends {
            written.truncate(written.trim_end().len());
            written.push_str(" --no-fail-fast");
            written.push_str(&word[word.trim_end().len()..]);
        }
        before = next;
    }
    written
}

/// The programs that the command line starts, as far as they are written plainly.
pub(crate) fn starts(command: &str) -> Vec<Start> {
    segments(command).into_iter().filter_map(|segment| start(&segment)).collect()
}

/// Words that stand before a program without being one that matters.
const PREFIXES: [&str; 9] = ["!", "{", "if", "then", "do", "else", "time", "exec", "env"];

fn start(words: &[String]) -> Option<Start> {
    let mut assignments = Vec::new();
    let mut rest = words.iter().skip_while(|word| PREFIXES.contains(&word.as_str())).peekable();
    while let Some(word) = rest.next_if(|word| is_assignment(word)) {
        assignments.push(word.clone());
    }
    let words: Vec<String> = rest.cloned().collect();
    let program = words.first()?;
    let plain = program.chars().all(|c| c.is_alphanumeric() || "._-+/".contains(c));
    plain.then_some(Start { assignments, words })
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Splits at `;`, `&`, `|`, newlines and parentheses outside quotes, then into words.
fn segments(command: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => word.push(character),
            (None, '\'' | '"') => quote = Some(character),
            (None, '\\') => word.extend(characters.next()),
            (None, _) if character.is_whitespace() || ";&|()".contains(character) => {
                if !word.is_empty()
                    && let Some(last) = all.last_mut()
                {
                    last.push(std::mem::take(&mut word));
                }
                if character == '\n' || ";&|()".contains(character) {
                    all.push(Vec::new());
                }
            }
            (None, _) => word.push(character),
        }
    }
    if !word.is_empty()
        && let Some(last) = all.last_mut()
    {
        last.push(word);
    }
    all.retain(|words| !words.is_empty());
    all
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_found_where_a_check_runs_them() {
        let of = |command: &str| named_scripts(command).join(" ");
        assert_eq!(of("./check.sh --all && make"), "./check.sh");
        assert_eq!(of("FOO=1 bash ci/check.sh; sh lint.sh"), "ci/check.sh lint.sh");
        assert_eq!(of("bash -c 'true'"), "");
        assert_eq!(of("cargo test --manifest-path a/Cargo.toml"), "");
    }

    use Runner::{CargoTest, Go, Jest, Nextest, Node, Pytest, Unittest, Vitest};

    #[test]
    fn runners_are_recognised_by_the_command_line() {
        for (command, expected) in [
            ("python3 -m unittest discover -s tests -t .", vec![Unittest]),
            ("cd app && .venv/bin/pytest -q", vec![Pytest]),
            ("bash -c \"python -m pytest -q\"", vec![Pytest]),
            ("python -m unittest a && python -m unittest b", vec![Unittest, Unittest]),
            ("cargo +stable test --workspace", vec![CargoTest]),
            ("cargo --locked nextest run; cargo test --doc", vec![Nextest, CargoTest]),
            ("go vet ./... && go test -race ./pkg", vec![Go]),
            ("node --test test/", vec![Node]),
            ("node --enable-source-maps --test", vec![Node]),
            ("npx --no-install jest --ci", vec![Jest]),
            ("node_modules/.bin/vitest run && npx jest@29", vec![Vitest, Jest]),
            ("node --experimental-vm-modules node_modules/jest/bin/jest.js", vec![Jest]),
            ("npm test && go build ./test && node build.js --test", vec![]),
            ("eslint jest.config.js src/vitest.setup.ts", vec![]),
            ("cargo clippy --tests", vec![]),
            ("test -f a && make test", vec![]),
            ("ruff check tests/test_pytest.py", vec![]),
        ] {
            assert_eq!(runners(command), expected, "{command}");
        }
    }

    #[test]
    fn cargo_is_told_to_go_on_after_a_failure() {
        for (command, expected) in [
            ("cargo test", "cargo test --no-fail-fast"),
            ("cargo +stable test -p a -- b && x", "cargo +stable test --no-fail-fast -p a -- b && x"),
            ("cargo --locked nextest run -p a", "cargo --locked nextest run --no-fail-fast -p a"),
            ("cargo test --no-fail-fast", "cargo test --no-fail-fast"),
            ("cargo build; test -f a", "cargo build; test -f a"),
            ("make test", "make test"),
        ] {
            assert_eq!(without_fail_fast(command), expected);
        }
    }

    #[test]
    fn programs_are_found_behind_assignments_and_in_every_part() {
        let programs = |command| starts(command).iter().map(|one| one.program().to_owned()).collect::<Vec<_>>();
        assert_eq!(programs("A=1 B='x y' ./build.sh --all | tee log"), ["./build.sh", "tee"]);
        assert_eq!(programs("cd app && (npm test; exit 1)"), ["cd", "npm", "exit"]);
        assert_eq!(programs("$PYTHON -m unittest"), Vec::<String>::new());
        assert_eq!(programs("echo 'a; nothing'"), ["echo"]);
        assert_eq!(programs("! env X=1 mypy ."), ["mypy"]);
    }

    #[test]
    fn modules_and_subcommands_are_read() {
        assert_eq!(starts("python3.11 -X dev -m pytest -q")[0].python_module(), Some("pytest"));
        assert_eq!(starts("cargo +nightly --locked nextest run")[0].cargo_subcommand(), Some("nextest"));
        assert_eq!(starts("make -m pytest")[0].python_module(), None);
    }
}
