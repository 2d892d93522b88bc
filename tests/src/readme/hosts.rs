//! The pages of hosts: tables and snippets are those that `connect` writes. `hosts/connect.rs` starts what it writes.

use std::fmt::Write as _;

use mcp_hosts::{Folders, Form, Format, HOSTS, Host, Reference, System};

use super::tables::replaced;
use super::{blocks, page};
use crate::committed;
use crate::harness::binary;
use crate::hosts::Home;

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
        None => home.run(program, &args, env).stdout,
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
