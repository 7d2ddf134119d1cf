//! The user's globs in gitignore syntax, matched against paths relative to the workspace root.

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::ProtectionProblem;

/// Globs of one option (`--protect` or `--unprotect`).
#[derive(Debug)]
pub(crate) struct Globs {
    matcher: Gitignore,
    /// The words for each glob, looked up by the glob as the matcher knows it.
    words: Vec<(String, String)>,
    literals: Vec<String>,
}

impl Globs {
    /// Compiles `globs`, which were given with `option`.
    ///
    /// # Errors
    /// When one of them is not a glob, is empty or can never match.
    pub(crate) fn new(option: &'static str, globs: &[String]) -> Result<Self, ProtectionProblem> {
        let mut builder = GitignoreBuilder::new("");
        builder.allow_unclosed_class(false);
        let mut words = Vec::new();
        let mut literals = Vec::new();
        for glob in globs {
            let problem = |why: String| ProtectionProblem::Glob { option, glob: glob.clone(), why };
            // `./x` never matches in gitignore syntax, and who writes it means the root.
            let line = glob.strip_prefix("./").map_or_else(|| glob.clone(), |rest| format!("/{rest}"));
            let bare = line.trim().trim_start_matches('!');
            if bare.trim_matches('/').is_empty() || bare.starts_with('#') {
                return Err(problem("it names no path".to_owned()));
            }
            if bare.split('/').any(|part| part == "..") {
                return Err(problem("it leads out of the workspace".to_owned()));
            }
            builder.add_line(None, &line).map_err(|error| problem(error.to_string()))?;
            words.push((line.trim_end().to_owned(), format!("`{option} {glob}`")));
            if !bare.contains(['*', '?', '[', '\\']) && !line.starts_with('!') {
                literals.push(bare.trim_matches('/').to_owned());
            }
        }
        let matcher = builder.build().map_err(|error| ProtectionProblem::Glob {
            option,
            glob: globs.join(" "),
            why: error.to_string(),
        })?;
        Ok(Self { matcher, words, literals })
    }

    /// The option and glob that match `path` or a folder above it, in words.
    pub(crate) fn rule(&self, path: &str, is_folder: bool) -> Option<&str> {
        match self.matcher.matched_path_or_any_parents(path, is_folder) {
            Match::Ignore(glob) => {
                let words = self.words.iter().find(|(line, _)| line == glob.original());
                Some(words.map_or("a glob of the user", |(_, words)| words))
            }
            Match::None | Match::Whitelist(_) => None,
        }
    }

    /// Whether a folder that matches may hold something that does not.
    pub(crate) fn has_exceptions(&self) -> bool {
        self.matcher.num_whitelists() > 0
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    /// The globs without a wildcard, as paths relative to the root.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.literals.iter().map(String::as_str)
    }
}
