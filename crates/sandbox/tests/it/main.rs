//! The sandbox crate through its public face, with real files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod added;
mod ignored;
mod jail;
mod layout;
mod manifest;
mod process;
mod process_confinement;
mod process_end;
mod process_job;
mod process_network;
mod process_observation;
mod process_protection;
mod process_refusal;
mod process_view;
mod protection;
mod repository;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hames_sandbox::{Protection, ProtectionConfig, WorkspaceFiles};
use tempfile::TempDir;

/// A new folder with these files, each holding its own name.
fn folder_with(files: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        put(folder.path(), file, file);
    }
    folder
}

/// Writes a file and makes the folders that it needs.
fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Opens a workspace with the protection that every session has.
fn open(root: &Path) -> WorkspaceFiles {
    open_with(root, ProtectionConfig::default())
}

/// Opens a workspace with more protection.
fn open_with(root: &Path, config: ProtectionConfig) -> WorkspaceFiles {
    WorkspaceFiles::open(root, None, Arc::new(Protection::new(root, config).unwrap())).unwrap()
}
