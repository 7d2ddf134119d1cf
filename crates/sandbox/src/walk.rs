//! Walks the workspace in parallel, never through a link and never into another file system's or parent's rules.

use std::path::Path;

use ignore::{WalkBuilder, WalkParallel};

/// Which entries a walk shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// All of them.
    Everything,
    /// Those that the `.gitignore` files at and below the root leave in, with or without git. `.git` is left out.
    NotIgnored,
}

/// Prepares a walk of `root`. Only ignore files inside the workspace count: what a listing shows must not depend on
/// the folder above or on the user's own settings.
pub(crate) fn walker(root: &Path, show: Show) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.standard_filters(false).follow_links(false);
    if show == Show::NotIgnored {
        builder.git_ignore(true).git_exclude(true).require_git(false);
        builder.filter_entry(|entry| entry.file_name() != ".git");
    }
    builder
}

/// Starts a prepared walk with as many workers as the machine has processors, eight at most.
pub(crate) fn parallel(builder: &mut WalkBuilder) -> WalkParallel {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
    builder.threads(workers).build_parallel()
}
