//! The reference server for files, `@modelcontextprotocol/server-filesystem`.

use serde_json::json;

use super::super::env::{Folder, Gateway, failure, text};
use super::{assert_same_lists, child, direct, kill_and_wait_for_restart};
use crate::harness::real::third_party_server;

#[tokio::test]
async fn works_behind_the_gateway() {
    let Some(mut argv) = third_party_server("FILESYSTEM") else {
        return;
    };
    let folder = Folder::new();
    let file = folder.write("note.txt", "Grüße ✓");
    argv.push(folder.path(""));
    let gateway = Gateway::with(&child(&argv)).await;
    Box::pin(assert_same_lists(&gateway, &direct(&argv).await)).await;
    let assert_reads = async || {
        let path = json!({"path": file});
        let read = gateway.tool("b__read_text_file", path).await;
        assert_eq!(text(&read), "Grüße ✓");
    };
    assert_reads().await;
    let new = folder.path("new.txt");
    let write = json!({"path": new, "content": "\u{2028} \"x\""});
    let written = gateway.tool("b__write_file", write).await;
    assert_ne!(written["isError"], true, "{written}");
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "\u{2028} \"x\"");
    let outside = json!({"path": "/etc/hostname"});
    let denied = gateway.answer("b__read_text_file", outside).await;
    assert!(failure(&denied).contains("denied"), "{denied}");
    kill_and_wait_for_restart(&gateway, argv.last().unwrap()).await;
    assert_reads().await;
}
