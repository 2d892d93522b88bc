//! The trace of a request that one replica forwards to another.

use serde_json::json;

use super::env::ReplicaGroup;
use crate::gateway::spans::{Span, SpanReceiver};
use crate::harness::eventually;

const CLIENT_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// The span of this replica, of its hop, and of the replica that answered.
async fn forwarded(receiver: &SpanReceiver, method: &str, parent: &str) -> [Span; 3] {
    eventually("the spans of a forwarded request", async || {
        let all = receiver.all();
        let mut roots = all
            .iter()
            .filter(|span| span.name == method && span.parent == parent);
        roots.find_map(|root| {
            let mut hops = all.iter().filter(|span| span.parent == root.id);
            let hop = hops.find(|span| span.name == "POST")?;
            let answered = all.iter().find(|span| span.parent == hop.id)?;
            Some([root, hop, answered].map(Clone::clone))
        })
    })
    .await
}

#[tokio::test]
async fn forwarded_request_is_one_trace() {
    let receiver = SpanReceiver::start().await;
    let env = receiver.env("gateway");
    let Some(group) = ReplicaGroup::start_with_env(&env).await else {
        return;
    };
    let compute = json!({"name": "b__slow_compute", "arguments": {"seconds": 30}});
    let made = group.modern(0, "tools/call", compute).await;
    let id = json!({"taskId": made["result"]["taskId"]});
    let in_trace = |method: &str, spans: &[Span; 3]| {
        let [root, hop, answered] = spans;
        assert!(!root.is_client && hop.is_client && !answered.is_client);
        assert_eq!((&*answered.name, &root.trace), (method, &answered.trace));
        assert_eq!(root.trace, hop.trace);
        for span in spans {
            assert!(!span.has_failed, "{span:?}");
        }
    };
    // Without a trace of the client, the first replica begins one.
    let found = group.modern(1, "tasks/get", id.clone()).await;
    assert_eq!(found["result"]["status"], "working", "{found}");
    in_trace("tasks/get", &forwarded(&receiver, "tasks/get", "").await);
    // One in `_meta` goes on with the span of the first replica, not with a second child of the client.
    let mut params = id.clone();
    let parent = format!("00-{CLIENT_TRACE}-{CLIENT_SPAN}-01");
    params["_meta"] = json!({"traceparent": parent});
    let cancelled = group.modern(2, "tasks/cancel", params).await;
    assert!(cancelled["result"].is_object(), "{cancelled}");
    let spans = forwarded(&receiver, "tasks/cancel", CLIENT_SPAN).await;
    in_trace("tasks/cancel", &spans);
    assert_eq!(spans[0].trace, CLIENT_TRACE);
    let children = receiver.in_trace(CLIENT_TRACE).into_iter();
    let children = children.filter(|span| span.parent == CLIENT_SPAN);
    assert_eq!(children.count(), 1);
}
