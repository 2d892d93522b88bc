//! Subscriptions that cannot be made, and the form of their errors in each era.

use serde_json::{Value, json};

use super::{fixture, refused};
use crate::harness::{Dialect, Server};

const URI: &str = "test://watched-resource";
/// No resource, and one that fits a template.
const MISSING: [&str; 2] = ["test://nowhere", "test://template/missing/data"];

/// Opens a session, and returns its id.
async fn session(server: &Server) -> String {
    let params = r#""protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}"#;
    let initialize = Dialect::Unversioned.request("0", "initialize", params);
    let reply = server.post(initialize).await;
    reply.headers["mcp-session-id"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn missing_resource_cannot_be_subscribed_to_in_a_session() {
    let server = fixture().await;
    let session = session(&server).await;
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
        let reply = server
            .request_as(dialect, "resources/subscribe", "", &uri)
            .await;
        let error = refused(&reply, dialect.malformed_status(), -32600, json!(1));
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("call initialize first")
        );
    }
}

#[tokio::test]
async fn wrong_filters_and_missing_resources_cannot_be_listened_to() {
    let server = fixture().await;
    let listen = async |filter: &Value| {
        let members = format!(r#""notifications":{filter}"#);
        let method = "subscriptions/listen";
        server
            .request_as(Dialect::Modern, method, "", &members)
            .await
    };
    for wrong in [json!([]), json!(null), json!([true]), json!("x"), json!(7)] {
        refused(&listen(&wrong).await, 200, -32602, json!(1));
    }
    for missing in MISSING {
        let filter = json!({"resourceSubscriptions": [URI, missing]});
        let error = refused(&listen(&filter).await, 200, -32602, json!(1));
        assert_eq!(error["data"]["uri"], missing);
    }
}

/// Each resource of a template is read before.
#[tokio::test]
async fn resources_of_templates_in_one_request_are_limited() {
    let server = fixture().await;
    let uris = (0..101).map(|id| format!("test://template/{id}/data"));
    let filter = json!({"resourceSubscriptions": uris.collect::<Vec<_>>()});
    let members = format!(r#""notifications":{filter}"#);
    let method = "subscriptions/listen";
    let reply = server
        .request_as(Dialect::Modern, method, "", &members)
        .await;
    let error = refused(&reply, 200, -32602, json!(1));
    assert_eq!(
        error["data"]["field"],
        "notifications.resourceSubscriptions"
    );
    assert!(error["data"]["reason"].as_str().unwrap().contains("100"));
}

/// Arrays in place of objects are refused elsewhere, too.
#[tokio::test]
async fn completion_refuses_arrays() {
    let server = fixture().await;
    let reference = r#"{"type":"ref/resource","uri":"test://template/{id}/data"}"#;
    for (reference, argument) in [
        (
            r#"["ref/resource","test://template/{id}/data"]"#,
            r#"{"name":"id","value":"1"}"#,
        ),
        (reference, r#"["id","1"]"#),
    ] {
        let members = format!(r#""ref":{reference},"argument":{argument}"#);
        let error = server
            .request_as(Dialect::Unversioned, "completion/complete", "", &members)
            .await;
        refused(&error, 200, -32602, json!(1));
    }
}

#[tokio::test]
async fn id_of_a_request_in_flight_is_refused_in_its_session() {
    let server = fixture().await;
    let (own, other) = (session(&server).await, session(&server).await);
    let ping = async |session: &str| {
        let ping = Dialect::Unversioned.request("7", "ping", "");
        server.post_with(&[("mcp-session-id", session)], ping).await
    };
    let slow = async {
        let members = r#""name":"slow","arguments":{"step":60000,"steps":1}"#;
        let slow = Dialect::Unversioned.request("7", "tools/call", members);
        server.post_with(&[("mcp-session-id", &own)], slow).await
    };
    let check = async {
        crate::harness::wait_until("the slow call", async || ping(&own).await.status == 400).await;
        let error = refused(&ping(&own).await, 400, -32600, json!(7));
        assert_eq!(error["data"]["field"], "id");
        assert_eq!(ping(&other).await.status, 200);
    };
    tokio::select! {
        reply = slow => panic!("{reply:?}"),
        () = check => {}
    }
}
