//! The reference server of the protocol, `@modelcontextprotocol/server-everything`.

use std::time::Duration;

use mcp_client::{EraChoice, Options};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::env::{Gateway, failure, request, text};
use super::super::input_requests::call;
use super::{
    assert_same_lists, cancel_after_progress, child, direct, kill_and_wait_for_restart, spawn_http,
};
use crate::harness::real::third_party_server;
use crate::harness::{assert_contains, free_port, wait_until};

#[tokio::test]
async fn works_as_a_child() {
    let Some(argv) = third_party_server("EVERYTHING") else {
        return;
    };
    let gateway = Gateway::with(&child(&argv)).await;
    Box::pin(assert_same_lists(&gateway, &direct(&argv).await)).await;
    // Soon after its start the server asks for the roots outside of a call. A call that runs at that
    // moment would get the question.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Box::pin(assert_all_features(&gateway)).await;
    kill_and_wait_for_restart(&gateway, argv.last().unwrap()).await;
    echoes(&gateway).await;
}

/// For an unknown session it answers with 400 instead of the 404 of the specification.
#[tokio::test]
async fn works_over_http_and_after_its_restart() {
    let Some(argv) = third_party_server("EVERYTHING") else {
        return;
    };
    let port = free_port();
    let start = || spawn_http(&argv, &["streamableHttp"], port, "listening on port");
    let (mut first, _) = start().await;
    let url = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let gateway = Gateway::with(&url).await;
    // As above.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Box::pin(assert_all_features(&gateway)).await;
    first.kill().await.unwrap();
    let _second = start().await;
    echoes(&gateway).await;
}

/// HTTP+SSE, by setting and by detection.
#[tokio::test]
async fn works_over_sse_and_after_its_restart() {
    let Some(argv) = third_party_server("EVERYTHING") else {
        return;
    };
    let port = free_port();
    let start = || spawn_http(&argv, &["sse"], port, "running on port");
    let (mut first, _) = start().await;
    let url = format!("url = \"http://127.0.0.1:{port}/sse\"");
    let detected = Gateway::with(&url).await;
    echoes(&detected).await;
    let gateway = Gateway::with(&format!("{url}\ntransport = \"sse\"")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    Box::pin(assert_all_features(&gateway)).await;
    first.kill().await.unwrap();
    gateway.until("b", "failed").await;
    let _second = start().await;
    gateway.until("b", "running").await;
    echoes(&gateway).await;
}

async fn echoes(gateway: &Gateway) {
    let result = gateway.tool("b__echo", json!({"message": "Grüße ✓"})).await;
    assert_eq!(text(&result), "Echo: Grüße ✓");
}

async fn assert_all_features(gateway: &Gateway) {
    echoes(gateway).await;
    let wrong = gateway.answer("b__get-sum", json!({"a": "one"})).await;
    assert_contains(&failure(&wrong), "expected number");
    for era in [EraChoice::Newest, EraChoice::Legacy] {
        let client = gateway.client(era, None).await;
        let ask = async |method: &str, params: Value| request(&client, method, params).await;
        let location = json!({"location": "Chicago"});
        let weather = json!({"name": "b__get-structured-content", "arguments": location});
        let weather = ask("tools/call", weather).await;
        assert_eq!(weather["structuredContent"]["temperature"], 36, "{weather}");
        let image = json!({"name": "b__get-tiny-image", "arguments": {}});
        let image = ask("tools/call", image).await;
        assert_eq!(image["content"][1]["mimeType"], "image/png", "{era:?}");
        let note = "demo://resource/dynamic/text/1";
        let note = ask("resources/read", json!({"uri": note})).await;
        assert!(note["contents"][0]["text"].is_string(), "{note}");
        let prompt = json!({"name": "b__args-prompt", "arguments": {"city": "Rome"}});
        let prompt = ask("prompts/get", prompt).await;
        let words = &prompt["messages"][0]["content"]["text"];
        assert_eq!(*words, "What's weather in Rome?", "{era:?} {prompt}");
        let argument = json!({"name": "department", "value": "En"});
        let of = json!({"type": "ref/prompt", "name": "b__completable-prompt"});
        let completed = json!({"ref": of, "argument": argument});
        let completed = ask("completion/complete", completed).await;
        assert_eq!(completed["completion"]["values"], json!(["Engineering"]));

        let (reports, mut received) = mpsc::channel(16);
        let long = json!({"name": "b__trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 4}});
        let options = Options::default().progress(reports);
        let long = client.request_with("tools/call", &long, options).await;
        assert_contains(long.unwrap().get(), "completed");
        for step in 1..=4 {
            let report = received.recv().await.unwrap();
            let progress = (report.progress, report.total);
            assert_eq!(progress, (f64::from(step), Some(4.0)));
        }
        let elicitation = call(&client, "b__trigger-elicitation-request", json!({}));
        let (result, asked) = Box::pin(elicitation).await;
        assert_eq!(asked, ["elicitation/create"], "{era:?} {result}");
        assert_contains(&result, "- Name: Ada");
        let prompt = json!({"prompt": "Really?"});
        let (result, asked) = Box::pin(call(&client, "b__trigger-sampling-request", prompt)).await;
        assert_eq!(asked, ["sampling/createMessage"], "{era:?}");
        assert_contains(&result, "yes");
    }
    // Last: while the server may go on with a call that was left, its questions are refused.
    for (cancelled, era) in [(1, EraChoice::Newest), (2, EraChoice::Legacy)] {
        let client = gateway.client(era, None).await;
        let long = json!({"duration": 60, "steps": 600});
        cancel_after_progress(&client, "b__trigger-long-running-operation", long).await;
        wait_until("the cancellation", async || {
            let calls = gateway.calls().await;
            let ended = calls.iter().filter(|call| call["outcome"] == "cancelled");
            ended.count() == cancelled
        })
        .await;
    }
}
