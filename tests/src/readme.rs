//! The README is true: what it lists is generated, what it names exists, what it shows happens.

mod curl;
mod hosts;
mod tables;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::committed::root;
use crate::harness::binary;
use crate::surface::{SERVERS, printed};

/// A fenced block of the page.
struct Block {
    line: usize,
    language: String,
    text: String,
}

fn page() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

fn blocks() -> Vec<Block> {
    let page = page();
    let mut lines = page.lines().enumerate();
    let mut blocks = Vec::new();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```");
            blocks.push(Block {
                line: at + 1,
                language: language.to_owned(),
                text: text.collect::<Vec<_>>().join("\n"),
            });
        }
    }
    blocks
}

/// What a server can be told, as it prints it.
fn options(server: &str) -> Vec<Value> {
    serde_json::from_str(&printed(server, "--print-options")).unwrap()
}

/// The port that a server has by default.
fn port(server: &str) -> String {
    let options = options(server);
    let port = options.iter().find(|option| option["flag"] == "--port");
    port.unwrap()["default"].as_str().unwrap().to_owned()
}

/// The server of a default port.
fn server_of(port: &str) -> &'static str {
    let found = SERVERS
        .into_iter()
        .find(|server| self::port(server) == port);
    found.unwrap_or_else(|| panic!("no server has the port {port}"))
}

fn xtask_help() -> String {
    let output = Command::new(binary("xtask")).output().unwrap();
    let help = [output.stdout, output.stderr].concat();
    String::from_utf8(help).unwrap()
}

/// The words of the page, without quotes and punctuation around them.
fn words(page: &str) -> impl Iterator<Item = &str> {
    let is_edge = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_');
    page.split(|c: char| c.is_whitespace() || matches!(c, '`' | '=' | '"' | '|' | '(' | ')'))
        .map(move |word| word.trim_end_matches(is_edge).trim_start_matches(is_edge))
}

#[test]
fn every_flag_exists() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for help in SERVERS
        .map(|server| printed(server, "--help"))
        .into_iter()
        .chain([xtask_help()])
    {
        known.extend(words(&help).map(str::to_owned));
    }
    // Of `claude mcp add` and of cargo.
    known.extend(["--transport", "--header", "--release"].map(str::to_owned));
    let is_flag = |word: &&str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    for flag in words(&page()).filter(is_flag) {
        assert!(known.contains(flag), "{flag} does not exist");
    }
}

#[test]
fn every_variable_exists() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for server in SERVERS {
        let options = options(server);
        known.extend(
            options
                .iter()
                .map(|option| option["env"].as_str().unwrap().to_owned()),
        );
    }
    // Read by `run-all`.
    let services = std::fs::read_to_string(root().join("xtask/src/services/openhands.rs")).unwrap();
    known.extend(words(&services).map(str::to_owned));
    let is_variable = |word: &&str| {
        word.contains('_')
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let compose = std::fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    let ours = compose.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = ours.filter(|word| word.starts_with("MCP_"));
    let page = page();
    for variable in words(&page).filter(is_variable).chain(ours) {
        // Some come with a number at their end.
        let exists = known.iter().any(|known| known.starts_with(variable));
        assert!(exists, "{variable} does not exist");
    }
}

#[test]
fn every_chore_exists() {
    let help = xtask_help();
    let page = page();
    let mut named = 0;
    for (at, _) in page.match_indices("cargo xtask ") {
        let chore = page[at..].split([' ', '`', '\n']).nth(2).unwrap();
        assert!(
            help.contains(&format!("cargo xtask {chore}")),
            "cargo xtask {chore} does not exist"
        );
        named += 1;
    }
    assert!(named >= 2, "the page does not name the two commands");
}

#[test]
fn every_link_leads_somewhere() {
    let page = page();
    for (at, _) in page.match_indices("](") {
        let target = page[at + 2..].split(')').next().unwrap();
        let is_there = target.starts_with("https://") || root().join(target).exists();
        assert!(is_there, "{target} does not exist");
    }
    assert!(root().join("docker-compose.yml").exists() && page.contains("`docker-compose.yml`"));
}

#[test]
fn every_block_is_checked() {
    for block in blocks() {
        let checked = match &*block.language {
            // The picture.
            "" => true,
            "json" => serde_json::from_str::<Value>(&block.text).is_ok(),
            "sh" => block.text.lines().all(|line| {
                let begins = [
                    "curl ",
                    "  ",
                    "cargo xtask ",
                    "claude mcp add ",
                    "mcp-gateway ",
                ];
                begins.iter().any(|begin| line.starts_with(begin))
            }),
            // Its keys are those that the gateway's own tests of its configuration know.
            "toml" => block.text.starts_with("[backends."),
            _ => false,
        };
        assert!(
            checked,
            "README.md:{}: no test knows this block:\n{}",
            block.line, block.text
        );
    }
}
