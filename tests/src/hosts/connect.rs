//! `connect`: our client starts a server by the written entries.

use std::path::Path;

use mcp_client::{Client, ClientInfo, Endpoint};
use mcp_hosts::{HOSTS, Host, Listed, listed};

use super::Home;
use crate::harness::{Server, assert_contains, assert_lacks, binary, client_builder};

/// A secret that must not be written anywhere.
const CANARY: &str = "canary-5d0c-77be";

fn hosts() -> impl Iterator<Item = &'static Host> {
    HOSTS.iter().filter(|host| host.file.is_some())
}

fn entry(host: &Host, file: &Path, name: &str) -> Listed {
    let mut found = listed(host, file).unwrap();
    found.retain(|entry| entry.name == name);
    let entry = found.pop();
    entry.unwrap_or_else(|| panic!("{} has no {name}", host.id))
}

/// A client of the program of an entry.
fn started(entry: &Listed, env: &[(&str, &str)]) -> Client {
    let (program, args) = entry.command.split_first().unwrap();
    assert!(Path::new(program).is_absolute());
    let command = mcp_client::Command::new(program);
    let command = args.iter().fold(command, |command, arg| command.arg(arg));
    let own = entry.env.iter().map(|(name, value)| (&**name, &**value));
    let env = own.chain(env.iter().copied());
    let set = |command: mcp_client::Command, (name, value)| command.env(name, value);
    client_builder().stdio(env.fold(command, set)).unwrap()
}

async fn tools(client: Client) -> usize {
    let info = ClientInfo::new("tests", "1");
    client.initialize(&info).await.unwrap();
    let tools = client.list_tools().await.unwrap().len();
    client.close().await;
    tools
}

#[tokio::test]
async fn every_host_starts_the_server_and_gets_its_file_back() {
    for host in hosts() {
        let home = Home::new();
        let args = ["connect", host.id];
        let env = [("DOCKER_HOST", "unix:///nowhere.sock")];
        let dry = ["connect", host.id, "--dry-run"];
        let shown = home.done("docker-mcp-server", &dry, &env);
        assert_contains(&shown, "nothing was written");
        let files = std::fs::read_dir(&home.0).unwrap();
        assert_eq!(files.count(), 0, "{}", host.id);
        let file = Home::file(&home.done("docker-mcp-server", &args, &env));
        let written = entry(host, &file, "docker");
        let client = started(&written, &[]);
        assert!(tools(client).await > 5, "{}", host.id);
        let again = home.done("docker-mcp-server", &args, &env);
        assert_contains(&again, "nothing to do");
        home.done("docker-mcp-server", &["connect", host.id, "--undo"], &[]);
        assert!(!file.exists(), "{}", host.id);
    }
}

/// A host looks for a bare name in `PATH` only.
#[test]
fn program_in_the_current_folder_is_named_by_its_path() {
    let home = Home::new();
    let own = home.0.canonicalize().unwrap().join("docker-mcp-server");
    std::fs::copy(binary("docker-mcp-server"), &own).unwrap();
    let own = own.to_str().unwrap();
    let said = home.done(own, &["connect", "zed"], &[]);
    let written = entry(Host::find("zed").unwrap(), &Home::file(&said), "docker");
    assert_eq!(written.command[0], own);
}

#[tokio::test]
async fn every_host_calls_a_url_itself_or_through_the_bridge() {
    let server = Server::start("docker-mcp-server", &[("MCP_TOKEN", CANARY)]).await;
    for host in hosts() {
        let home = Home::new();
        let token = home.0.join("token");
        std::fs::write(&token, CANARY).unwrap();
        for args in [&[][..], &["--token-file", token.to_str().unwrap()]] {
            let args = [&["connect", host.id, "--http", &server.url], args].concat();
            let said = home.done("docker-mcp-server", &args, &[("MCP_TOKEN", CANARY)]);
            assert_lacks(&said, CANARY);
            let file = Home::file(&said);
            assert_lacks(&std::fs::read_to_string(&file).unwrap(), CANARY);
            let written = entry(host, &file, "docker");
            let client = match &written.url {
                None => started(&written, &[("MCP_TOKEN", CANARY)]),
                Some(url) => {
                    let endpoint = Endpoint::new(url).unwrap();
                    let endpoint = endpoint.bearer(CANARY).unwrap();
                    client_builder().http(endpoint).unwrap()
                }
            };
            assert!(tools(client).await > 5, "{}", host.id);
        }
    }
}

#[test]
fn secrets_are_written_nowhere() {
    let home = Home::new();
    let env = [("N8N_API_KEY", CANARY), ("N8N_URL", "http://127.0.0.1:1")];
    for host in hosts() {
        let said = home.done("n8n-mcp-server", &["connect", host.id], &env);
        assert_lacks(&said, CANARY);
        let file = Home::file(&said);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_lacks(&text, CANARY);
        assert_contains(&text, "http://127.0.0.1:1");
        assert_contains(&said, "note: ");
        // Where the host cannot refer to a variable, a file of the key can be named.
        let by_file = [("N8N_API_KEY_FILE", "key"), env[1]];
        home.done("n8n-mcp-server", &["connect", host.id], &by_file);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_contains(&text, home.0.join("key").to_str().unwrap());
    }
    let args = ["connect", "zed", "--", "--n8n-api-key", CANARY];
    let refused = home.run("n8n-mcp-server", &args, &[]);
    assert_ne!(refused.code, 0);
    assert_contains(&refused.stderr, "N8N_API_KEY_FILE");
    assert_lacks(&refused.stderr, CANARY);
    // No variable names a file with the address.
    let with_password = [("N8N_URL", "http://u:canary-5d0c-77be@127.0.0.1:1")];
    let said = home.done("n8n-mcp-server", &["connect", "lm-studio"], &with_password);
    assert_contains(&said, "connect with `-- --config FILE`");
    assert_lacks(&said, "N8N_URL_FILE");
    assert_lacks(&said, CANARY);
    std::fs::write(home.0.join("n8n.toml"), "n8n_url = \"http://127.0.0.1:1\"").unwrap();
    let by_file = ["connect", "lm-studio", "--", "--config", "n8n.toml"];
    let said = home.done("n8n-mcp-server", &by_file, &[]);
    assert_contains(&said, home.0.join("n8n.toml").to_str().unwrap());
    let token = ["connect", "zed", "--http", "http://127.0.0.1:1/mcp"];
    let said = home.done("docker-mcp-server", &token, &[("MCP_TOKEN", CANARY)]);
    assert_contains(
        &said,
        "connect with --token-file FILE, or set MCP_TOKEN for Zed",
    );
    let unknown = ["connect", "zed", "--", "--no-such"];
    let unknown = home.run("n8n-mcp-server", &unknown, &[]);
    assert_contains(&unknown.stderr, "--no-such");
}

#[test]
fn n8n_gets_a_node_to_paste() {
    let home = Home::new();
    let url = "http://127.0.0.1:3458/mcp";
    let ended = home.run("docker-mcp-server", &["connect", "n8n", "--http", url], &[]);
    let node: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(node["nodes"][0]["parameters"]["endpointUrl"], url);
    let refused = home.run("docker-mcp-server", &["connect", "n8n"], &[]);
    assert_contains(&refused.stderr, "--http URL");
}
