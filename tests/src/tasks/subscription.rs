//! `notifications/tasks` on `subscriptions/listen`.

use serde_json::{Value, json};

use super::client::{Client, Over};
use super::text;

/// Starts a task; returns its id, and the request that subscribes to it.
async fn subscription_to_task(client: &mut Client) -> (Value, u64, Value) {
    let arguments = json!({"seconds": 1, "label": "sum"});
    let task = client.call("slow_compute", arguments).await["taskId"].clone();
    let (id, frame) = client.request("subscriptions/listen", filter(&task));
    (task, id, frame)
}

#[tokio::test]
async fn notifications_over_stdio() {
    let mut client = Client::modern(Over::stdio());
    let (task, id, frame) = subscription_to_task(&mut client).await;
    let connection = client.over.stdio_connection();
    connection.send(frame.to_string()).await;
    acknowledged(&connection.message().await, id, &task);
    while !has_ended(&connection.message().await, id, &task) {}
}

#[tokio::test]
async fn notifications_over_http() {
    let mut client = Client::modern(Over::http().await);
    let (task, id, frame) = subscription_to_task(&mut client).await;
    let mut stream = client.open_stream(&frame).await;
    acknowledged(&stream.message().await.json(), id, &task);
    while !has_ended(&stream.message().await.json(), id, &task) {}
}

#[tokio::test]
async fn client_without_the_extension_cannot_subscribe() {
    let mut client = Client::modern(Over::stdio()).declaring(json!({}));
    let filter = filter(&json!("x"));
    client.refused(-32021, "subscriptions/listen", filter).await;
}

fn filter(task: &Value) -> Value {
    json!({"notifications": {"taskIds": [task, "unknown"]}})
}

fn acknowledged(message: &Value, id: u64, task: &Value) {
    let params = params(message, "notifications/subscriptions/acknowledged", id);
    assert_eq!(params["notifications"]["taskIds"], json!([task]));
}

fn has_ended(message: &Value, id: u64, task: &Value) -> bool {
    let params = params(message, "notifications/tasks", id);
    assert_eq!(params["taskId"], *task);
    let has_ended = params["status"] == "completed";
    if has_ended {
        assert_eq!(text(&params["result"]), "sum: 1 s");
    }
    has_ended
}

/// The parameters of a notification of the subscription `id`.
fn params<'a>(message: &'a Value, method: &str, id: u64) -> &'a Value {
    let params = &message["params"];
    assert_eq!(message["method"], method);
    let subscription = &params["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*subscription, id);
    params
}
