//! Reads the settings of a repository (the text format of git-config(1)) and tells which of them are inert.
//!
//! The reader takes only the plain forms that git itself writes. What it does not understand makes the text *not
//! plain*, and such a text is never left to git: it is written anew from what was understood. So where this reader and
//! git's differ, a setting can be lost, but none can slip through. For the same reason the settings that may stay are
//! listed, not those that may not: git knows dozens that run a program, and more with each release.

use std::fmt::Write as _;

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Its section, in lower case.
    section: String,
    /// What the section is about, such as the name of a remote.
    about: Option<String>,
    /// Its key, in lower case.
    key: String,
    /// Its value; none for a key alone, which is true.
    value: Option<String>,
}

/// The settings of a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Settings {
    all: Vec<Setting>,
    /// Whether every line of the text was understood.
    pub(crate) is_plain: bool,
}

/// Sections with the keys of theirs that run nothing and lead nowhere.
const INERT: [(&str, &[&str]); 21] = [
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "loosecompression",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "noop",
            "objectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "relativeworktrees",
            "worktreeconfig",
        ],
    ),
    ("user", &["email", "name", "signingkey", "useconfigonly"]),
    ("author", &["email", "name"]),
    ("committer", &["email", "name"]),
    ("init", &["defaultbranch"]),
    ("advice", &["detachedhead", "addembeddedrepo", "ignoredhook"]),
    ("diff", &["algorithm", "colormoved", "context", "mnemonicprefix", "noprefix", "renamelimit", "renames"]),
    ("fetch", &["prune", "prunetags", "recursesubmodules"]),
    ("gc", &["auto", "autodetach"]),
    ("i18n", &["commitencoding", "logoutputencoding"]),
    ("index", &["version", "sparse"]),
    ("lfs", &["repositoryformatversion"]),
    ("log", &["date", "decorate"]),
    ("maintenance", &["auto", "strategy"]),
    ("merge", &["conflictstyle", "ff", "renames"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("rebase", &["autosquash", "autostash"]),
    ("receive", &["denycurrentbranch", "denydeletes", "denynonfastforwards"]),
    ("status", &["showuntrackedfiles"]),
];

/// The same of sections that are about something by name.
const INERT_ABOUT: [(&str, &[&str]); 3] = [
    ("branch", &["description", "merge", "pushremote", "rebase", "remote", "vscode-merge-base"]),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "prunetags",
            "push",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    ("submodule", &["active", "branch", "fetchrecursesubmodules", "ignore", "path", "shallow", "update", "url"]),
];

impl Setting {
    /// Its name as git shows it.
    pub(crate) fn name(&self) -> String {
        match &self.about {
            Some(about) => format!("{}.{about}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }

    /// Its value; none for a key alone.
    pub(crate) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Whether git can obey it without running a program or going elsewhere.
    pub(crate) fn is_inert(&self) -> bool {
        let value = self.value.as_deref().unwrap_or("true");
        let table: &[(&str, &[&str])] = if self.about.is_some() { &INERT_ABOUT } else { &INERT };
        let keys = table.iter().find(|(section, _)| *section == self.section).map_or(&[][..], |(_, keys)| keys);
        let is_known = keys.contains(&self.key.as_str())
            // Signing runs a program; not to sign does not.
            || (self.section == "commit" && self.key == "gpgsign" && matches!(value, "false" | "no" | "off" | "0"));
        is_known
            && match self.key.as_str() {
                // `ext::` and the like name a program; what begins with a dash could become an option of one.
                "url" | "pushurl" => !value.contains("::") && !value.starts_with('-'),
                "update" => !value.trim_start().starts_with('!'),
                _ => true,
            }
    }
}

impl Settings {
    /// Reads a text.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else { return Self::default() };
        let mut settings = Self { all: Vec::new(), is_plain: true };
        let mut section: Option<(String, Option<String>)> = None;
        for line in text.split('\n').map(|line| line.trim_matches([' ', '\t', '\r'])) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.starts_with('[') {
                section = header(line);
                settings.is_plain &= section.is_some();
                continue;
            }
            match (&section, pair(line)) {
                (Some((section, about)), Some((key, value))) => {
                    let (section, about) = (section.clone(), about.clone());
                    settings.all.push(Setting { section, about, key, value });
                }
                _ => settings.is_plain = false,
            }
        }
        settings
    }

    /// The last value of a setting without a name.
    pub(crate) fn value(&self, section: &str, key: &str) -> Option<&str> {
        let is_it = |setting: &&Setting| setting.about.is_none() && setting.section == section && setting.key == key;
        self.all.iter().rev().find(is_it)?.value.as_deref()
    }

    /// Takes out what `stays` does not let stay, and returns it.
    pub(crate) fn take_out(&mut self, stays: impl Fn(&Setting) -> bool) -> Vec<Setting> {
        let (kept, taken) = std::mem::take(&mut self.all).into_iter().partition(stays);
        self.all = kept;
        taken
    }

    /// The settings as a text that git reads as they were read here.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut open: Option<(&str, Option<&str>)> = None;
        for Setting { section, about, key, value } in &self.all {
            let head = (section.as_str(), about.as_deref());
            // Writing to a text cannot fail.
            if open != Some(head) {
                let _ = match about {
                    Some(about) => writeln!(text, "[{section} \"{}\"]", escaped(about)),
                    None => writeln!(text, "[{section}]"),
                };
                open = Some(head);
            }
            let _ = match value {
                Some(value) => writeln!(text, "\t{key} = \"{}\"", escaped(value)),
                None => writeln!(text, "\t{key}"),
            };
        }
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t")
}

/// `[section]` or `[section "about"]`.
fn header(line: &str) -> Option<(String, Option<String>)> {
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    let (section, about) = match inside.split_once(' ') {
        Some((section, about)) => (section, Some(quoted(about)?)),
        None => (inside, None),
    };
    is_word(section).then(|| (section.to_ascii_lowercase(), about))
}

/// `key` or `key = value`.
fn pair(line: &str) -> Option<(String, Option<String>)> {
    let (key, value) = match line.split_once('=') {
        Some((key, value)) => (key.trim_end_matches([' ', '\t']), Some(value.trim_matches([' ', '\t']))),
        None => (line, None),
    };
    let value = match value {
        Some(value) if value.starts_with('"') => Some(quoted(value)?),
        Some(value) if value.contains(['"', '\\', '#', ';']) || value.chars().any(char::is_control) => return None,
        value => value.map(str::to_owned),
    };
    let begins_well = key.starts_with(|c: char| c.is_ascii_alphabetic());
    (begins_well && is_word(key)).then(|| (key.to_ascii_lowercase(), value))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// The text in one pair of quotes, in which only quotes and backslashes are escaped.
fn quoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return None,
            '\\' => plain.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            character if character.is_control() => return None,
            character => plain.push(character),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted_out(text: &str) -> (Vec<String>, String, bool) {
        let mut settings = Settings::read(text.as_bytes());
        let taken = settings.take_out(Setting::is_inert);
        (taken.iter().map(Setting::name).collect(), settings.to_text(), settings.is_plain)
    }

    #[test]
    fn what_git_itself_writes_is_plain_and_inert() {
        let text = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
                    # a comment\n[remote \"origin\"]\n\turl = /a b/c.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
                    [branch \"ma\\\"in\"]\n\tremote = origin\n\tmerge = refs/heads/main\n[submodule \"a/b\"]\n\tactive\n";
        let (taken, rest, is_plain) = sorted_out(text);
        assert!(taken.is_empty() && is_plain, "{taken:?}");
        assert_eq!(Settings::read(rest.as_bytes()).all, Settings::read(text.as_bytes()).all);
    }

    #[test]
    fn whatever_can_run_a_program_is_taken_out() {
        for (text, name) in [
            ("[core]\nfsmonitor = x\nbare = false", "core.fsmonitor"),
            ("[CORE]\nHooksPath = x", "core.hookspath"),
            ("[core]\nsshCommand = x", "core.sshcommand"),
            ("[core]\npager = x", "core.pager"),
            ("[core]\neditor = x", "core.editor"),
            ("[core]\ngitProxy = x", "core.gitproxy"),
            ("[core]\nattributesFile = x", "core.attributesfile"),
            ("[core]\nworktree = /", "core.worktree"),
            ("[diff]\nexternal = x", "diff.external"),
            ("[diff \"a\"]\ntextconv = x", "diff.a.textconv"),
            ("[filter \"a\"]\nclean = x", "filter.a.clean"),
            ("[merge \"a\"]\ndriver = x", "merge.a.driver"),
            ("[alias]\nst = !x", "alias.st"),
            ("[credential]\nhelper = x", "credential.helper"),
            ("[credential \"https://a\"]\nhelper = x", "credential.https://a.helper"),
            ("[include]\npath = x", "include.path"),
            ("[includeIf \"gitdir:/\"]\npath = x", "includeif.gitdir:/.path"),
            ("[protocol \"ext\"]\nallow = always", "protocol.ext.allow"),
            ("[remote \"o\"]\nurl = ext::sh -c x", "remote.o.url"),
            ("[remote \"o\"]\nuploadpack = x", "remote.o.uploadpack"),
            ("[remote \"o\"]\nvcs = x", "remote.o.vcs"),
            ("[submodule \"s\"]\nupdate = !x", "submodule.s.update"),
            ("[gpg]\nprogram = x", "gpg.program"),
            ("[gpg \"ssh\"]\nprogram = x", "gpg.ssh.program"),
            ("[commit]\ngpgsign = true", "commit.gpgsign"),
            ("[sequence]\neditor = x", "sequence.editor"),
            ("[pager]\nlog = x", "pager.log"),
            ("[uploadpack]\npackObjectsHook = x", "uploadpack.packobjectshook"),
            ("[hook \"a\"]\ncommand = x", "hook.a.command"),
            ("[trailer \"a\"]\ncmd = x", "trailer.a.cmd"),
            ("[browser \"a\"]\ncmd = x", "browser.a.cmd"),
            ("[from-the-future]\nrun = x", "from-the-future.run"),
        ] {
            assert_eq!(sorted_out(text).0, [name], "{text}");
            assert!(!sorted_out(text).1.contains('x'), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_never_left_to_git() {
        for text in [
            "[core] fsmonitor = evil\n",
            "[core]\nbare = false \\\n; fsmonitor = evil\n",
            "[core\n]\nfsmonitor = evil\n",
            "[core \"a\nb\"]\nfsmonitor = evil\n",
            "[core]\nabbrev = \"a\\\nb\"\n",
            "[core]\nfs\u{0}monitor = evil\n",
            "fsmonitor = evil\n",
            "[co.re]\nfsmonitor = evil\n",
        ] {
            let (_, rest, is_plain) = sorted_out(text);
            assert!(!is_plain && !rest.contains("evil"), "{text:?}: {rest}");
        }
        assert!(!Settings::read(b"[core]\nbare = \xff\n").is_plain);
    }
}
