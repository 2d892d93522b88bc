//! Every command of our programs that a page names is one that the program knows, with these options.

use std::collections::BTreeSet;

use super::{DEVELOPER_PAGES, page, user_pages};
use crate::commands::run;
use crate::surface::{SERVERS, printed};

/// Words that stand for a value, with a value that is one.
const PLACEHOLDERS: [(&str, &str); 7] = [
    ("SHELL", "bash"),
    ("HOST", "claude-code"),
    ("TIME", "2027-01-31T12:00:00Z"),
    ("AGE", "1h"),
    ("PORT", "1"),
    ("URL", "http://127.0.0.1:1/mcp"),
    ("ID", "1"),
];

/// The pieces of code of a page: its lines in blocks, and its spans in the text.
fn code(page: &str) -> Vec<String> {
    let mut code = Vec::new();
    let mut is_block = false;
    let mut text = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if is_block {
            code.push(line.to_owned());
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    // A span ends with its paragraph.
    for paragraph in text.split("\n\n") {
        let spans = paragraph.split('`').skip(1).step_by(2);
        code.extend(spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    code
}

/// The program and the words of a command; `None` for other code.
fn command(code: &str, commands: &BTreeSet<String>) -> Option<(String, Vec<String>)> {
    let words = shlex::split(code.trim_start_matches("$ "))?;
    let is_set = |word: &String| {
        let (name, _) = word.split_once('=').unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let mut words = words.into_iter().skip_while(is_set).peekable();
    let first = words.peek()?.rsplit('/').next()?.to_owned();
    let program = match SERVERS.iter().find(|server| **server == first) {
        Some(program) => {
            words.next();
            (*program).to_owned()
        }
        // A command of each program, in a page that is about all of them.
        None if commands.contains(words.peek()?) => "mcp-gateway".to_owned(),
        None => return None,
    };
    let ends = ["|", "…", "...", "--", "&&", ">", "&", ";"];
    // A setting of a file, and a picture.
    if words.clone().any(|word| word == "=") || code.contains('►') {
        return None;
    }
    let words = words.take_while(|word| !ends.contains(&&**word) && !word.starts_with('#'));
    let value = |word: String| {
        let known = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
        known.map_or(word, |(_, value)| (*value).to_owned())
    };
    Some((program, words.map(value).collect()))
}

#[test]
fn every_command_of_a_program_exists() {
    let help = printed("mcp-gateway", "--help");
    let list = help.split("Commands:").nth(1).unwrap();
    let list = list.split("\n\n").next().unwrap();
    let commands: BTreeSet<String> = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(commands.contains("pins"), "{commands:?}");
    let pages = user_pages();
    let pages = pages.into_iter().chain(DEVELOPER_PAGES.map(str::to_owned));
    let (mut tried, mut unknown) = (BTreeSet::new(), Vec::new());
    for path in pages {
        for code in code(&page(&path)) {
            let Some((program, words)) = command(&code, &commands) else {
                continue;
            };
            // clap refuses what it does not know before it comes to this option.
            let words = [&words[..], &["--help".to_owned()]].concat();
            if words.len() == 1 || !tried.insert((program.clone(), words.clone())) {
                continue;
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let ended = run(&program, &words, &[]);
            if ended.code != 0 {
                let error = ended.stderr.lines().next().unwrap_or_default();
                unknown.push(format!("{path}: {code}: {error}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(tried.len() > 30, "only {} commands were found", tried.len());
}
