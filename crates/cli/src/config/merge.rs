//! Which source a setting is taken from: flag, environment, the workspace's file where it is stricter, the user's file.
//!
//! Lists add up. The workspace's file comes with the repository, so it can only tighten; what would loosen is named and
//! left out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use hames::protocol::Limits;

use super::file::{Layer, PROVIDERS};
use super::provider::Provider;
use crate::args::{EffortLevel, NetworkAccess, OutputFormat, SandboxMode, SettingFlags};
use crate::duration;

/// The variable that says where Anthropic's API is.
pub(crate) const BASE_URL_VARIABLE: &str = "ANTHROPIC_BASE_URL";

/// Where a setting came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    User,
    Workspace,
    Environment,
    Flag,
}

/// A setting with where it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Everything that holds for a command.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) model: Setting<Option<String>>,
    pub(crate) base_url: Setting<Option<String>>,
    pub(crate) effort: Setting<Option<EffortLevel>>,
    pub(crate) system_prompt_file: Setting<Option<PathBuf>>,
    pub(crate) append_system_prompt: Setting<Option<String>>,
    pub(crate) verify: Vec<Setting<String>>,
    pub(crate) protect: Vec<Setting<String>>,
    pub(crate) unprotect: Vec<Setting<String>>,
    pub(crate) max_turns: Setting<u32>,
    pub(crate) max_time: Setting<u64>,
    pub(crate) add_dir: Vec<Setting<String>>,
    pub(crate) max_tokens: Setting<u64>,
    pub(crate) max_cost: Setting<Option<f64>>,
    pub(crate) sandbox: Setting<SandboxMode>,
    pub(crate) network: Setting<NetworkAccess>,
    pub(crate) output_format: Setting<OutputFormat>,
    pub(crate) providers: BTreeMap<String, Provider>,
}

/// What the sources say, the strongest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    pub(crate) flags: SettingFlags,
    pub(crate) base_url_variable: Option<String>,
    pub(crate) workspace: Layer,
    pub(crate) user: Layer,
}

/// Merges the sources; beside the settings a sentence for each thing that was ignored.
pub(crate) fn merge(sources: Sources) -> (Settings, Vec<String>) {
    let Sources { flags, base_url_variable, workspace, user } = sources;
    let mut ignored = Ignored { layer: &workspace, sentences: Vec::new() };
    ignored.loosening();
    let (theirs, mine, limits) = (&workspace.settings, user.settings, Limits::default());
    let sandbox = sandbox(&flags, theirs, mine.place.sandbox, &mut ignored);
    let network = network(&flags, theirs, mine.place.network, &mut ignored);
    let checks = if sandbox.value == SandboxMode::Off { ignored.checks() } else { theirs.verify.clone() };
    let base_url = match (flags.base_url, base_url_variable) {
        (None, Some(url)) => Setting { value: Some(url), origin: Origin::Environment },
        (flag, _) => optional(flag, mine.base_url),
    };
    let max_turns = ignored.limit("max_turns", theirs.max_turns, or(mine.max_turns, limits.max_turns), u32::to_string);
    let written = |ms: &u64| duration::written(*ms);
    let max_time = ignored.limit("max_time", theirs.max_time, or(mine.max_time, limits.max_time_ms), written);
    let max_tokens =
        ignored.limit("max_tokens", theirs.max_tokens, or(mine.max_tokens, limits.max_tokens), u64::to_string);
    // No bound on cost is a bound that nothing reaches.
    let max_cost = ignored.limit("max_cost", theirs.max_cost, or(mine.max_cost, f64::INFINITY), f64::to_string);
    let max_cost = flagged(flags.max_cost, max_cost);
    let settings = Settings {
        model: optional(flags.model, mine.model),
        base_url,
        effort: optional(flags.effort, mine.effort),
        system_prompt_file: optional(flags.system_prompt_file, mine.system_prompt_file),
        append_system_prompt: optional(flags.append_system_prompt, mine.append_system_prompt),
        verify: list([(Origin::User, mine.verify), (Origin::Workspace, checks), (Origin::Flag, flags.verify)]),
        protect: list([
            (Origin::User, mine.place.protect),
            (Origin::Workspace, theirs.place.protect.clone()),
            (Origin::Flag, flags.place.protect),
        ]),
        unprotect: list([(Origin::User, mine.place.unprotect), (Origin::Flag, flags.place.unprotect)]),
        add_dir: list([(Origin::User, mine.place.add_dir), (Origin::Flag, flags.place.add_dir)]),
        max_turns: flagged(flags.max_turns, max_turns),
        max_time: flagged(flags.max_time, max_time),
        max_tokens: flagged(flags.max_tokens, max_tokens),
        max_cost: Setting { value: Some(max_cost.value).filter(|usd| usd.is_finite()), origin: max_cost.origin },
        sandbox,
        network,
        output_format: flagged(flags.output_format, or(mine.output_format, OutputFormat::Text)),
        providers: user.providers,
    };
    (settings, ignored.sentences)
}

