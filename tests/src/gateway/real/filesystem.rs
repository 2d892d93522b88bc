//! The reference server for files, `@modelcontextprotocol/server-filesystem`.

use serde_json::json;

use super::super::lab::{Folder, Gateway, failure, text};
use super::{child, direct, kill_and_heal, offers_all_of};
use crate::harness::real::third_party_server;

#[tokio::test]
async fn it_is_well_behind_the_gateway() {
    let Some(mut argv) = third_party_server("FILESYSTEM") else {
        return;
    };
    let folder = Folder::new();
    let file = folder.write("note.txt", "Grüße ✓");
    argv.push(folder.path(""));
    let gateway = Gateway::with(&child(&argv)).await;
    Box::pin(offers_all_of(&gateway, &direct(&argv).await)).await;
    let reads = async || {
        let read = gateway
            .tool("b__read_text_file", json!({"path": file}))
            .await;
        assert_eq!(text(&read), "Grüße ✓");
    };
    reads().await;
    let new = folder.path("new.txt");
    let write = json!({"path": new, "content": "\u{2028} \"x\""});
    let written = gateway.tool("b__write_file", write).await;
    assert_ne!(written["isError"], true, "{written}");
    assert_eq!(std::fs::read_to_string(&new).unwrap(), "\u{2028} \"x\"");
    let outside = json!({"path": "/etc/hostname"});
    let denied = gateway.answer("b__read_text_file", outside).await;
    assert!(failure(&denied).contains("denied"), "{denied}");
    kill_and_heal(&gateway, argv.last().unwrap()).await;
    reads().await;
}
