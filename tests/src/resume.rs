//! Resumed streams: no message of the server is lost, and the call continues.

use serde_json::json;

use crate::harness::{
    Event, EventStream, Folder, Server, assert_contains, http_client, response, rpc, rpc_call,
};

/// Calls a tool that asks the user and waits for the answer.
async fn call(server: &Server, session: &str) -> EventStream {
    let call = rpc_call("test_elicitation", json!({"message": "Who?"}));
    let request = http_client().post(&server.url).body(call.to_string());
    let request = request.header("content-type", "application/json");
    stream(request, session).await
}

async fn resume(server: &Server, session: &str, last: &Event) -> EventStream {
    let request = http_client().get(&server.url);
    stream(request.header("last-event-id", &last.id), session).await
}

async fn stream(request: reqwest::RequestBuilder, session: &str) -> EventStream {
    let request = request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-session-id", session);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    EventStream::new(response)
}

/// Answers the question in `event`.
async fn answer(server: &Server, session: &str, event: &Event) {
    let result = json!({"action": "accept", "content": {"username": "ann", "email": "a@b"}});
    let answer = response(&event.json()["id"], "result", result);
    let headers = [("mcp-session-id", session)];
    let reply = server.post_with(&headers, answer.to_string()).await;
    assert_eq!(reply.status, 202);
}

#[tokio::test]
async fn resumed_stream_repeats_the_question_and_gets_the_result() {
    let server = Server::start("mcp-conformance", &[]).await;
    let session = server.session("2025-11-25", &[]).await;
    let mut events = call(&server, &session).await;
    let primer = events.next().await.unwrap();
    assert_eq!(primer.data, "");
    let question = events.next().await.unwrap();
    assert_eq!(question.json()["method"], "elicitation/create");
    drop(events);

    let mut events = resume(&server, &session, &primer).await;
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
    let session = server.session("2025-06-18", &[]).await;
    let mut first = call(&server, &session).await;
    // This revision has no events without data.
    let question = first.next().await.unwrap();
    assert_eq!(question.json()["method"], "elicitation/create");
    let mut second = resume(&server, &session, &question).await;
    assert!(first.next().await.is_none());
    answer(&server, &session, &question).await;
    assert_eq!(second.next().await.unwrap().json()["id"], 1);
}

#[tokio::test]
async fn ended_session_cannot_be_resumed() {
    let server = Server::start("mcp-conformance", &[]).await;
    let session = server.session("2025-11-25", &[]).await;
    let mut events = call(&server, &session).await;
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

/// The id of a session stays validly signed, so what is kept of its end decides.
#[tokio::test]
async fn ended_session_has_also_ended_after_a_restart() {
    let folder = Folder::new();
    let home = folder.0.to_str().unwrap();
    let same_file = [("XDG_STATE_HOME", home)];
    let same_secret = [("XDG_STATE_HOME", home), ("MCP_SESSION_KEY", "0123456789")];
    for env in [&same_file[..], &same_secret] {
        let server = Server::start("mcp-conformance", env).await;
        let sessions = [
            server.session("2025-06-18", &[]).await,
            server.session("2025-11-25", &[]).await,
            server.session("2025-11-25", &[]).await,
        ];
        let [kept, ended, later] = sessions.each_ref().map(|id| [("mcp-session-id", &**id)]);
        let delete =
            async |server: &Server, session| server.request("DELETE", "/mcp", session).await.status;
        let use_of = async |server: &Server, session| {
            let ping = rpc("ping", json!({})).to_string();
            server.post_with(session, ping).await.status
        };
        assert_eq!(delete(&server, &ended).await, 204);
        server.kill().await;
        let server = Server::start("mcp-conformance", env).await;
        assert_eq!(use_of(&server, &kept).await, 200);
        for _ in 0..2 {
            assert_eq!(use_of(&server, &ended).await, 404);
            assert_eq!(delete(&server, &ended).await, 404);
        }
        assert_eq!(delete(&server, &later).await, 204);
        server.kill().await;
        let server = Server::start("mcp-conformance", env).await;
        assert_eq!(use_of(&server, &kept).await, 200);
        for gone in [&ended, &later] {
            assert_eq!(use_of(&server, gone).await, 404);
        }
    }
    // Without a folder for its key, sessions end with the process, and the log tells how they would stay.
    let server = Server::start("mcp-conformance", &[]).await;
    assert_contains(&server.log(), "set HOME or XDG_STATE_HOME");
}