fn sandbox(
    flags: &SettingFlags,
    theirs: &SettingFlags,
    mine: Option<SandboxMode>,
    ignored: &mut Ignored<'_>,
) -> Setting<SandboxMode> {
    let looseness = |mode: SandboxMode| match mode {
        SandboxMode::ReadOnly => 0,
        SandboxMode::WorkspaceWrite => 1,
        SandboxMode::Off => 2,
    };
    let mut held = or(mine, SandboxMode::WorkspaceWrite);
    if let Some(wanted) = theirs.place.sandbox {
        if looseness(wanted) < looseness(held.value) {
            held = Setting { value: wanted, origin: Origin::Workspace };
        } else if looseness(wanted) > looseness(held.value) {
            ignored.say("sandbox", "it would loosen the sandbox");
        }
    }
    flagged(flags.place.sandbox, held)
}

fn network(
    flags: &SettingFlags,
    theirs: &SettingFlags,
    mine: Option<NetworkAccess>,
    ignored: &mut Ignored<'_>,
) -> Setting<NetworkAccess> {
    let mut held = or(mine, NetworkAccess::None);
    match theirs.place.network {
        Some(wanted) if wanted < held.value => held = Setting { value: wanted, origin: Origin::Workspace },
        Some(wanted) if wanted > held.value => ignored.say("network", "it would open the network to commands"),
        _ => {}
    }
    flagged(flags.place.network, held)
}

fn or<T>(mine: Option<T>, default: T) -> Setting<T> {
    match mine {
        Some(value) => Setting { value, origin: Origin::User },
        None => Setting { value: default, origin: Origin::Default },
    }
}

fn flagged<T>(flag: Option<T>, held: Setting<T>) -> Setting<T> {
    flag.map_or(held, |value| Setting { value, origin: Origin::Flag })
}

fn optional<T>(flag: Option<T>, mine: Option<T>) -> Setting<Option<T>> {
    let origin = match (&flag, &mine) {
        (Some(_), _) => Origin::Flag,
        (None, Some(_)) => Origin::User,
        (None, None) => Origin::Default,
    };
    Setting { value: flag.or(mine), origin }
}

fn list<const N: usize>(sources: [(Origin, Vec<String>); N]) -> Vec<Setting<String>> {
    let mut list: Vec<Setting<String>> = Vec::new();
    for (origin, values) in sources {
        for value in values {
            // What is asked for again keeps the stronger of its sources.
            list.retain(|setting| setting.value != value);
            list.push(Setting { value, origin });
        }
    }
    list
}

/// What of the workspace's file does not hold.
struct Ignored<'a> {
    layer: &'a Layer,
    sentences: Vec<String>,
}

