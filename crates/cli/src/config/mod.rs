//! Configuration: where files are found, and what holds once all sources are merged.

mod file;
mod merge;
mod provider;
mod show;

use std::path::{Path, PathBuf};

use hames::{PlainFile, read_beneath};

pub(crate) use merge::{Origin, Setting, Settings};
pub(crate) use provider::{KeySource, Provider};
pub(crate) use show::show;

use crate::args::SettingFlags;
use crate::exit::Failure;
use file::{Layer, Owner};
use merge::{BASE_URL_VARIABLE, Sources};

/// The workspace's file.
pub(crate) const WORKSPACE_FILE: &str = ".hames/config.toml";

/// The largest file that is read, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Reads the files and merges them with flags and environment; what is ignored is said on standard error.
pub(crate) fn load(flags: &SettingFlags, workspace: &Path) -> Result<Settings, Failure> {
    let user = user_file();
    let variable = std::env::var(BASE_URL_VARIABLE).ok().filter(|url| !url.trim().is_empty());
    let sources = Sources {
        flags: flags.clone(),
        base_url_variable: variable,
        workspace: workspace_layer(workspace)?,
        user: user.as_deref().map_or(Ok(Layer::default()), user_layer)?,
    };
    let (mut settings, ignored) = merge::merge(sources);
    for sentence in ignored {
        crate::output::note(&sentence);
    }
    if let Some(file) = user {
        let kept = own_file_within(&file, workspace);
        settings.protect.extend(kept.into_iter().map(|value| Setting { value, origin: Origin::Default }));
    }
    Ok(settings)
}

/// The user's file: `$XDG_CONFIG_HOME/hames/config.toml`, else `~/.config/hames/config.toml`.
pub(crate) fn user_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(folder.join("hames/config.toml"))
}

fn user_layer(path: &Path) -> Result<Layer, Failure> {
    let shown = path.display().to_string();
    let refused = |why: &str| Failure::usage(format!("{shown} cannot be read: {why}. Mend it or remove it."));
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(refused("it is no plain file")),
        Ok(metadata) if metadata.len() > MAX_BYTES as u64 => return Err(refused("it is larger than 1 MiB")),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Layer::default()),
        Err(error) => return Err(refused(&error.to_string())),
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(&error.to_string()))?;
    let mut layer = file::parse(&shown, &text, Owner::User)?;
    if let (Some(named), Some(folder)) = (&mut layer.settings.system_prompt_file, path.parent()) {
        *named = folder.join(&*named);
    }
    for dir in &mut layer.settings.place.add_dir {
        *dir = path.with_file_name(&*dir).to_string_lossy().into_owned();
    }
    Ok(layer)
}

fn workspace_layer(workspace: &Path) -> Result<Layer, Failure> {
    let shown = workspace.join(WORKSPACE_FILE).display().to_string();
    let refused = |why: &str| Failure::usage(format!("{shown} cannot be read: {why}. Mend it or remove it."));
    let bytes = match read_beneath(workspace, Path::new(WORKSPACE_FILE), MAX_BYTES) {
        PlainFile::Absent => return Ok(Layer::default()),
        PlainFile::Read { bytes, .. } => bytes,
        PlainFile::TooLarge(size) => return Err(refused(&format!("it has {size} bytes"))),
        PlainFile::Refused(reason) => return Err(refused(&reason)),
    };
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8 text"))?;
    file::parse(&shown, &text, Owner::Workspace)
}

/// Globs that keep the user's own configuration from the model where it lies in the workspace, as when that is the
/// user's home: what could be written there would hold for the next run.
fn own_file_within(file: &Path, workspace: &Path) -> Vec<String> {
    let folder = file.parent().map(real);
    let places = [folder, file.canonicalize().ok()].into_iter().flatten();
    let within = places.filter_map(|place| Some(place.strip_prefix(workspace).ok()?.to_str()?.to_owned()));
    let mut globs: Vec<String> =
        within.filter(|path| !path.is_empty()).map(|path| format!("/{}", escaped(&path))).collect();
    globs.dedup();
    globs
}

/// The real path of what may not exist yet.
fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|folder| Some((folder, folder.canonicalize().ok()?)));
    match known {
        Some((folder, real)) => real.join(path.strip_prefix(folder).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

/// A path as a glob that matches it alone.
fn escaped(path: &str) -> String {
    path.chars().flat_map(|c| "\\*?[]{}!# ".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_file_is_kept_from_the_model_where_it_lies_in_the_workspace() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let file = root.join(".config/hames/config.toml");
        assert_eq!(own_file_within(&file, &root), ["/.config/hames"]);
        assert_eq!(own_file_within(&file, &root.join("work")), Vec::<String>::new());
        std::fs::create_dir_all(root.join("dot files")).unwrap();
        std::fs::create_dir_all(root.join(".config/hames")).unwrap();
        std::fs::write(root.join("dot files/h.toml"), "").unwrap();
        std::os::unix::fs::symlink(root.join("dot files/h.toml"), &file).unwrap();
        assert_eq!(own_file_within(&file, &root), ["/.config/hames", "/dot\\ files/h.toml"]);
    }
}
