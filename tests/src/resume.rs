//! Resumed streams: no message of the server is lost, and the call continues.

use serde_json::{Value, json};

use crate::harness::{Server, http_client};

/// Opens a session of a client with elicitation; returns its id.
async fn session(server: &Server, revision: &str) -> String {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "tests", "version": "1"},
    });
    let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = server.post(request.to_string()).await;
    let id = reply.headers["mcp-session-id"].to_str().unwrap();
    id.to_owned()
}

/// The events of one connection.
struct Events {
    response: reqwest::Response,
    text: String,
}

#[derive(Debug)]
struct Event {
    id: String,
    data: String,
}

impl Event {
    fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Events {
    /// Calls a tool that asks the user and waits for the answer.
    async fn from_call(server: &Server, session: &str) -> Self {
        let params = json!({"name": "test_elicitation", "arguments": {"message": "Who?"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let request = http_client().post(&server.url).body(call.to_string());
        let request = request.header("content-type", "application/json");
        Self::from_request(request, session).await
    }

    async fn resumed(server: &Server, session: &str, last: &Event) -> Self {
        let request = http_client().get(&server.url);
        Self::from_request(request.header("last-event-id", &last.id), session).await
    }

    async fn from_request(request: reqwest::RequestBuilder, session: &str) -> Self {
        let request = request
            .header("accept", "application/json, text/event-stream")
            .header("mcp-session-id", session);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = String::new();
        Self { response, text }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    let value = lines.find_map(|line| line.strip_prefix(name));
                    value.unwrap_or_default().trim().to_owned()
                };
                let event = Event {
                    id: field("id:"),
                    data: field("data:"),
                };
                self.text = rest.to_owned();
                return Some(event);
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

/// Answers the question in `event`.
async fn answer(server: &Server, session: &str, event: &Event) {
    let result = json!({"action": "accept", "content": {"username": "ann", "email": "a@b"}});
    let answer = json!({"jsonrpc": "2.0", "id": event.json()["id"], "result": result});
    let headers = [("mcp-session-id", session)];
    let reply = server.post_with(&headers, answer.to_string()).await;
    assert_eq!(reply.status, 202);
}

#[tokio::test]
async fn resumed_stream_repeats_the_question_and_gets_the_result() {
    let server = Server::start("mcp-conformance", &[]).await;
    let session = session(&server, "2025-11-25").await;
    let mut events = Events::from_call(&server, &session).await;
    let primer = events.next().await.unwrap();
    assert_eq!(primer.data, "");
    let question = events.next().await.unwrap();
    assert_eq!(question.json()["method"], "elicitation/create");
    drop(events);

    let mut events = Events::resumed(&server, &session, &primer).await;
    let again = events.next().await.unwrap();
    assert_eq!((&again.id, &again.data), (&question.id, &question.data));
    answer(&server, &session, &again).await;
    let result = events.next().await.unwrap().json();
    assert_eq!(result["id"], 1);
    assert!(result["result"].to_string().contains("ann"), "{result}");
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn second_connection_ends_the_first() {
    let server = Server::start("mcp-conformance", &[]).await;
    let session = session(&server, "2025-06-18").await;
    let mut first = Events::from_call(&server, &session).await;
    // This revision has no events without data.
    let question = first.next().await.unwrap();
    assert_eq!(question.json()["method"], "elicitation/create");
    let mut second = Events::resumed(&server, &session, &question).await;
    assert!(first.next().await.is_none());
    answer(&server, &session, &question).await;
    assert_eq!(second.next().await.unwrap().json()["id"], 1);
}

#[tokio::test]
async fn ended_session_cannot_be_resumed() {
    let server = Server::start("mcp-conformance", &[]).await;
    let session = session(&server, "2025-11-25").await;
    let mut events = Events::from_call(&server, &session).await;
    let primer = events.next().await.unwrap();
    let headers = [("mcp-session-id", session.as_str())];
    let ended = server.request("DELETE", "/mcp", &headers).await;
    assert_eq!(ended.status, 204);
    while events.next().await.is_some() {}
    // The call ends as well, because its question can no longer be answered.
    server.wait_for_log("The client has disconnected.").await;
    let headers = [
        ("mcp-session-id", session.as_str()),
        ("accept", "text/event-stream"),
        ("last-event-id", primer.id.as_str()),
    ];
    assert_eq!(server.request("GET", "/mcp", &headers).await.status, 404);
}