impl Ignored<'_> {
    /// Keys that can only loosen, redirect or surprise.
    fn loosening(&mut self) {
        const NEVER: [&str; 9] = [
            "model",
            "base_url",
            "effort",
            "system_prompt_file",
            "append_system_prompt",
            "unprotect",
            "add_dir",
            "output_format",
            PROVIDERS,
        ];
        for key in NEVER {
            if self.layer.lines.contains_key(key) {
                self.say(key, "a workspace's file can only be stricter; set it in your own file or by its flag");
            }
        }
    }

    fn checks(&mut self) -> Vec<String> {
        if !self.layer.settings.verify.is_empty() {
            self.say("verify", "without a sandbox no command of the workspace's file is run; name it with --verify");
        }
        Vec::new()
    }

    fn limit<T: PartialOrd>(
        &mut self,
        key: &str,
        theirs: Option<T>,
        held: Setting<T>,
        shown: impl Fn(&T) -> String,
    ) -> Setting<T> {
        match theirs {
            Some(value) if value < held.value => Setting { value, origin: Origin::Workspace },
            Some(value) if value > held.value => {
                self.say(key, format_args!("it would raise the limit of {}", shown(&held.value)));
                held
            }
            _ => held,
        }
    }

    fn say(&mut self, key: &str, why: impl fmt::Display) {
        let line = self.layer.lines.get(key).copied().unwrap_or(1);
        self.sentences.push(format!("{}, line {line}: `{key}` is ignored: {why}.", self.layer.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::{Owner, parse};

    fn merged(user: &str, workspace: &str, flags: SettingFlags) -> (Settings, Vec<String>) {
        merge(Sources {
            flags,
            base_url_variable: None,
            workspace: parse("w.toml", workspace, Owner::Workspace).unwrap(),
            user: parse("u.toml", user, Owner::User).unwrap(),
        })
    }

    #[test]
    fn a_workspace_tightens_and_a_flag_has_the_last_word() {
        let workspace = "max_turns = 5\nmax_time = \"1m\"\nmax_tokens = 10\nmax_cost = 1\nsandbox = \"read-only\"\n\
                         network = \"none\"\n";
        let (settings, ignored) =
            merged("max_turns = 9\nsandbox = \"off\"\nnetwork = \"full\"\n", workspace, SettingFlags::default());
        assert_eq!(ignored, Vec::<String>::new());
        assert_eq!(settings.max_turns, Setting { value: 5, origin: Origin::Workspace });
        assert_eq!(
            (settings.max_time.value, settings.max_tokens.value, settings.max_cost.value),
            (60_000, 10, Some(1.0))
        );
        assert_eq!(settings.sandbox, Setting { value: SandboxMode::ReadOnly, origin: Origin::Workspace });
        assert_eq!(settings.network, Setting { value: NetworkAccess::None, origin: Origin::Workspace });
        let flags = SettingFlags { max_turns: Some(70), ..SettingFlags::default() };
        let (settings, _) = merged("", workspace, flags);
        assert_eq!(settings.max_turns, Setting { value: 70, origin: Origin::Flag });
    }

    #[test]
    fn what_would_loosen_is_ignored_and_named_with_its_line() {
        let workspace = "max_turns = 500\nmax_time = \"9h\"\nmax_tokens = 900000000\nmax_cost = 7\nsandbox = \"off\"\n\
                         model = \"x/y\"\nbase_url = \"http://evil.test\"\neffort = \"high\"\nunprotect = [\"/**\"]\nadd_dir = [\"/srv:rw\"]\n\
                         system_prompt_file = \"x\"\nappend_system_prompt = \"x\"\noutput_format = \"json\"\n\
                         network = \"full\"\n[providers.evil]\nkey_command = \"touch canary\"\n";
        let (settings, ignored) = merged("max_cost = 3\n", workspace, SettingFlags::default());
        let (bare, _) = merged("max_cost = 3\n", "", SettingFlags::default());
        assert_eq!(format!("{settings:?}"), format!("{bare:?}"));
        assert_eq!(ignored.len(), 15, "{ignored:#?}");
        assert!(ignored.iter().any(|line| line.starts_with("w.toml, line 7: `base_url` is ignored")), "{ignored:#?}");
        assert!(ignored.iter().any(|line| line.contains("`max_time` is ignored: it would raise the limit of 30m")));
    }

    #[test]
    fn lists_add_up_and_each_thing_is_named_once() {
        let flags = SettingFlags { verify: vec!["a".into(), "c".into()], ..SettingFlags::default() };
        let (settings, _) = merged("verify = [\"a\"]\n", "verify = [\"b\"]\nprotect = [\"p\"]\n", flags);
        let shown: Vec<_> = settings.verify.iter().map(|check| (check.value.as_str(), check.origin)).collect();
        assert_eq!(shown, [("b", Origin::Workspace), ("a", Origin::Flag), ("c", Origin::Flag)]);
        assert_eq!(settings.protect, [Setting { value: "p".to_owned(), origin: Origin::Workspace }]);
    }

    #[test]
    fn without_a_sandbox_no_command_of_the_workspace_is_a_check() {
        let (settings, ignored) =
            merged("sandbox = \"off\"\n", "verify = [\"touch canary\"]\n", SettingFlags::default());
        assert_eq!(settings.verify, []);
        assert!(ignored.len() == 1 && ignored[0].contains("`verify` is ignored"), "{ignored:?}");
    }

    #[test]
    fn the_variable_stands_between_flag_and_file() {
        let base_url = |flag: Option<&str>, variable: Option<&str>| {
            let flags = SettingFlags { base_url: flag.map(str::to_owned), ..SettingFlags::default() };
            let user = parse("u.toml", "base_url = \"file\"\n", Owner::User).unwrap();
            let base_url_variable = variable.map(str::to_owned);
            let settings = merge(Sources { flags, base_url_variable, user, ..Sources::default() }).0;
            (settings.base_url.value.unwrap(), settings.base_url.origin)
        };
        assert_eq!(base_url(Some("flag"), Some("variable")), ("flag".to_owned(), Origin::Flag));
        assert_eq!(base_url(None, Some("variable")), ("variable".to_owned(), Origin::Environment));
        assert_eq!(base_url(None, None), ("file".to_owned(), Origin::User));
    }
}
