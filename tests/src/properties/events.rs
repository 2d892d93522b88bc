//! Any message becomes one event.

use std::sync::Arc;

use super::for_all;
use super::text::{id, value};
use crate::harness::{Dialect, RawConnection, post};
use crate::listener::TestListener;

/// The data of every event, parsed by the rules of the standard (HTML, 9.2.6).
fn events(stream: &str) -> Vec<String> {
    let lines = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in lines.split('\n') {
        if line.is_empty() {
            if !data.is_empty() {
                events.push(data.join("\n"));
            }
            data.clear();
        } else if let Some(rest) = line.strip_prefix("data:") {
            data.push(rest.strip_prefix(' ').unwrap_or(rest));
        }
    }
    events
}

#[test]
fn any_message_becomes_one_event() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listener = Arc::new(runtime.block_on(TestListener::start(|_| ())));
    for_all(200, &(id(), value()), |(id, value)| {
        let members = format!(r#""name":"echo","arguments":{{"value":{value}}}"#);
        let body = Dialect::Unversioned.request(&id, "mcp.callTool", &members);
        let reply = runtime.block_on(async {
            let mut wire = RawConnection::connect(&listener.url).await;
            wire.send(post(&["Accept: text/event-stream"], &body)).await;
            wire.reply().await.unwrap()
        });
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"value":{value}}}}}"#);
        let expected = message.replace(['\n', '\r'], " ");
        proptest::prop_assert_eq!(events(&reply.body), vec![expected]);
        Ok(())
    });
}
