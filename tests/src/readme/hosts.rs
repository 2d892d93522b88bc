//! Checks the snippets for hosts: their commands start a server, their URLs are a server's address.

use std::collections::BTreeMap;
use std::path::Path;

use mcp_client::{Client, ClientInfo, Command};
use serde::Deserialize;
use serde_json::Value;

use super::{blocks, server_of};
use crate::harness::binary;

/// A server's entry in a host's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    url: Option<String>,
}

impl Entry {
    async fn check(self, name: &str) {
        match (self.command, self.url) {
            (Some(command), None) => {
                let server = Path::new(&command).file_name().unwrap().to_str().unwrap();
                assert_eq!(server, format!("{name}-mcp-server"));
                let mut command = Command::new(binary(server).to_str().unwrap());
                for arg in self.args {
                    command = command.arg(arg);
                }
                for (name, value) in self.env {
                    command = command.env(name, value);
                }
                let client = Client::stdio(command).unwrap();
                client
                    .initialize(&ClientInfo::new("tests", "1"))
                    .await
                    .unwrap();
                assert!(!client.list_tools().await.unwrap().is_empty(), "{name}");
                client.close().await;
            }
            (None, Some(url)) => {
                assert!(self.kind.is_none_or(|kind| kind == "http"), "{name}");
                let port = url
                    .strip_prefix("http://localhost:")
                    .and_then(|url| url.strip_suffix("/mcp"));
                let server = server_of(port.unwrap_or_else(|| panic!("{name}: {url}")));
                assert_eq!(server, format!("{name}-mcp-server"));
            }
            _ => panic!("{name} has neither command nor url, or both"),
        }
    }
}

#[tokio::test]
async fn host_files_name_servers_that_answer() {
    let mut hosts = 0;
    for block in blocks("README.md") {
        let Ok(file) = serde_json::from_str::<Value>(&block.text) else {
            continue;
        };
        let Some(entries) = file.get("mcpServers").or(file.get("servers")) else {
            continue;
        };
        for (name, entry) in entries.as_object().unwrap() {
            let entry: Entry = serde_json::from_value(entry.clone()).unwrap();
            entry.check(name).await;
        }
        hosts += 1;
    }
    assert_eq!(hosts, 3, "Claude Desktop, Cursor, VS Code");
}

#[tokio::test]
async fn claude_code_commands_name_servers_that_answer() {
    let mut commands = 0;
    for block in blocks("README.md") {
        for line in block
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("claude mcp add "))
        {
            let (name, entry) = added(line);
            entry.check(&name).await;
            commands += 1;
        }
    }
    assert_eq!(commands, 2, "HTTP and stdio");
}

/// Parses the arguments of `claude mcp add`.
fn added(line: &str) -> (String, Entry) {
    let (own, command) = line.split_once(" -- ").unwrap_or((line, ""));
    let mut command = command.split_whitespace().map(str::to_owned);
    let mut entry = Entry {
        command: command.next(),
        args: command.collect(),
        env: BTreeMap::new(),
        kind: None,
        url: None,
    };
    let mut places = Vec::new();
    let mut words = own.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--transport" => entry.kind = words.next().map(str::to_owned),
            "-e" => {
                let (name, value) = words.next().unwrap().split_once('=').unwrap();
                entry.env.insert(name.to_owned(), value.to_owned());
            }
            place => places.push(place.to_owned()),
        }
    }
    let mut places = places.into_iter();
    let name = places.next().unwrap();
    entry.url = places.next();
    (name, entry)
}
