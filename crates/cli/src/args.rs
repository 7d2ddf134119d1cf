//! The command line, as clap reads it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration;

/// A coding agent that finishes real tasks: the model proposes, Hames decides.
#[derive(Debug, Parser)]
#[command(name = "hames", version, arg_required_else_help = true)]
#[command(
    after_help = "`hames -p PROMPT` is short for `hames run PROMPT`.\n\nExit codes: 0 done or answered, 1 internal error, \
2 usage or configuration, 3 a limit or stuck, 4 not verified, 5 a tool failed for good, 6 the model or provider failed, \
7 needs a person, 130 cancelled by SIGINT, 143 by SIGTERM, 141 nobody reads standard output any more."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a task to its end, check it, and say how it went
    Run(Box<RunOptions>),
    /// Run a command as the agent's tools would, and exit as it did
    Sandbox(SandboxOptions),
    /// Show each setting, its value and where it came from
    Config(Box<SettingFlags>),
    /// Check that everything a run needs is there, and say what to do where it is not
    Doctor(Box<SettingFlags>),
    /// Look at recorded sessions
    #[command(subcommand)]
    Session(SessionVerb),
    /// Work with scripted models
    #[command(subcommand)]
    Script(ScriptVerb),
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The task; read from standard input when it is left out and something is piped
    pub(crate) prompt: Option<String>,
    #[command(flatten)]
    pub(crate) flags: SettingFlags,
    /// Show the model this image beside the prompt: PNG, JPEG, GIF or WebP (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    /// Continue this session; without a prompt, where it stopped
    #[arg(long, value_name = "ID", conflicts_with = "continue_last")]
    pub(crate) resume: Option<String>,
    /// Continue the workspace's last session
    #[arg(long = "continue")]
    pub(crate) continue_last: bool,
}

/// What may also stand in a configuration file, as far as one source says it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingFlags {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The model: `anthropic/NAME`, `scripted:FILE`, or of a configured provider; by default that of the first key found
    #[arg(short, long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// Where the provider's API is; overrides ANTHROPIC_BASE_URL, OPENAI_BASE_URL and GOOGLE_GEMINI_BASE_URL
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// A command that must pass before the task counts as done (repeatable)
    #[arg(long, value_name = "CMD")]
    pub(crate) verify: Vec<String>,
    /// Stop after this many model replies [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Stop after this time, for example 90s, 5m or 1h30m [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    pub(crate) max_time: Option<u64>,
    /// Stop after this many tokens of input and output together [default: 2000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after this many US dollars
    #[arg(long, value_name = "USD", value_parser = money)]
    pub(crate) max_cost: Option<f64>,
    /// How many tokens the model should spend on thinking and replies; a model without this setting refuses it
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub(crate) effort: Option<EffortLevel>,
    /// Replace the instructions that Hames gives the model with this file
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Add to the instructions that Hames gives the model
    #[arg(long, value_name = "TEXT")]
    pub(crate) append_system_prompt: Option<String>,
    /// How the result is printed [default: text]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) output_format: Option<OutputFormat>,
}

