//! Subscriptions that cannot be made, and the form of their errors in each era.

use serde_json::{Value, json};

use super::{fixture, refused};
use crate::harness::{Dialect, Reply, Server, assert_contains, wait_until};

const URI: &str = "test://watched-resource";
/// No resource, and one that fits a template.
const MISSING: [&str; 2] = ["test://nowhere", "test://template/missing/data"];

/// Listens with this filter, as JSON.
async fn listen(server: &Server, filter: &Value) -> Reply {
    let members = format!(r#""notifications":{filter}"#);
    let method = "subscriptions/listen";
    let reply = server.request_as(Dialect::Modern, method, "", &members);
    reply.await
}

#[tokio::test]
async fn missing_resource_cannot_be_subscribed_to_in_a_session() {
    let server = fixture().await;
    let session = server.session("2025-11-25", &[]).await;
    let subscribe = async |uri: &str| {
        let headers = [("mcp-session-id", session.as_str())];
        let uri = format!(r#""uri":"{uri}""#);
        let body = Dialect::Unversioned.request("1", "resources/subscribe", &uri);
        server.post_with(&headers, body).await
    };
    for missing in MISSING {
        let error = refused(&subscribe(missing).await, 200, -32002, json!(1));
        assert_eq!(error["data"]["uri"], missing);
    }
    for uri in [URI, "test://template/7/data"] {
        assert_eq!(subscribe(uri).await.json()["result"], json!({}), "{uri}");
    }
}

#[tokio::test]
async fn client_without_a_session_cannot_subscribe() {
    let server = fixture().await;
    let uri = format!(r#""uri":"{URI}""#);
    for dialect in [Dialect::Unversioned, Dialect::Legacy("2025-11-25")] {
        let reply = server.request_as(dialect, "resources/subscribe", "", &uri);
        let error = refused(&reply.await, dialect.malformed_status(), -32600, json!(1));
        assert_contains(&error["message"], "call initialize first");
    }
}

#[tokio::test]
async fn wrong_filters_and_missing_resources_cannot_be_listened_to() {
    let server = fixture().await;
    for wrong in [json!([]), json!(null), json!([true]), json!("x"), json!(7)] {
        refused(&listen(&server, &wrong).await, 200, -32602, json!(1));
    }
    for missing in MISSING {
        let filter = json!({"resourceSubscriptions": [URI, missing]});
        let error = refused(&listen(&server, &filter).await, 200, -32602, json!(1));
        assert_eq!(error["data"]["uri"], missing);
    }
    let uris = (0..1001).map(|n| format!("test://{n}"));
    let many = json!({"resourceSubscriptions": uris.collect::<Vec<_>>()});
    refused(&listen(&server, &many).await, 200, -32602, json!(1));
    // Each resource of a template is read before, so these are fewer.
    let uris = (0..101).map(|id| format!("test://template/{id}/data"));
    let many = json!({"resourceSubscriptions": uris.collect::<Vec<_>>()});
    let error = refused(&listen(&server, &many).await, 200, -32602, json!(1));
    assert_has!(error["data"], {"field": "notifications.resourceSubscriptions"});
    assert_contains(&error["data"]["reason"], "100");
}

#[tokio::test]
async fn id_of_a_request_in_flight_is_refused_in_its_session() {
    let server = fixture().await;
    let own = server.session("2025-11-25", &[]).await;
    let other = server.session("2025-11-25", &[]).await;
    let ping = async |session: &str| {
        let ping = Dialect::Unversioned.request("7", "ping", "");
        server.post_with(&[("mcp-session-id", session)], ping).await
    };
    let slow = async {
        let members = r#""name":"slow","arguments":{"step":60000,"steps":10}"#;
        let slow = Dialect::Unversioned.request("7", "tools/call", members);
        server.post_with(&[("mcp-session-id", &own)], slow).await
    };
    let check = async {
        wait_until("the slow call", async || {
            server.call("count_slow", json!({})).await["running"] == 1
        })
        .await;
        let error = refused(&ping(&own).await, 400, -32600, json!(7));
        assert_eq!(error["data"]["field"], "id");
        assert_eq!(ping(&other).await.status, 200);
    };
    tokio::select! {
        reply = slow => panic!("{reply:?}"),
        () = check => {}
    }
}
