//! Which paths of the workspace nobody may change (promise P5): one immutable answer for file tools and commands.
//!
//! What is protected is fixed when the session starts. Names decide about settings, and about additions that would
//! change how tests run; the test files are those that were there; links and hard links to any of these count as
//! well, so that no second name is a way around. A change to the workspace can thus never widen what may be written.

mod glob;
pub(crate) mod names;
mod scan;
mod survey;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hames_protocol::port::FileKind;

use glob::Globs;
use survey::Memory;
pub(crate) use survey::Survey;

/// Whether the tests are protected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TestFiles {
    /// They are: a check is configured, and the tests are what it goes by.
    Guarded,
    /// They may be edited like any other file.
    #[default]
    Open,
}

/// What to protect beside the settings that are protected always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectionConfig {
    /// Whether the tests are protected.
    pub tests: TestFiles,
    /// More globs to protect, in gitignore syntax.
    pub protect: Vec<String>,
    /// Globs to leave open, in gitignore syntax; they win over everything else that is protected.
    pub unprotect: Vec<String>,
}

/// Why the protection cannot be worked out.
#[derive(Debug, thiserror::Error)]
pub enum ProtectionProblem {
    /// A glob of the user is not one.
    #[error(
        "The glob `{glob}` in {option} cannot be used: {why}. Write it as in a .gitignore file, relative to the workspace."
    )]
    Glob {
        /// The option that it was given with.
        option: &'static str,
        /// The glob.
        glob: String,
        /// Why.
        why: String,
    },
    /// The workspace cannot be read.
    #[error("The workspace {} cannot be read: {why}. Name a folder that exists and that you may read.", .root.display())]
    Root {
        /// Its path.
        root: PathBuf,
        /// The system's words.
        why: io::Error,
    },
}

/// What a protected path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GuardKind {
    /// A file: everything that is no folder and no link.
    File,
    /// A folder, with all that is in it and all that may be added.
    Folder,
    /// A symbolic link; what it leads to inside the workspace is listed by itself.
    Link,
}

/// Since when a protected path exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Since {
    /// It was there at the start.
    Start,
    /// It came later, past the protection: nothing may execute or obey it.
    Later,
}

/// A protected path that exists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Guarded {
    /// Relative to the workspace root.
    pub path: PathBuf,
    /// What it is.
    pub kind: GuardKind,
    /// The rule that protects it, in words.
    pub rule: String,
    /// Since when it exists.
    pub since: Since,
    /// For a folder: what in it exists and stays writable, relative to the workspace root.
    pub writable: Vec<PathBuf>,
}

/// A protected path that does not exist yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Absent {
    /// Relative to the workspace root; the folder that would hold it may be missing as well.
    pub path: PathBuf,
    /// The rule that protects it, in words.
    pub rule: String,
}

/// The protected paths of one workspace. Immutable; share it as an `Arc`.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use hames_protocol::port::FileKind;
/// use hames_sandbox::{Protection, ProtectionConfig};
/// # let workspace = std::env::temp_dir().join(format!("hames-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&workspace)?;
///
/// let protection = Protection::new(&workspace, ProtectionConfig::default())?;
/// assert!(protection.rule(".git/hooks/pre-commit", FileKind::Missing).is_some());
/// assert!(protection.rule("src/lib.rs", FileKind::File).is_none());
/// # std::fs::remove_dir(&workspace)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Protection {
    root: PathBuf,
    tests: TestFiles,
    protect: Globs,
    unprotect: Globs,
    /// Test files that were there at the start.
    test_files: BTreeSet<String>,
    /// Folders that held test files at the start.
    test_folders: BTreeSet<String>,
    /// Files that would change how the tests run if they were new, but were there at the start and stay editable.
    known_config: HashSet<String>,
    /// Second names, known at the start, of what is protected: targets of links, hard links. Each with its rule.
    second_names: BTreeMap<String, String>,
    /// Device and inode of each protected file at the start, with its rule.
    identities: HashMap<(u64, u64), String>,
    /// All protected paths that were there at the start.
    at_start: HashSet<PathBuf>,
    /// What the last look at the workspace found.
    memory: Memory,
}

