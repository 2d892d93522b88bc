//! The pages of hosts: tables and snippets are those that `connect` writes, and every snippet names a server
//! that answers.

use std::fmt::Write as _;
use std::path::Path;

use mcp_client::{Client, ClientInfo, Command};
use mcp_hosts::{Folders, Form, Format, HOSTS, Host, Reference, System, listed};
use serde_json::Value;

use super::tables::replaced;
use super::{Block, blocks, page, server_of};
use crate::committed;
use crate::harness::binary;
use crate::hosts::home::Home;

/// The folder of the programs on the pages.
const FOLDER: &str = "/path/to";

fn path_of(host: &Host) -> String {
    format!("docs/hosts/{}.md", host.id)
}

#[test]
fn pages_of_hosts_are_fresh() {
    for host in HOSTS {
        let path = path_of(host);
        let name = format!("host:{}", host.id);
        committed::check(&path, &replaced(&page(&path), &name, &described(host)));
    }
    let mut table = "| Host | Name | Refers to a variable as |\n|---|---|---|\n".to_owned();
    for host in HOSTS {
        let Host { id, name, .. } = host;
        let _ = writeln!(
            table,
            "| [{name}](hosts/{id}.md) | `{id}` | {} |",
            reference(host)
        );
    }
    let path = "docs/hosts.md";
    committed::check(path, &replaced(&page(path), "hosts", &table));
}

fn reference(host: &Host) -> &'static str {
    match (host.reference, host.form) {
        (Reference::Braces, _) => "`${NAME}`",
        (Reference::Env, _) => "`${env:NAME}`",
        (Reference::BareEnv, _) => "`{env:NAME}`",
        (Reference::Named, _) => "by name",
        (Reference::Unsupported, Form::Node) => "a credential",
        (Reference::Unsupported, _) => "cannot",
    }
}

/// The generated part of the page of a host.
fn described(host: &Host) -> String {
    let Host {
        id,
        name,
        page,
        after,
        ..
    } = host;
    let mut text = match host.file {
        Some(_) => format!(
            "`connect {id}` writes a server into this file, and `--undo` takes it out again: [hosts](../hosts.md).\n\n"
        ),
        None => format!("`connect {id}` prints a node, which you paste: [hosts](../hosts.md).\n\n"),
    };
    text.push_str("| | |\n|---|---|\n");
    let mut row = |what: &str, value: &str| _ = writeln!(text, "| {what} | {value} |");
    if let Some(file) = host.file {
        for (system, on) in [
            (System::Linux, "File on Linux"),
            (System::MacOs, "… on macOS"),
            (System::Windows, "… on Windows"),
        ] {
            let path = file(&Folders::shown(system)).display().to_string();
            let path = match system {
                System::Windows => path.replace('/', "\\"),
                System::Linux | System::MacOs => path,
            };
            row(on, &format!("`{path}`"));
        }
    }
    if let Some(file) = host.project_file {
        row("File of a project", &format!("`{file}`"));
    }
    row("Syntax", syntax(host.format));
    row("Reference to a variable", reference(host));
    match host.file {
        Some(_) => row(
            "Then",
            &format!("{after}; `doctor` tries the server as {name} does"),
        ),
        None => row("Then", after),
    }
    row("Source", &format!("<{page}>"));
    for (title, snippet) in snippets(host) {
        let language = if host.format == Format::Toml {
            "toml"
        } else {
            "json"
        };
        let _ = write!(
            text,
            "\n{title}:\n\n```{language} host\n{}\n```\n",
            snippet.trim_end()
        );
    }
    text
}

fn syntax(format: Format) -> &'static str {
    match format {
        Format::Json => "JSON",
        Format::JsonWithComments => "JSON with comments",
        Format::JsonWithCommas => "JSON with comments and a comma after the last member",
        Format::Toml => "TOML",
        Format::Node => "JSON of a node",
    }
}

/// The files that `connect` writes where there is none.
fn snippets(host: &Host) -> Vec<(&'static str, String)> {
    let url = ["--http", "http://127.0.0.1:3458/mcp"];
    let mut snippets = Vec::new();
    if host.form != Form::Node {
        let secret = match host.reference {
            Reference::Unsupported => ("N8N_API_KEY_FILE", "/path/to/n8n-api-key"),
            _ => ("N8N_API_KEY", "a-key"),
        };
        let title = "The host starts the server, with a key of its service";
        snippets.push((title, written(host, "n8n-mcp-server", &[], &[secret])));
    }
    let title = "The host calls a running server";
    snippets.push((title, written(host, "docker-mcp-server", &url, &[])));
    if host.form != Form::Node {
        let token = match host.reference {
            Reference::Unsupported => ["--token-file", "/path/to/token"],
            _ => ["--token-env", "MCP_TOKEN"],
        };
        let args = [url, token].concat();
        let title = "… that has a token";
        snippets.push((title, written(host, "docker-mcp-server", &args, &[])));
    }
    snippets
}