/// Where commands run and what they may change.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Place {
    /// The folder to work in [default: the current one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Protect paths against changes, in gitignore syntax (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) protect: Vec<String>,
    /// Leave paths open that would be protected (repeatable)
    #[arg(long, value_name = "GLOB")]
    pub(crate) unprotect: Vec<String>,
    /// Let the agent read a further folder, or with `:rw` change it as well; its paths are written whole (repeatable).
    /// A folder whose own name ends in `:rw` is written with `:ro` behind it
    #[arg(long, value_name = "DIR[:rw]", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) add_dir: Vec<String>,
    /// How commands are kept apart from the machine [default: workspace-write]
    #[arg(long, value_name = "MODE", value_enum)]
    pub(crate) sandbox: Option<SandboxMode>,
    /// The network that commands have, checks included [default: none]
    #[arg(long, value_name = "NETWORK", value_enum)]
    pub(crate) network: Option<NetworkAccess>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxMode {
    /// The workspace and a private /tmp are writable, nothing else
    WorkspaceWrite,
    /// Only a private /tmp is writable
    ReadOnly,
    /// No sandbox at all
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, ValueEnum)]
pub(crate) enum NetworkAccess {
    /// None but 127.0.0.1 among the session's own commands
    None,
    /// The host's, and what listens on it
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Text,
    /// One object at the end
    Json,
    /// One event a line, the result last
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EffortLevel {
    /// Fewest tokens
    Low,
    /// Between the two
    Medium,
    /// The provider's default
    High,
}

#[derive(Debug, Args)]
pub(crate) struct SandboxOptions {
    #[command(flatten)]
    pub(crate) place: Place,
    /// End the command after this time
    #[arg(long, value_name = "TIME", value_parser = duration::parse_ms)]
    pub(crate) timeout: Option<u64>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    /// List sessions, the last first
    List {
        /// Only those of this folder
        #[arg(short = 'C', long, value_name = "DIR")]
        workspace: Option<PathBuf>,
    },
    /// Print a session's log, one record a line
    Show {
        /// The session's id, or its first eight characters
        id: String,
    },
    /// Print a session as Markdown
    Export {
        /// The session's id, or its first eight characters
        id: String,
    },
    /// Check that a session's log is whole and unaltered
    Verify {
        /// The session's id, or its first eight characters
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScriptVerb {
    /// Serve a script over HTTP, as the provider would
    Serve {
        /// The script, YAML or JSONL
        file: PathBuf,
        /// The wire format
        #[arg(long, value_enum, default_value_t = ScriptDialect::Anthropic)]
        dialect: ScriptDialect,
        /// Where to listen; port 0 takes a free one
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
        listen: std::net::SocketAddr,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScriptDialect {
    /// Anthropic Messages
    Anthropic,
    /// OpenAI Responses
    #[value(name = "openai")]
    OpenAi,
    /// OpenAI-compatible chat completions
    #[value(name = "openai-chat")]
    OpenAiChat,
    /// Gemini
    Gemini,
}

pub(crate) fn money(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(usd) if usd.is_finite() && usd > 0.0 => Ok(usd),
        _ => Err("expected an amount of US dollars above zero, for example 0.50".to_owned()),
    }
}

/// Reads `hames -p …` as `hames run …`: the flag that users of other agents know.
pub(crate) fn with_short_run(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let first = arguments.get(1).map(|first| first.to_string_lossy().into_owned()).unwrap_or_default();
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let short = arguments.iter().take(end).position(|argument| argument == "-p" || argument == "--print");
    if let (true, Some(at)) = (first.starts_with('-') || first == "run", short) {
        arguments.remove(at);
        if first != "run" {
            arguments.insert(1, "run".into());
        }
    }
    arguments
}

/// The output format that a run asks for whose arguments cannot be read as a whole.
pub(crate) fn asked_format(arguments: &[OsString]) -> OutputFormat {
    let is_run = arguments.get(1).is_some_and(|verb| verb == "run");
    let words = arguments.iter().map(|argument| argument.to_string_lossy()).take_while(|word| word != "--");
    let words: Vec<String> = words.flat_map(|word| word.split('=').map(str::to_owned).collect::<Vec<_>>()).collect();
    let given = words.iter().position(|word| word == "--output-format").and_then(|at| words.get(at + 1));
    given.filter(|_| is_run).and_then(|word| OutputFormat::from_str(word, false).ok()).unwrap_or(OutputFormat::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_options(line: &str) -> RunOptions {
        let arguments = with_short_run(line.split(' ').map(OsString::from));
        match Cli::try_parse_from(arguments).expect(line).verb {
            Verb::Run(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_short_form_is_a_run_wherever_the_flag_stands() {
        assert_eq!(run_options("hames -p fix").prompt.as_deref(), Some("fix"));
        let options = run_options("hames --max-turns 3 -p fix --verify true");
        assert_eq!((options.flags.max_turns, options.flags.verify), (Some(3), vec!["true".to_owned()]));
        assert_eq!(run_options("hames run -p fix").prompt.as_deref(), Some("fix"));
        assert_eq!(run_options("hames run -- -p").prompt.as_deref(), Some("-p"));
    }

    #[test]
    fn limits_that_bound_nothing_are_usage_errors() {
        for flag in
            ["--max-turns 0", "--max-tokens 0", "--max-cost 0", "--max-cost -1", "--max-cost nan", "--max-time 0s"]
        {
            let line = format!("hames run x {flag}");
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{flag}");
        }
    }
}
