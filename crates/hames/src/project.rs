//! Finds the project's instructions: AGENTS.md, else CLAUDE.md, from the root of the repository down to the workspace.

use std::path::{Path, PathBuf};

use hames_context::{InstructionContent, InstructionFile, MAX_FILE_BYTES, ProjectInstructions};

use crate::plain_file::{PlainFile, read_beneath};

/// The names that are looked for in a folder; the first that is there counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Reads the instructions for work in `workspace`, a real path.
pub(crate) fn instructions(workspace: &Path) -> ProjectInstructions {
    let root = repository(workspace);
    let folders: Vec<&Path> = workspace.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    let mut seen = Vec::new();
    // The nearest first, so that a file with two names counts where it is nearest.
    let mut files: Vec<InstructionFile> =
        folders.into_iter().filter_map(|folder| in_folder(root, folder, &mut seen)).collect();
    files.reverse();
    ProjectInstructions::of(&files)
}

/// The nearest folder, from the workspace up, that holds a `.git`; the workspace itself when none does.
fn repository(workspace: &Path) -> &Path {
    workspace.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok()).unwrap_or(workspace)
}

fn in_folder(root: &Path, folder: &Path, seen: &mut Vec<(u64, u64)>) -> Option<InstructionFile> {
    // Within: the file to tell, or none when it was told already; without: there is no file of these names.
    NAMES.iter().find_map(|name| {
        let path: PathBuf = folder.strip_prefix(root).unwrap_or(Path::new("")).join(name);
        let content = match read_beneath(root, &path, MAX_FILE_BYTES) {
            PlainFile::Absent => return None,
            PlainFile::Read { identity, .. } if seen.contains(&identity) => return Some(None),
            PlainFile::Read { bytes, identity } => {
                seen.push(identity);
                InstructionContent::Bytes(bytes)
            }
            PlainFile::TooLarge(size) => InstructionContent::TooLarge(size),
            PlainFile::Refused(reason) => InstructionContent::Unreadable(reason),
        };
        Some(Some(InstructionFile { path: path.to_string_lossy().into_owned(), content }))
    })?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("repo/pkg/a")).unwrap();
        fs::create_dir(folder.path().join("repo/.git")).unwrap();
        folder
    }

    fn told(folder: &tempfile::TempDir, workspace: &str) -> ProjectInstructions {
        instructions(&folder.path().join(workspace).canonicalize().unwrap())
    }

    #[test]
    fn folders_from_the_repository_to_the_workspace_are_read_and_none_above() {
        let folder = folder();
        let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
        write("AGENTS.md", "ABOVE");
        write("repo/CLAUDE.md", "ROOT");
        write("repo/pkg/AGENTS.md", "PKG");
        write("repo/pkg/CLAUDE.md", "OTHER");
        write("repo/pkg/a/AGENTS.md", "NEAREST");
        let text = told(&folder, "repo/pkg/a").text;
        let at = |mark: &str| text.find(mark);
        assert!(at("ROOT").is_some() && at("ROOT") < at("PKG") && at("PKG") < at("NEAREST"), "{text}");
        assert!(at("ABOVE").is_none() && at("OTHER").is_none(), "{text}");
        let text = told(&folder, "repo").text;
        assert!(text.contains("ROOT") && !text.contains("PKG"), "{text}");
    }

    #[test]
    fn links_are_followed_within_the_repository_only_and_each_file_is_told_once() {
        let folder = folder();
        let link = |target: &str, path: &str| symlink(target, folder.path().join(path)).unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        fs::write(folder.path().join("repo/AGENTS.md"), "ROOT").unwrap();
        link("../AGENTS.md", "repo/pkg/CLAUDE.md");
        link("../../../secret", "repo/pkg/a/AGENTS.md");
        let told = told(&folder, "repo/pkg/a");
        assert_eq!(told.text.matches("ROOT").count(), 1, "{}", told.text);
        assert!(!told.text.contains("SECRET"), "{}", told.text);
        assert!(told.problems.len() == 1 && told.problems[0].contains("leads out"), "{:?}", told.problems);
    }

    #[test]
    fn pipes_loops_folders_and_large_files_are_left_out_with_a_reason_and_never_waited_for() {
        let folder = folder();
        let pipe = folder.path().join("repo/AGENTS.md");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        symlink("AGENTS.md", folder.path().join("repo/pkg/AGENTS.md")).unwrap();
        fs::write(folder.path().join("repo/pkg/a/AGENTS.md"), "x".repeat(MAX_FILE_BYTES + 1)).unwrap();
        let problems = told(&folder, "repo/pkg/a").problems;
        assert_eq!(problems.len(), 3, "{problems:?}");
        for (problem, words) in problems.iter().zip(["no plain file", "leads to itself", "32769 bytes"]) {
            assert!(problem.contains(words), "{problem}");
        }
    }

    #[test]
    fn without_a_repository_only_the_workspace_itself_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::write(folder.path().join("AGENTS.md"), "ABOVE").unwrap();
        fs::write(folder.path().join("work/AGENTS.md"), "HERE").unwrap();
        let text = told(&folder, "work").text;
        assert!(text.contains("HERE") && !text.contains("ABOVE"), "{text}");
    }
}
