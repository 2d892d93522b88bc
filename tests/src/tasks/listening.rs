//! `notifications/tasks` on `subscriptions/listen`.

use serde_json::{Value, json};

use super::client::{Client, Over, borrowed};
use super::text;
use crate::harness::http_client;

#[tokio::test]
async fn over_stdio() {
    let mut client = Client::modern(Over::stdio());
    let created = client
        .call("slow_compute", json!({"seconds": 1, "label": "sum"}))
        .await;
    let (id, frame) = client.request("subscriptions/listen", filter(&created["taskId"]));
    let line = client.over.line();
    line.send(&frame).await;
    acknowledged(&line.message().await, id, &created["taskId"]);
    loop {
        let told = line.message().await;
        if has_ended(&told, id, &created["taskId"]) {
            return;
        }
    }
}

#[tokio::test]
async fn over_http() {
    let mut client = Client::modern(Over::http().await);
    let created = client
        .call("slow_compute", json!({"seconds": 1, "label": "sum"}))
        .await;
    let (id, frame) = client.request("subscriptions/listen", filter(&created["taskId"]));
    let Over::Http { server, .. } = &client.over else {
        unreachable!("it was just made so");
    };
    let headers = client.headers(&frame);
    let mut request = http_client().post(&server.url).body(frame.to_string());
    for (name, value) in borrowed(&headers) {
        request = request.header(name, value);
    }
    let accept = "application/json, text/event-stream";
    let request = request
        .header("content-type", "application/json")
        .header("accept", accept);
    let mut stream = request.send().await.unwrap();
    let mut events = String::new();
    while !events.contains("\"completed\"") {
        let chunk = stream.chunk().await.unwrap().expect("it tells");
        events.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let mut told = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    acknowledged(&told.next().unwrap(), id, &created["taskId"]);
    let ends = told.filter(|told| has_ended(told, id, &created["taskId"]));
    assert_eq!(ends.count(), 1);
}

#[tokio::test]
async fn a_client_that_knows_no_tasks_hears_of_none() {
    let mut client = Client::modern(Over::stdio()).declaring(json!({}));
    let code = client
        .refused("subscriptions/listen", filter(&json!("x")))
        .await;
    assert_eq!(code, -32021);
}

fn filter(task: &Value) -> Value {
    json!({"notifications": {"taskIds": [task, "no task of ours"]}})
}

fn acknowledged(told: &Value, id: u64, task: &Value) {
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(told["params"]["notifications"]["taskIds"], json!([task]));
    assert_eq!(subscription(told), id);
}

fn has_ended(told: &Value, id: u64, task: &Value) -> bool {
    assert_eq!(told["method"], "notifications/tasks");
    assert_eq!(subscription(told), id);
    assert_eq!(told["params"]["taskId"], *task);
    let has_ended = told["params"]["status"] == "completed";
    if has_ended {
        assert_eq!(text(&told["params"]["result"]), "sum: 1 s");
    }
    has_ended
}

fn subscription(told: &Value) -> u64 {
    let id = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    id.as_u64().unwrap()
}
