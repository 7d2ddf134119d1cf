//! Reads how a folder is added: `DIR` or `DIR:ro` to be read, `DIR:rw` to be changed as well.

use hames::Folders;
use hames::protocol::{Access, AddedFolder};

use crate::config::{Origin, Setting};

/// The folders of a list, those that a flag asks for apart from those of a file.
pub(crate) fn of(list: &[Setting<String>]) -> Folders {
    let parsed = |is_asked: bool| {
        let of_origin = list.iter().filter(|setting| (setting.origin == Origin::Flag) == is_asked);
        of_origin.map(|setting| parse(&setting.value)).collect()
    };
    Folders { asked: parsed(true), standing: parsed(false) }
}

/// The folder that a value of `--add-dir` names. Only the last suffix counts, so that a folder whose own name ends in
/// one can be named: `x:rw:ro`.
fn parse(text: &str) -> AddedFolder {
    let (path, access) = match text.strip_suffix(":rw") {
        Some(path) => (path, Access::Write),
        None => (text.strip_suffix(":ro").unwrap_or(text), Access::Read),
    };
    AddedFolder { path: path.to_owned(), access }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_suffix_says_what_may_be_done() {
        let read = |text: &str| {
            let folder = parse(text);
            (folder.path, folder.access)
        };
        assert_eq!(read("/a"), ("/a".to_owned(), Access::Read));
        assert_eq!(read("/a:rw"), ("/a".to_owned(), Access::Write));
        assert_eq!(read("/a:b"), ("/a:b".to_owned(), Access::Read));
        assert_eq!(read("/a:b:rw"), ("/a:b".to_owned(), Access::Write));
        assert_eq!(read("/a:rw:ro"), ("/a:rw".to_owned(), Access::Read));
        assert_eq!(read("/a:rw:rw"), ("/a:rw".to_owned(), Access::Write));
    }
}