fn written(host: &Host, program: &str, args: &[&str], env: &[(&str, &str)]) -> String {
    let home = Home::new();
    let args = [&["connect", host.id], args].concat();
    let text = match host.file {
        Some(_) => {
            let file = Home::file(&home.done(program, &args, env));
            std::fs::read_to_string(file).unwrap()
        }
        None => String::from_utf8(home.run(program, &args, env).stdout).unwrap(),
    };
    // The program tells its real path.
    let program = binary(program).canonicalize().unwrap();
    let folder = program.parent().unwrap().display().to_string();
    assert!(
        host.file.is_none() || text.contains(&folder) || text.contains("127.0.0.1"),
        "{text}"
    );
    text.replace(&folder, FOLDER)
}

#[tokio::test]
async fn snippets_of_hosts_name_servers_that_answer() {
    let mut found = 0;
    for host in HOSTS {
        let blocks = blocks(&path_of(host)).into_iter();
        for block in blocks.filter(|block| block.language.ends_with(" host")) {
            check(host, &block).await;
            found += 1;
        }
    }
    assert_eq!(found, 3 * HOSTS.len() - 2, "three of each, and one of n8n");
}

/// Reads the snippet as the file of its host; starts its program, or looks for the server of its URL.
async fn check(host: &Host, block: &Block) {
    let place = &block.position;
    if host.form == Form::Node {
        let node: Value = serde_json::from_str(&block.text).unwrap();
        let url = node["nodes"][0]["parameters"]["endpointUrl"].as_str();
        return check_url(url.expect(place));
    }
    let home = Home::new();
    let file = home.0.join("file");
    std::fs::write(&file, &block.text).unwrap();
    let entries = listed(host, &file).unwrap();
    let [entry] = entries.as_slice() else {
        panic!("{place}: not one entry")
    };
    let Some((program, args)) = entry.command.split_first() else {
        return check_url(entry.url.as_deref().expect(place));
    };
    let program = Path::new(program);
    assert_eq!(program.parent(), Some(Path::new(FOLDER)), "{place}");
    let program = program.file_name().unwrap().to_str().unwrap();
    if args.first().is_some_and(|arg| arg == "bridge") {
        assert_eq!(program, "mcp-gateway", "{place}");
        return check_url(&args[1]);
    }
    assert_eq!(program, format!("{}-mcp-server", entry.name), "{place}");
    let mut command = Command::new(binary(program).to_str().unwrap()).env("N8N_API_KEY", "a-key");
    for arg in args {
        command = command.arg(arg);
    }
    assert_ne!(
        entry.env.len() + entry.env_pass.len(),
        0,
        "{place}: the key is missing"
    );
    let client = Client::stdio(command).unwrap();
    client
        .initialize(&ClientInfo::new("tests", "1"))
        .await
        .unwrap();
    assert!(!client.list_tools().await.unwrap().is_empty(), "{place}");
    client.close().await;
}

fn check_url(url: &str) {
    let port = url
        .rsplit_once(':')
        .and_then(|(_, port)| port.strip_suffix("/mcp"));
    assert_eq!(server_of(port.expect(url)), "docker-mcp-server", "{url}");
}

/// The lines for a terminal: a URL of a server, or a program and its arguments after ` -- `.
#[test]
fn claude_code_commands_name_servers() {
    let pages = blocks("docs/hosts/claude-code.md").into_iter();
    let lines = pages.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>());
    let commands: Vec<_> = lines
        .filter(|line| line.starts_with("claude mcp add "))
        .collect();
    assert_eq!(commands.len(), 2, "HTTP and stdio");
    for line in commands {
        match line.split_once(" -- ") {
            Some((_, program)) => {
                let program = program.strip_prefix(&format!("{FOLDER}/")).expect(&line);
                assert_eq!(program, "n8n-mcp-server --stdio");
            }
            None => assert!(line.ends_with(" n8n http://localhost:3456/mcp"), "{line}"),
        }
    }
}
