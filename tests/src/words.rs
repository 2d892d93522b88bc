//! The rules for words that a test can check: openings of documentation, plain words, names of
//! constants, constructors and public types. CONTRIBUTING.md has all of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tidy::{File, is_rust, source_files};

/// Openings of a paragraph of documentation, which should open with a noun or a verb.
const OPENINGS: &str = "what, whatever, who, whoever, whom, whose, which, those, nobody, somebody, how, \
    where, one that, one who, the one, none of";

/// Old-fashioned or roundabout words, in any comment.
const ODD_WORDS: &str = "nobody, somebody, whoever, whomever, whom, is none, are none, for ever, anew, \
    seldom, lest, thereby";

/// Names of constants that do not say what they bound.
const BARE_NAMES: &str = "PATIENCE PAUSE LOOK GATHER SILENCE TURN TRUST GRACE MARGIN WAIT SOON BREATH \
    SETTLE AT_ONCE TRIES RECENT CALM ALERT FAREWELL LIMIT MAX MIN RETRY";

/// The words of a line in lower case, each between blanks.
fn words(line: &str) -> String {
    let line = line.to_lowercase();
    // With backticks: `None` is no such word.
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '`');
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    format!(" {} ", words.join(" "))
}

/// The text of a documentation line.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let outer = line.strip_prefix("///");
    outer.or_else(|| line.strip_prefix("//!"))
}

/// The fault of `line`, which follows the line `before`.
fn fault(before: &str, line: &str) -> Option<String> {
    let text = documentation(line);
    // A heading ends a paragraph, too.
    let opens = |text: &str| text.trim().is_empty() || text.starts_with(" #");
    if documentation(before).is_none_or(opens) {
        let words = words(text.unwrap_or_default());
        let mut openings = OPENINGS.split(", ");
        if let Some(opening) = openings.find(|opening| words.starts_with(&format!(" {opening} "))) {
            return Some(format!("opens with `{opening}`"));
        }
    }
    // With the blank, since URLs have `//` too.
    let parts = line.split_once("// ");
    let (code, comment) = parts.unwrap_or((line, text.unwrap_or_default()));
    let comment = words(comment).replace(" there is none ", " ");
    let mut odd = ODD_WORDS.split(", ");
    if let Some(word) = odd.find(|word| comment.contains(&format!(" {word} "))) {
        return Some(format!("has `{word}`"));
    }
    let code: Vec<_> = code.split(|c| !is_in_name(c)).collect();
    code.windows(2).find_map(|pair| match pair {
        ["const" | "static", name] if BARE_NAMES.split(' ').any(|bare| bare == *name) => {
            Some(format!("`{name}` names no bound"))
        }
        ["fn", name] if *name == "of" => Some("`of` is no constructor".to_owned()),
        _ => None,
    })
}

fn is_in_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The name of the public type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    let line = line.trim_start().strip_prefix("pub ")?;
    let (keyword, name) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type"].contains(&keyword);
    is_type.then(|| name.split(|c| !is_in_name(c)).next())?
}

/// All faults in files, a line each.
fn faults(files: &[File]) -> String {
    let mut faults = String::new();
    let mut types: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for File { path, text } in files {
        let depth = if path.starts_with("crates/") { 2 } else { 1 };
        let folder = path.split('/').take(depth).collect::<Vec<_>>().join("/");
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", number + 1);
            if let Some(fault) = fault(before, line) {
                let _ = writeln!(faults, "{place}: {fault}");
            }
            if let Some(name) = public_type(line) {
                types.entry((folder.clone(), name)).or_default().push(place);
            }
            before = line;
        }
    }
    for ((_, name), places) in types.into_iter().filter(|(_, places)| places.len() > 1) {
        let _ = writeln!(faults, "two public types `{name}`: {}", places.join(", "));
    }
    faults
}

#[test]
fn words_and_names_are_plain() {
    let mut files = source_files();
    files.retain(|file| is_rust(&file.path));
    let faults = faults(&files);
    assert!(faults.is_empty(), "\n{faults}");
}

/// The faults in a file with this text, without the signs `~` that hide them here.
fn faults_of(text: &str) -> String {
    let (path, text) = ("xtask/a.rs".to_owned(), text.replace('~', ""));
    faults(&[File { path, text }])
}

#[test]
fn faults_are_found() {
    for (bad, fault) in [
        ("//~/ What it does.\nfn f() {}", "1: opens with `what`"),
        (
            "//~! A.\n//~!\n//~! Those of others.",
            "3: opens with `those`",
        ),
        ("//~/ # Errors\n//~/ Those of A.", "2: opens with `those`"),
        ("    //~/ The one that counts.", "1: opens with `the one`"),
        ("let a = 1; /~/ Nobody reads it.", "1: has `nobody`"),
        ("/~/ A number that\n/~/ is none.", "2: has `is none`"),
        (
            "pub(crate) const~ PAUSE: u8 = 1;",
            "1: `PAUSE` names no bound",
        ),
        ("static~ LIMIT: u8 = 1;", "1: `LIMIT` names no bound"),
        ("    pub fn~ of(a: u8) {}", "1: `of` is no constructor"),
    ] {
        assert_eq!(faults_of(bad), format!("xtask/a.rs:{fault}\n"), "{bad}");
    }
    let two = "pub struct A;\nmod b {\n    pub enum A {}\n}";
    let expected = "two public types `A`: xtask/a.rs:1, xtask/a.rs:3\n";
    assert_eq!(faults_of(two), expected);
    for good in [
        "//~/ Returns the number of rows,\n//~/ which is what it counts.",
        "//~/ Whether there is~ none, or it is `None`.\nconst MAX_ROWS: u8 = 1;\nconst RETRY_INTERVAL: u8 = 2;",
        "let url = \"docker:/~/nobody\"; /~/ A user name.",
        "fn of_kind() {}\npub struct A;\npub(crate) struct A;\nstruct A;",
    ] {
        assert_eq!(faults_of(good), "", "{good}");
    }
}
