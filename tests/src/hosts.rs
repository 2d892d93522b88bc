//! The commands for hosts: `connect`, `doctor`, and of the gateway `bridge`.

mod bridge;
mod connect;
mod doctor;

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::commands::Ended;
/// A home folder for the files of hosts.
pub(crate) use crate::harness::Folder as Home;
use crate::harness::{Server, binary, post_message};

impl Home {
    /// Runs a command with this home folder.
    pub(crate) fn run(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> Ended {
        let output = Command::new(binary(program))
            .args(args)
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(env.iter().copied())
            .current_dir(&self.0)
            .output();
        output.unwrap().into()
    }

    /// Runs a command that must succeed; returns all that it prints.
    #[track_caller]
    pub(crate) fn done(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> String {
        let ended = self.run(program, args, env);
        let text = ended.stdout + &ended.stderr;
        assert_eq!(ended.code, 0, "{program} {args:?}: {text}");
        text
    }

    /// The file that a command says it has written.
    pub(crate) fn file(said: &str) -> PathBuf {
        let file = said.lines().find_map(|line| line.strip_prefix("written: "));
        file.unwrap_or_else(|| panic!("nothing was written: {said}"))
            .into()
    }
}

/// The page of a server ticks the hosts that have called.
#[tokio::test]
async fn page_of_a_server_knows_the_clients_that_have_called_a_tool() {
    let server = Server::start("mcp-conformance", &[]).await;
    let origin = server.url.replace("/mcp", "");
    let headers = [("origin", &*origin), ("sec-fetch-site", "same-origin")];
    let clients = async || {
        let me = post_message(&format!("{origin}/page/me"), &headers, &json!({})).await;
        me.json()["clients"].take()
    };
    // A client that only looks has not called.
    let client = server.client().await;
    assert_eq!(clients().await, json!([]));
    for _ in 0..2 {
        let called = client.call_tool("echo", &json!({"value": 1})).await;
        assert!(!called.unwrap().is_error);
        assert_eq!(clients().await, json!(["tests"]));
    }
}
