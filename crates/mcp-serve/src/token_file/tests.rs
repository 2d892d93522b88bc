//! Tests of changes of the token file.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::Tokens;

/// A folder of its own, removed on drop.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("tokens")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }
}

#[test]
fn added_token_is_valid_and_only_its_hash_is_stored() {
    let folder = Folder::new();
    let file = TokenFile::new(folder.file());
    let expires = "2099-01-31T12:00:00Z".parse().unwrap();
    let token = file
        .add("ada", Some("oncall".into()), Some(expires))
        .unwrap();
    assert!(token.starts_with("mcp_") && token.len() == 47, "{token}");
    let text = folder.text();
    assert!(!text.contains(&token[4..]));
    assert!(text.starts_with("ada sha256:"));
    let end = " role=oncall expires=2099-01-31T12:00:00Z\n";
    assert!(text.ends_with(end), "{text}");
    let mode = folder.file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let tokens = Tokens::parse(&text).unwrap();
    let credential = tokens.credential(token.as_bytes()).unwrap();
    assert_eq!(credential.principal.role(), Some("oncall"));
    // The hash is not a token.
    let hash = text.split_whitespace().nth(1).unwrap();
    assert!(tokens.credential(hash.as_bytes()).is_none());
}

/// The group of a server that is another user than the command can still read the file.
#[test]
fn changed_file_keeps_its_mode_without_rights_for_others() {
    let folder = Folder::new();
    let file = TokenFile::new(folder.file());
    std::fs::write(folder.file(), "ada secret-of-16-chars\n").unwrap();
    for (before, after) in [(0o640, 0o640), (0o600, 0o600), (0o664, 0o660)] {
        let mode = std::fs::Permissions::from_mode(before);
        std::fs::set_permissions(folder.file(), mode).unwrap();
        file.add("eve", None, None).unwrap();
        file.revoke("eve", Timestamp::now()).unwrap();
        let mode = folder.file().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, after, "{before:o}");
    }
}

#[test]
fn comments_order_and_other_lines_stay() {
    let folder = Folder::new();
    let before = "# team a\nada  secret-of-16-chars  \n\n  # team b\nbob s2-of-16-characters";
    std::fs::write(folder.file(), before).unwrap();
    let link = folder.0.path().join("link");
    std::os::unix::fs::symlink(folder.file(), &link).unwrap();
    let file = TokenFile::new(link.clone());
    file.add("eve", None, None).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let start = format!("{before}\neve sha256:");
    assert!(folder.text().starts_with(&start), "{}", folder.text());
    let now = "2026-01-31T12:00:00.5Z".parse().unwrap();
    file.revoke("ada", now).unwrap();
    file.revoke("eve", now).unwrap();
    let gone = |name: &str| format!("# {name} was revoked at 2026-01-31T12:00:00Z");
    let (ada, eve) = (gone("ada"), gone("eve"));
    let expected = format!("# team a\n{ada}\n\n  # team b\nbob s2-of-16-characters\n{eve}\n");
    assert_eq!(folder.text(), expected);
}

#[test]
fn unusable_changes_are_refused_and_leave_the_file() {
    let folder = Folder::new();
    let text = "ada secret-of-16-chars\n";
    std::fs::write(folder.file(), text).unwrap();
    let file = TokenFile::new(folder.file());
    for (name, role, expected) in [
        ("ada", None, "there is a token"),
        ("sub:x", None, "one word"),
        ("a b", None, "one word"),
        ("#a", None, "one word"),
        ("", None, "one word"),
        ("ada ", None, "one word"),
        ("\tb", None, "one word"),
        ("a\nb", None, "one word"),
        ("x", Some(""), "one word"),
        ("x", Some("a b=c"), "one word"),
        ("x", Some("a "), "one word"),
    ] {
        let error = file.add(name, role.map(str::to_owned), None).unwrap_err();
        assert!(error.to_string().contains(expected), "{name:?}: {error:#}");
    }
    let error = file.revoke("eve", Timestamp::now()).unwrap_err();
    assert!(error.to_string().contains("there is no token"), "{error:#}");
    assert_eq!(folder.text(), text);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    // A device that was replaced by a file would be one for every program of the machine.
    let device = folder.0.path().join("device");
    let socket = std::os::unix::net::UnixListener::bind(&device).unwrap();
    let error = TokenFile::new(device).add("ada", None, None).unwrap_err();
    assert!(error.to_string().ends_with("is not a file"), "{error:#}");
    drop(socket);
    let nowhere = TokenFile::new(folder.0.path().join("no/tokens"));
    assert!(nowhere.add("ada", None, None).is_err());
    assert!(nowhere.lines().is_err());
}

#[test]
fn commands_at_the_same_time_lose_nothing() {
    let folder = Folder::new();
    let add = |at: usize| {
        let file = TokenFile::new(folder.file());
        move || file.add(&format!("n{at}"), None, None).unwrap()
    };
    let threads: Vec<_> = (0..8).map(|at| std::thread::spawn(add(at))).collect();
    let tokens = threads.into_iter().map(|thread| thread.join().unwrap());
    let tokens: Vec<String> = tokens.collect();
    let valid = Tokens::parse(&folder.text()).unwrap();
    for token in tokens {
        assert!(valid.credential(token.as_bytes()).is_some(), "{token}");
    }
}
