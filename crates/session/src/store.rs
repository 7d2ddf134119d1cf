//! All sessions beneath one folder: making, opening, finding and listing them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hames_protocol::{Digest, Entry, Epoch, Record, Seq, SessionId};
use uuid::Uuid;

use crate::audit::Link;
use crate::disk::{make_folder, open_regular, private_file, refused};
use crate::journal::Files;
use crate::line::Sha;
use crate::load::load;
use crate::lock::Lock;
use crate::{FileJournal, FolderBlobs, Records, Report, StoreProblem, Summary, verify};

/// The largest log that is opened, in bytes. All its records are kept in memory while the session is open; this bounds
/// what that can take.
const LARGEST_LOG: u64 = 384 << 20;

/// The fewest characters that name a session: less would often fit several.
const SHORTEST_PREFIX: usize = 8;

/// The sessions beneath one folder. Holds nothing open; any number may be made for the same folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// A session that this process has open for writing, until its journal is dropped.
#[derive(Debug)]
pub struct OpenSession {
    /// The session.
    pub id: SessionId,
    /// Its folder.
    pub folder: PathBuf,
    /// The folder for what the sandbox keeps for this session.
    pub private: PathBuf,
    /// The log, ready for the next entry, which is to be [`Entry::Opened`].
    pub journal: FileJournal,
    /// The bytes that are too large for the log.
    pub blobs: FolderBlobs,
    /// Everything in the log so far.
    pub records: Vec<Record>,
    /// What was found broken, as sentences; each is to be written as [`Entry::Repaired`] after the opening, or it is
    /// found again.
    pub repairs: Vec<String>,
    /// The epoch that began with this opening; the journal writes it into each record.
    pub epoch: Epoch,
}

impl OpenSession {
    /// The workspace's root as the log tells it; none before the first record.
    pub fn workspace(&self) -> Option<&Path> {
        self.records.iter().rev().find_map(|record| match &record.entry {
            Entry::Opened(opened) => Some(Path::new(opened.workspace.as_str())),
            _ => None,
        })
    }
}

