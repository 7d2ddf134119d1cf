//! Names are things, not roles: words that say nothing about what a module or a type is.

use super::Failure;

/// Words that no module, file, folder or type is named with.
const ROLES: &[&str] = &["manager", "handler", "helper", "helpers", "util", "utils"];

/// A word that no module is named with: everything would lean on it.
const NO_MODULE: &str = "core";

/// Checks the names of a file, of the folders it lies in, and of the modules and types that its code declares.
pub(super) fn check(file: &str, code: &str) -> Vec<Failure> {
    let mut failures = Vec::new();
    for part in file.split('/').map(|part| part.trim_end_matches(".rs")) {
        if let Some(word) = banned(part, true) {
            failures.push(failure(file, 1, part, word));
        }
    }
    for (index, line) in code.lines().enumerate() {
        let words: Vec<&str> =
            line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let [keyword, name] = pair else { continue };
            let module = *keyword == "mod";
            if module || matches!(*keyword, "struct" | "enum" | "trait" | "type" | "union") {
                failures.extend(banned(name, module).map(|word| failure(file, index + 1, name, word)));
            }
        }
    }
    failures
}

fn failure(file: &str, line: usize, name: &str, word: &str) -> Failure {
    Failure::new(file, line, format!("`{name}` is named for a role (`{word}`): name it for the thing it is."))
}

/// The word in a name that says nothing.
fn banned(name: &str, module: bool) -> Option<&'static str> {
    if module && name == NO_MODULE {
        return Some(NO_MODULE);
    }
    let words = words(name);
    ROLES.iter().copied().find(|role| words.iter().any(|word| word == role))
}

/// The words of a name, in snake or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c == '-' || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(file: &str, code: &str, wanted: &[&str]) {
        let texts: Vec<String> = check(file, code).into_iter().map(|failure| failure.text).collect();
        assert_eq!(texts.len(), wanted.len(), "{texts:?}");
        for (text, wanted) in texts.iter().zip(wanted) {
            assert!(text.starts_with(wanted), "{text}");
        }
    }

    #[test]
    fn roles_are_found_in_files_modules_and_types() {
        check_one("crates/tool/src/util.rs", "", &["`util`"]);
        check_one("crates/tool/src/path_helpers/mod.rs", "", &["`path_helpers`"]);
        check_one("a.rs", "pub(crate) mod core;", &["`core`"]);
        check_one("a.rs", "pub struct SessionManager<T> {\n", &["`SessionManager`"]);
        check_one("a.rs", "trait EventHandler: Send", &["`EventHandler`"]);
    }

    #[test]
    fn other_uses_of_the_words_are_not() {
        check_one("a.rs", "use core::fmt; let manager = handler(); struct Utility; fn helper() {}", &[]);
        check_one("crates/score/src/lib.rs", "mod core_dump;", &[]);
    }
}