impl Protection {
    /// Works out what is protected in the workspace at `root` as it is now. Blocks while it walks the workspace.
    ///
    /// # Errors
    /// When a glob is not one, in a sentence that names it, and when the workspace cannot be read.
    pub fn new(root: &Path, config: ProtectionConfig) -> Result<Self, ProtectionProblem> {
        let problem = |why| ProtectionProblem::Root { root: root.to_owned(), why };
        let mut protection = Self {
            root: root.canonicalize().map_err(problem)?,
            tests: config.tests,
            protect: Globs::new("--protect", &config.protect)?,
            unprotect: Globs::new("--unprotect", &config.unprotect)?,
            test_files: BTreeSet::new(),
            test_folders: BTreeSet::new(),
            known_config: HashSet::new(),
            second_names: BTreeMap::new(),
            identities: HashMap::new(),
            at_start: HashSet::new(),
            memory: Memory::default(),
        };
        if protection.tests == TestFiles::Guarded {
            protection.test_files = scan::test_files(&protection.root).map_err(problem)?;
            protection.test_folders = protection.test_files.iter().map(|path| folder_of(path).to_owned()).collect();
        }
        protection.take_stock().map_err(problem)?;
        Ok(protection)
    }

    /// The real path of the workspace that this protects.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The rule that protects a path, in words; none when it may be changed. The path need not exist.
    ///
    /// `relative` is where it really lands, relative to the workspace root, without `.` and `..`.
    pub fn rule(&self, relative: &str, kind: FileKind) -> Option<&str> {
        let is_folder = kind == FileKind::Folder;
        if relative.is_empty() || relative == "." || self.unprotect.rule(relative, is_folder).is_some() {
            return None;
        }
        names::settings_rule(relative, is_folder)
            .or_else(|| scan::bare_git_rule(&self.root, relative, is_folder))
            .or_else(|| self.test_rule(relative, is_folder))
            .or_else(|| self.protect.rule(relative, is_folder))
            .or_else(|| {
                let above = std::iter::successors(Some(relative), |path| path.rsplit_once('/').map(|(above, _)| above));
                above.filter_map(|path| self.second_names.get(path)).map(String::as_str).next()
            })
    }

    /// The rule that protects the file with this device and inode number under any name; none when there is none.
    pub fn rule_of_inode(&self, device: u64, inode: u64) -> Option<&str> {
        self.identities.get(&(device, inode)).map(String::as_str)
    }