impl Store {
    /// Keeps sessions beneath `root`, which is made with the first of them.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes a session for a workspace.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(&self, workspace: &Path) -> Result<OpenSession, StoreProblem> {
        let id = SessionId::new(Uuid::now_v7().to_string());
        let shelf = self.root.join(workspace_key(workspace));
        let folder = shelf.join(id.as_str());
        make_folder(&folder.join("blobs"))?;
        make_folder(&folder.join("private"))?;
        let lock = Lock::take(&folder.join("lock"), &id)?;
        let log = folder.join("log.jsonl");
        let log = open_regular(private_file().read(true).append(true).create_new(true), &log)?;
        let before_first = Sha::before_first(&id);
        let start = (Link { seq: Seq(0), prev: before_first, hash: before_first }, 0, Epoch(1));
        let new_folders = vec![folder.clone(), shelf, self.root.clone()];
        let files = Files { log, heads: open_heads(&folder)?, lock };
        let journal = FileJournal::new(files, &folder, start, new_folders);
        let journal = journal.map_err(|cause| refused("open the log in", &folder, &cause))?;
        Ok(OpenSession {
            private: folder.join("private"),
            blobs: FolderBlobs::new(folder.join("blobs")),
            journal,
            records: Vec::new(),
            repairs: Vec::new(),
            epoch: Epoch(1),
            id,
            folder,
        })
    }

    /// Opens a session to continue it. What is broken is cut or skipped, and told in [`OpenSession::repairs`].
    ///
    /// # Errors
    /// When there is no such session, another process has it open, its log is too large, of a newer format or another
    /// session's, or the disk refuses.
    pub fn open(&self, id: &SessionId) -> Result<OpenSession, StoreProblem> {
        let folder = self.folder(id)?;
        let lock = Lock::take(&folder.join("lock"), id)?;
        let path = folder.join("log.jsonl");
        let mut log = open_regular(private_file().read(true).append(true), &path)?;
        let bytes = log.metadata().map_err(|cause| refused("look at", &path, &cause))?.len();
        if bytes > LARGEST_LOG {
            return Err(StoreProblem::TooLarge { id: id.clone(), bytes, limit: LARGEST_LOG });
        }
        let loaded = load(id, &folder, &mut log)?;
        make_folder(&folder.join("private"))?;
        let files = Files { log, heads: open_heads(&folder)?, lock };
        let start = (loaded.head, loaded.length, loaded.epoch);
        let journal = FileJournal::new(files, &folder, start, Vec::new());
        Ok(OpenSession {
            id: id.clone(),
            private: folder.join("private"),
            blobs: FolderBlobs::new(folder.join("blobs")),
            journal: journal.map_err(|cause| refused("open the log in", &folder, &cause))?,
            records: loaded.records,
            repairs: loaded.repairs,
            epoch: loaded.epoch,
            folder,
        })
    }

    /// Finds the session that a user named: a whole id, or its first eight characters or more.
    ///
    /// # Errors
    /// When the text is not an id (then nothing is looked up), or fits no session or several.
    pub fn resolve(&self, text: &str) -> Result<SessionId, StoreProblem> {
        let wanted = text.trim().to_ascii_lowercase();
        let is_id = wanted.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if !is_id || wanted.len() < SHORTEST_PREFIX || wanted.len() > 36 {
            return Err(StoreProblem::NotAnId(shown(text)));
        }
        let all = self.sessions(None)?;
        let fitting: Vec<&str> = all.iter().map(|(id, _)| id.as_str()).filter(|id| id.starts_with(&wanted)).collect();
        match fitting.as_slice() {
            [one] => Ok(SessionId::new(*one)),
            [] => Err(unknown(&wanted, &all)),
            [first @ .., _] => {
                let more = if first.len() > 3 { ", …" } else { "" };
                let candidates = fitting.iter().take(4).copied().collect::<Vec<_>>().join(", ") + more;
                Err(StoreProblem::Ambiguous { text: wanted, candidates })
            }
        }
    }

    /// The session of a workspace that was written last; none when it has none.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn latest(&self, workspace: &Path) -> Result<Option<SessionId>, StoreProblem> {
        let mut dated = Vec::new();
        for (id, folder) in self.sessions(Some(workspace))? {
            // One that vanished meanwhile, or was never written, cannot be continued.
            let metadata = fs::symlink_metadata(folder.join("log.jsonl")).ok();
            let modified = metadata.filter(|log| log.len() > 0).and_then(|log| log.modified().ok());
            dated.extend(modified.map(|modified| (modified, id, folder)));
        }
        dated.sort_by(|a, b| (b.0, &b.1).cmp(&(a.0, &a.1)));
        let begun = |folder: &Path, id: &SessionId| Summary::read(id.clone(), folder).is_ok_and(|one| one.is_some());
        Ok(dated.into_iter().find(|(_, id, folder)| begun(folder, id)).map(|(_, id, _)| id))
    }

    /// The sessions of a workspace, or all, the last written first. Reads a bounded part of each log. Sessions whose
    /// log cannot be read at all are left out; `verify` says why.
    ///
    /// # Errors
    /// When the disk refuses to list the folders.
    pub fn list(&self, workspace: Option<&Path>) -> Result<Vec<Summary>, StoreProblem> {
        let sessions = self.sessions(workspace)?;
        let mut list: Vec<Summary> =
            sessions.into_iter().filter_map(|(id, folder)| Summary::read(id, &folder).ok().flatten()).collect();
        list.sort_by(|a, b| (b.last_activity, &b.id).cmp(&(a.last_activity, &a.id)));
        Ok(list)
    }

    /// Reads a session's records one after another, also while another process writes it.
    ///
    /// # Errors
    /// When there is no such session or its log cannot be opened.
    pub fn read(&self, id: &SessionId) -> Result<Records, StoreProblem> {
        Records::open(&self.folder(id)?)
    }

    /// Checks a session's log: hashes, chain, and anchor. Changes nothing, and takes no lock.
    ///
    /// # Errors
    /// When there is no such session or its log cannot be read.
    pub fn verify(&self, id: &SessionId) -> Result<Report, StoreProblem> {
        verify::verify(id, &self.folder(id)?)
    }

    /// The folder of a session that exists.
    fn folder(&self, id: &SessionId) -> Result<PathBuf, StoreProblem> {
        let text = id.as_str();
        if !is_session_id(text) {
            return Err(StoreProblem::NotAnId(shown(text)));
        }
        let shelves = folders(&self.root)?;
        let found = shelves.into_iter().map(|shelf| shelf.join(text)).find(|folder| folder.is_dir());
        found.ok_or_else(|| unknown(text, &self.sessions(None).unwrap_or_default()))
    }

    /// The ids and folders of all sessions, or of a workspace's.
    fn sessions(&self, workspace: Option<&Path>) -> Result<Vec<(SessionId, PathBuf)>, StoreProblem> {
        let shelves = match workspace {
            Some(workspace) => vec![self.root.join(workspace_key(workspace))],
            None => folders(&self.root)?,
        };
        let mut sessions = Vec::new();
        for shelf in shelves {
            sessions.extend(folders(&shelf)?.into_iter().filter_map(|folder| {
                let id = folder.file_name()?.to_str().filter(|name| is_session_id(name))?;
                Some((SessionId::new(id), folder.clone()))
            }));
        }
        Ok(sessions)
    }
}

fn open_heads(folder: &Path) -> Result<fs::File, StoreProblem> {
    open_regular(private_file().write(true).create(true).truncate(false), &folder.join("heads"))
}

/// What a folder holds, links aside; nothing when there is no such folder.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreProblem> {
    let listed = fs::read_dir(folder).and_then(|entries| {
        entries
            .filter_map(|entry| match entry {
                Ok(entry) => entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| Ok(entry.path())),
                Err(cause) => Some(Err(cause)),
            })
            .collect()
    });
    match listed {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(refused("list", folder, &cause)),
        listed => listed.map_err(|cause| refused("list", folder, &cause)),
    }
}

/// A whole UUID in lower case; nothing else is ever joined to a path.
fn is_session_id(text: &str) -> bool {
    text.len() == 36 && Uuid::try_parse(text).is_ok_and(|id| id.hyphenated().to_string() == text)
}

/// Names a workspace's folder among the sessions: readable by its last part, unique by a digest of its real path.
fn workspace_key(workspace: &Path) -> String {
    let real = workspace.canonicalize().or_else(|_| std::path::absolute(workspace)).unwrap_or(workspace.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let name: String = name.chars().map(plain).take(40).collect();
    let name = name.trim_start_matches('.');
    let digest = Digest::of(real.as_os_str().as_bytes());
    format!("{}-{}", if name.is_empty() { "root" } else { name }, digest.short())
}

/// A text from outside as a message can show it.
fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}

fn unknown(text: &str, all: &[(SessionId, PathBuf)]) -> StoreProblem {
    let common = |id: &str| id.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
    let nearest = all.iter().map(|(id, _)| id.as_str()).max_by_key(|id| common(id)).filter(|id| common(id) >= 4);
    let nearest = nearest.map_or_else(String::new, |id| format!(" The nearest is {id}."));
    StoreProblem::Unknown { text: text.to_owned(), nearest }
}
