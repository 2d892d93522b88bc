//! A database that has nothing yet, so that no gateway of another test is a replica of those on it.

use std::io::{Read, Write};
use std::net::TcpStream;

use reqwest::Url;

use crate::harness::real::postgres;

/// A database of its own, which is removed at the end.
pub(super) struct EmptyDatabase {
    server: Url,
    name: String,
}

impl EmptyDatabase {
    pub(super) fn create() -> Option<Self> {
        let server: Url = postgres()?.parse().unwrap();
        let name = format!("empty_{}", uuid::Uuid::new_v4().simple());
        execute(&server, &format!("create database {name}"));
        Some(Self { server, name })
    }

    pub(super) fn address(&self) -> String {
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
