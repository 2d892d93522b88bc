//! Checks the README and the pages of `docs`: tables are generated, names exist, examples run.

mod book;
mod commands;
mod curl;
mod errors;
mod hosts;
mod recipes;
mod tables;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::commands::run;
use crate::committed::root;
use crate::harness::{Folder, Server};
use crate::surface::{SERVERS, options, printed};

/// The pages for users beside those of the book. `ARCHITECTURE.md` and `CONTRIBUTING.md` name code, too.
const USER_PAGES: [&str; 3] = ["README.md", "CHANGELOG.md", "SECURITY.md"];

/// The pages for those who change the code.
const DEVELOPER_PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// The address of a file of this repository.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// A fenced block of a page.
#[derive(Clone)]
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

/// The port that a server has by default.
pub(crate) fn port(server: &str) -> String {
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

/// The help of a command of `cargo xtask`, which must exist.
fn xtask_help(command: &str) -> String {
    let ended = run("xtask", &[command, "--help"], &[]);
    assert_eq!(ended.code, 0, "cargo xtask {command} does not exist");
    ended.stdout
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
    let of_servers = SERVERS.map(|server| printed(server, "--help"));
    let of_xtask = ["run-all", "test", "package"].map(xtask_help);
    let commands = [
        "explain",
        "events",
        "pins approve",
        "login",
        "token add",
        "connect",
        "bridge",
        "doctor",
    ];
    let of_commands = commands.map(|command| printed("mcp-gateway", &format!("{command} --help")));
    for help in of_servers.iter().chain(&of_xtask).chain(&of_commands) {
        known.extend(words(help).map(str::to_owned));
    }
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
fn short_help_fits_a_screen() {
    for server in SERVERS {
        let help = printed(server, "-h");
        assert!(help.lines().count() <= 40, "{help}");
        let options = help
            .lines()
            .filter(|line| line.trim_start().starts_with("--"));
        assert!((8..=12).contains(&options.count()), "{help}");
        let long = printed(server, "--help");
        for heading in ["Access:", "TLS:", "Limits:", "Compatibility:"] {
            assert!(long.lines().any(|line| line == heading), "{heading} {long}");
        }
    }
}

#[test]
fn every_variable_exists() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for server in SERVERS {
        let options = options(server);
        let variables = options.iter().map(|option| option["env"].as_str().unwrap());
        known.extend(variables.map(str::to_owned));
    }
    // Read by `run-all`.
    let services = std::fs::read_to_string(root().join("xtask/src/services/openhands.rs")).unwrap();
    known.extend(words(&services).map(str::to_owned));
    // Of OpenTelemetry, most of them read by its SDK.
    let of_spans = "BSP_MAX_EXPORT_BATCH_SIZE BSP_MAX_QUEUE_SIZE BSP_SCHEDULE_DELAY EXPORTER_OTLP_ENDPOINT \
        EXPORTER_OTLP_HEADERS EXPORTER_OTLP_PROTOCOL EXPORTER_OTLP_TIMEOUT EXPORTER_OTLP_TRACES_ENDPOINT \
        EXPORTER_OTLP_TRACES_HEADERS EXPORTER_OTLP_TRACES_TIMEOUT RESOURCE_ATTRIBUTES SDK_DISABLED SERVICE_NAME \
        TRACES_EXPORTER TRACES_SAMPLER TRACES_SAMPLER_ARG";
    known.extend(of_spans.split(' ').map(|name| format!("OTEL_{name}")));
    // Of an example, of the child that it starts and of a placeholder; of hosts, and of the system.
    let others = "HTTPS_PROXY HTTP_PROXY NO_PROXY LOG_LEVEL CLAUDE_CONFIG_DIR CODEX_HOME COPILOT_HOME \
        MAX_MCP_OUTPUT_TOKENS OPENHANDS_PERSISTENCE_DIR SSL_CERT_FILE XDG_CONFIG_HOME XDG_STATE_HOME";
    known.extend(others.split(' ').map(str::to_owned));
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
    let pages = user_text() + &DEVELOPER_PAGES.map(page).concat();
    let mut named = BTreeSet::new();
    for (at, _) in pages.match_indices("cargo xtask ") {
        named.extend(pages[at..].split([' ', '`', '\n']).nth(2));
    }
    for command in named.iter().filter(|command| **command != "…") {
        xtask_help(command);
    }
    assert!(named.len() >= 2, "the pages do not name the two commands");
}

/// `cargo xtask nightly docs` follows all other links.
#[test]
fn every_link_to_a_file_of_the_repository_leads_somewhere() {
    let developer = DEVELOPER_PAGES.map(str::to_owned);
    for path in user_pages().into_iter().chain(developer) {
        for link in page(&path).split(&format!("]({REPOSITORY}")).skip(1) {
            let file = link.split([')', '#']).next().unwrap();
            assert!(root().join(file).is_file(), "{path}: {file}");
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
            let mut folders = [
                "",
                "crates/",
                "crates/mcp-serve/src/",
                "crates/mcp-core/src/",
            ]
            .iter();
            let exists = folders.any(|folder| root().join(folder).join(file).is_file());
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
            // `pages_of_hosts_are_fresh` has it.
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
    let folder = Folder::new();
    let mut files = 0;
    for block in user_pages().iter().flat_map(|path| blocks(path)) {
        if block.language == "toml" {
            // Without the download. `postgres` and the like are only in comments.
            let text = block.text.replace("\"npx\"", "\"cat\"");
            let text = text.replace("\"docker-mcp-server\"", "\"cat\"");
            let args = ["--config", &folder.write("gateway.toml", &text)];
            // A file that is wrong keeps it from starting.
            let variables = [
                ("MCP_TOKEN", "a-token-of-16-chars"),
                (
                    "MCP_SESSION_KEY",
                    "a session key for the examples, long enough",
                ),
                ("HOOK", "a-path"),
                ("PGPASSWORD", "a-password"),
            ];
            Server::with_args("mcp-gateway", &args, &variables).await;
            files += 1;
        }
    }
    assert_eq!(files, 9);
}
