//! Checks the README and the pages of `docs`: tables are generated, names exist, examples run.

mod book;
mod commands;
mod curl;
mod errors;
mod hosts;
mod recipes;
mod tables;

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::committed::root;
use crate::harness::{Server, binary};
use crate::surface::{SERVERS, printed};

/// The pages for users beside those of the book. `ARCHITECTURE.md` and `CONTRIBUTING.md` name code, too.
const USER_PAGES: [&str; 3] = ["README.md", "CHANGELOG.md", "SECURITY.md"];

/// The pages for those who change the code.
const DEVELOPER_PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// A fenced block of a page.
struct Block {
    /// The page and the line, as `README.md:12`.
    position: String,
    language: String,
    text: String,
}

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The paths of all pages for users.
fn user_pages() -> Vec<String> {
    let book = book::pages();
    USER_PAGES
        .map(str::to_owned)
        .into_iter()
        .chain(book)
        .collect()
}

/// The text of all pages for users.
fn user_text() -> String {
    user_pages().iter().map(|path| page(path)).collect()
}

fn blocks(path: &str) -> Vec<Block> {
    let page = page(path);
    let mut lines = page.lines().enumerate();
    let mut blocks = Vec::new();
    while let Some((at, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```");
            blocks.push(Block {
                position: format!("{path}:{}", at + 1),
                language: language.to_owned(),
                text: text.collect::<Vec<_>>().join("\n"),
            });
        }
    }
    blocks
}

/// The options of a server, as it prints them.
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
        .chain([
            xtask_help(),
            printed("mcp-gateway", "explain --help"),
            printed("mcp-gateway", "events --help"),
            printed("mcp-gateway", "pins approve --help"),
            printed("mcp-gateway", "token add --help"),
            printed("mcp-gateway", "connect --help"),
            printed("mcp-gateway", "bridge --help"),
            printed("mcp-gateway", "doctor --help"),
        ])
    {
        known.extend(words(&help).map(str::to_owned));
    }
    // `--help` leaves out the details of issuers.
    let all = SERVERS.into_iter().flat_map(options);
    known.extend(all.map(|option| option["flag"].as_str().unwrap().to_owned()));
    // Of `claude mcp add`, cargo, systemctl and docker.
    let others = "--transport --features --release --locked --path --now --rm";
    known.extend(others.split(' ').map(str::to_owned));
    let is_flag = |word: &&str| {
        let name = word.strip_prefix("--");
        name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    for flag in words(&user_text()).filter(is_flag) {
        assert!(known.contains(flag), "{flag} does not exist");
    }
}

#[test]
fn short_help_has_at_most_a_dozen_options() {
    for server in SERVERS {
        let help = printed(server, "-h");
        let options = help
            .lines()
            .filter(|line| line.trim_start().starts_with("--"));
        assert!((8..=12).contains(&options.count()), "{help}");
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
    // Of OpenTelemetry, most of them read by its SDK.
    known.extend(
        [
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
            "OTEL_BSP_MAX_QUEUE_SIZE",
            "OTEL_BSP_SCHEDULE_DELAY",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_RESOURCE_ATTRIBUTES",
            "OTEL_SDK_DISABLED",
            "OTEL_SERVICE_NAME",
            "OTEL_TRACES_EXPORTER",
            "OTEL_TRACES_SAMPLER",
            "OTEL_TRACES_SAMPLER_ARG",
        ]
        .map(str::to_owned),
    );
    // Of an example, of the child that it starts and of a placeholder.
    known.extend(["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "LOG_LEVEL"].map(str::to_owned));
    // Of hosts, and of the system.
    known.extend(
        [
            "CLAUDE_CONFIG_DIR",
            "CODEX_HOME",
            "COPILOT_HOME",
            "MAX_MCP_OUTPUT_TOKENS",
            "OPENHANDS_PERSISTENCE_DIR",
            "SSL_CERT_FILE",
            "XDG_CONFIG_HOME",
            "XDG_STATE_HOME",
        ]
        .map(str::to_owned),
    );
    let is_variable = |word: &&str| {
        word.contains('_')
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let compose = std::fs::read_to_string(root().join("docker-compose.yml")).unwrap();
    let ours = compose.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = ours.filter(|word| word.starts_with("MCP_"));
    let pages = user_text();
    for variable in words(&pages).filter(is_variable).chain(ours) {
        // Some come with a number at their end.
        let exists = known.iter().any(|known| known.starts_with(variable));
        assert!(exists, "{variable} does not exist");
    }
}

#[test]
fn every_xtask_command_exists() {
    let help = xtask_help();
    let pages = user_text() + &DEVELOPER_PAGES.map(page).concat();
    let mut named = 0;
    for (at, _) in pages.match_indices("cargo xtask ") {
        let command = pages[at..].split([' ', '`', '\n']).nth(2).unwrap();
        assert!(
            command == "…" || help.contains(&format!("cargo xtask {command}")),
            "cargo xtask {command} does not exist"
        );
        named += 1;
    }
    assert!(named >= 2, "the pages do not name the two commands");
}

/// The anchors of the headings of a page.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text
            .chars()
            .filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[test]
fn every_link_leads_somewhere() {
    let developer = DEVELOPER_PAGES.map(str::to_owned);
    for path in user_pages().into_iter().chain(developer) {
        let (page, file) = (page(&path), root().join(&path));
        for (at, _) in page.match_indices("](") {
            let target = page[at + 2..].split(')').next().unwrap();
            if target.starts_with("https://") {
                continue;
            }
            let (other, heading) = target.split_once('#').unwrap_or((target, ""));
            let other = match other {
                "" => file.clone(),
                other => file.with_file_name(other),
            };
            assert!(other.exists(), "{path}: {target} does not exist");
            let page = || std::fs::read_to_string(&other).unwrap();
            let is_there = heading.is_empty() || anchors(&page()).any(|anchor| anchor == heading);
            assert!(is_there, "{path}: {target} has no such heading");
        }
    }
}

#[test]
fn every_path_exists() {
    for path in DEVELOPER_PAGES {
        let page = page(path);
        let code = page.split('`').skip(1).step_by(2);
        let paths = code.filter(|text| text.ends_with(".rs") && text.contains('/'));
        for file in paths.filter(|text| !text.contains('*')) {
            let folders = [
                "",
                "crates/",
                "crates/mcp-serve/src/",
                "crates/mcp-core/src/",
            ];
            let exists = folders
                .iter()
                .any(|folder| root().join(folder).join(file).is_file());
            assert!(exists, "{path}: {file} does not exist");
        }
    }
}

#[test]
fn every_block_is_checked() {
    for block in user_pages().iter().flat_map(|path| blocks(path)) {
        let checked = match &*block.language {
            // The picture, and lines of a token file.
            "" | "text" => true,
            "json" | "json n8n" | "json host" => serde_json::from_str::<Value>(&block.text).is_ok(),
            "sh" => block.text.lines().all(|line| {
                let begins = [
                    "curl ",
                    "  ",
                    "cargo xtask ",
                    // `cargo xtask package --check` runs it.
                    "sudo dpkg -i target/dist/docker-mcp-server_",
                    "target/debug/docker-mcp-server connect ",
                    "claude mcp add ",
                    "mcp-gateway ",
                    "docker-mcp-server ",
                    "export MCP_TOKEN_FILE=",
                    "OPENHANDS_MCP_SERVERS=",
                    "OPENHANDS_CALLBACK_HOSTS=",
                    "OTEL_EXPORTER_OTLP_ENDPOINT=",
                ];
                begins.iter().any(|begin| line.starts_with(begin))
            }),
            // The targets of Prometheus.
            "yaml" => SERVERS
                .iter()
                .all(|server| block.text.contains(&format!("127.0.0.1:{}", port(server)))),
            // `gateway_files_are_valid` has it.
            "toml" => true,
            // `snippets_of_hosts_name_servers_that_answer` has it.
            "toml host" => true,
            _ => false,
        };
        assert!(
            checked,
            "{}: no test knows this block:\n{}",
            block.position, block.text
        );
    }
}

#[tokio::test]
async fn gateway_files_are_valid() {
    let folder = std::env::temp_dir().join(format!("readme-{}", uuid::Uuid::new_v4().simple()));
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("gateway.toml");
    let mut files = 0;
    for block in user_pages().iter().flat_map(|path| blocks(path)) {
        if block.language == "toml" {
            // Without the download. `postgres` and the like are only in comments.
            let text = block.text.replace("\"npx\"", "\"cat\"");
            let text = text.replace("\"docker-mcp-server\"", "\"cat\"");
            std::fs::write(&file, text).unwrap();
            let args = ["--config", file.to_str().unwrap()];
            // A file that is wrong keeps it from starting.
            let variables = [("MCP_TOKEN", "a-token-of-16-chars"), ("HOOK", "a-path")];
            Server::with_args("mcp-gateway", &args, &variables).await;
            files += 1;
        }
    }
    assert_eq!(files, 7);
    std::fs::remove_dir_all(&folder).unwrap();
}