    /// The protected files and folders that exist now, a wholly protected folder once, sorted by path. Looks at every
    /// folder of the workspace, and reads those that changed since it last did.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn existing(&self) -> io::Result<Vec<Guarded>> {
        Ok(self.survey()?.guarded)
    }

    /// The same, and the repositories in the workspace; all sorted by path.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub(crate) fn survey(&self) -> io::Result<Survey> {
        let mut found = survey::look(self, &self.memory)?;
        found.guarded.sort();
        found.repositories.sort();
        found.pointers.sort();
        Ok(found)
    }

    /// The rule against a new file that would make a folder a repository; none when it would not. Only file tools are
    /// held to it: what a command makes is looked at when it has ended.
    pub(crate) fn completion_rule(&self, relative: &str) -> Option<&'static str> {
        let is_open = self.unprotect.rule(relative, false).is_some();
        scan::completion_rule(&self.root, relative).filter(|_| !is_open)
    }

    /// The protected paths without a wildcard that do not exist now, sorted: what a command could still bring into
    /// being. Nothing but names that are looked for at a fixed place is listed.
    pub fn absent(&self) -> Vec<Absent> {
        let mut paths: BTreeSet<String> = names::ROOT_SETTINGS.iter().map(|&name| name.to_owned()).collect();
        let known = self.at_start.iter().filter_map(|path| scan::git_folder_of(&self.root, path));
        for git in known.chain([".git".to_owned()]).filter(|git| self.root.join(git).is_dir()) {
            paths.extend([format!("{git}/hooks"), format!("{git}/info")]);
        }
        paths.extend(self.protect.literals().map(str::to_owned));
        paths
            .into_iter()
            .filter(|path| self.root.join(path).symlink_metadata().is_err())
            .filter_map(|path| {
                let rule = self.rule(&path, FileKind::Folder).or_else(|| self.rule(&path, FileKind::Missing))?;
                Some(Absent { rule: rule.to_owned(), path: path.into() })
            })
            .collect()
    }

    /// The protected regular files that exist now, those in protected folders included, relative to the root.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub(crate) fn files(&self) -> io::Result<Vec<String>> {
        let mut files = Vec::new();
        for guarded in self.existing()? {
            scan::files_of(self, &guarded, |path| files.extend(path.to_str().map(str::to_owned)));
        }
        Ok(files)
    }

    fn test_rule(&self, relative: &str, is_folder: bool) -> Option<&str> {
        if self.tests == TestFiles::Open || is_folder {
            return None;
        }
        if self.test_files.contains(relative) {
            return Some(names::TEST_RULE);
        }
        let refused = self.changes_runs(relative) && !self.known_config.contains(relative);
        refused.then_some(names::RUNNER_RULE)
    }

    fn changes_runs(&self, relative: &str) -> bool {
        names::changes_runs(relative, self.test_folders.contains(folder_of(relative)))
    }

    /// Notes what exists at the start, and every second name of it.
    fn take_stock(&mut self) -> io::Result<()> {
        let mut found = survey::look(self, &Memory::default())?.guarded;
        let config = found.iter().filter(|guarded| guarded.rule == names::RUNNER_RULE);
        let config = config.filter_map(|guarded| guarded.path.to_str()).filter(|path| !names::is_runner_file(path));
        self.known_config = config.map(str::to_owned).collect();
        found.retain(|guarded| self.rule(&guarded.path.to_string_lossy(), guarded.kind.into()).is_some());

        let mut second_names = BTreeMap::new();
        let mut identities = HashMap::new();
        let mut linked = false;
        for guarded in &found {
            second_names.extend(self.target_of(guarded));
            scan::files_of(self, guarded, |path| {
                let Ok(metadata) = self.root.join(path).symlink_metadata() else { return };
                linked |= metadata.nlink() > 1;
                let rule = format!("it is the same file as `{}`, which is protected", path.display());
                identities.insert((metadata.dev(), metadata.ino()), rule);
            });
        }
        if linked {
            let names = scan::names_of(&self.root, &identities)?;
            second_names.extend(names.into_iter().filter(|(name, _)| self.rule(name, FileKind::File).is_none()));
        }
        self.identities = identities;
        self.second_names = second_names;
        if !self.second_names.is_empty() {
            found = survey::look(self, &Memory::default())?.guarded;
        }
        self.at_start = found.into_iter().map(|guarded| guarded.path).collect();
        Ok(())
    }

    /// Where a protected link leads inside the workspace, with the rule for that.
    fn target_of(&self, guarded: &Guarded) -> Option<(String, String)> {
        if guarded.kind != GuardKind::Link {
            return None;
        }
        let target = self.root.join(&guarded.path).canonicalize().ok()?;
        // Test folders often link to the sources under test; only a link that is itself a test makes its target one.
        let name = guarded.path.file_name()?.to_str()?;
        let is_source = names::test_name(name) != names::TestName::Yes || !target.is_file();
        if guarded.rule == names::TEST_RULE && is_source {
            return None;
        }
        let target = target.strip_prefix(&self.root).ok()?.to_str().filter(|target| !target.is_empty())?;
        Some((target.to_owned(), format!("`{}`, which is protected, leads to it", guarded.path.display())))
    }
}

impl From<GuardKind> for FileKind {
    fn from(kind: GuardKind) -> Self {
        if kind == GuardKind::Folder { Self::Folder } else { Self::File }
    }
}

/// The folder part of a path; empty for what lies at the root.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
