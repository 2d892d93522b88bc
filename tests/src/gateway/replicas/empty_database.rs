//! Three gateways that start at the same moment on a database that has nothing yet.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::Url;
use serde_json::json;

use super::env::ReplicaGroup;
use crate::harness::real::postgres;
use crate::harness::{http_client, wait_until};

/// A database of its own, which is removed at the end.
struct EmptyDatabase {
    server: Url,
    name: String,
}

impl EmptyDatabase {
    fn create() -> Option<Self> {
        let server: Url = postgres()?.parse().unwrap();
        let name = format!("empty_{}", uuid::Uuid::new_v4().simple());
        execute(&server, &format!("create database {name}"));
        Some(Self { server, name })
    }

    fn address(&self) -> String {
        let mut address = self.server.clone();
        address.set_path(&self.name);
        address.into()
    }
}

impl Drop for EmptyDatabase {
    fn drop(&mut self) {
        let remove = format!("drop database {} with (force)", self.name);
        execute(&self.server, &remove);
    }
}

/// Runs a statement on the server for tests, which asks for no password.
fn execute(server: &Url, sql: &str) {
    let host = server.host_str().unwrap();
    let mut stream = TcpStream::connect((host, server.port().unwrap_or(5432))).unwrap();
    let (user, database) = (server.username(), server.path().trim_start_matches('/'));
    let start = format!("\0\x03\0\0user\0{user}\0database\0{database}\0\0");
    let mut send = |kind: &[u8], body: &str| {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        let message = [kind, &length, body.as_bytes()].concat();
        stream.write_all(&message).unwrap();
        // Until the server is ready for the next one.
        loop {
            let mut head = [0; 5];
            stream.read_exact(&mut head).unwrap();
            let [kind, length @ ..] = head;
            let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut body).unwrap();
            assert_ne!(kind, b'E', "{}", String::from_utf8_lossy(&body));
            if kind == b'Z' {
                return;
            }
        }
    };
    send(b"", &start);
    send(b"Q", &format!("{sql}\0"));
}

#[tokio::test]
async fn replicas_that_start_at_once_on_an_empty_database_become_ready() {
    let Some(database) = EmptyDatabase::create() else {
        return;
    };
    let group = ReplicaGroup::start_on(&database.address()).await;
    for (at, gateway) in group.gateways.iter().flatten().enumerate() {
        wait_until("all three at each", async || {
            let status = group.status(at).await;
            let replicas = status["replicas"].as_array().unwrap();
            replicas.len() == 3 && replicas.iter().all(|one| one["status"] == "alive")
        })
        .await;
        let ready = gateway.server.url.replace("/mcp", "/readyz");
        let ready = http_client().get(ready).send().await.unwrap();
        assert_eq!(ready.status(), 200);
    }
    let session = group.session(0).await;
    for at in 0..3 {
        let listed = group.ask(at, &session, "tools/list", json!({})).await;
        assert!(listed["result"]["tools"].is_array(), "{at}");
    }
    // One that creates a table which another has created fails, says so, and tries again.
    for gateway in group.gateways.iter().flatten() {
        let log = gateway.server.log();
        let is_bad = |line: &&str| line.contains("ERROR") || line.contains("WARN gateway_store");
        assert_eq!(log.lines().find(is_bad), None);
    }
}
