//! The reference server of the protocol, `@modelcontextprotocol/server-everything`.

use std::process::Stdio;
use std::time::Duration;

use mcp_client::{EraChoice, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::super::asking::call;
use super::super::lab::{Gateway, failure, text};
use super::{child, direct, give_up, kill_and_heal, offers_all_of};
use crate::harness::eventually;
use crate::harness::real::third_party_server;

#[tokio::test]
async fn as_a_child_it_is_well() {
    let Some(argv) = third_party_server("EVERYTHING") else {
        return;
    };
    let gateway = Gateway::with(&child(&argv)).await;
    Box::pin(offers_all_of(&gateway, &direct(&argv).await)).await;
    // Soon after its start it asks for the roots, apart from any call: the one under way at that
    // moment would be asked on its behalf.
    tokio::time::sleep(Duration::from_secs(1)).await;
    Box::pin(everything_passes(&gateway)).await;
    kill_and_heal(&gateway, argv.last().unwrap()).await;
    echoes(&gateway).await;
}

/// It says 400 where the specification wants 404 for a session that it does not know.
#[tokio::test]
async fn over_http_it_is_well_and_after_its_restart() {
    let Some(argv) = third_party_server("EVERYTHING") else {
        return;
    };
    let (first, port) = listening(&argv, free_port()).await;
    let url = format!("url = \"http://127.0.0.1:{port}/mcp\"");
    let gateway = Gateway::with(&url).await;
    Box::pin(everything_passes(&gateway)).await;
    ended(first).await;
    let (_second, _) = listening(&argv, port).await;
    echoes(&gateway).await;
}

async fn echoes(gateway: &Gateway) {
    let result = gateway.tool("b__echo", json!({"message": "Grüße ✓"})).await;
    assert_eq!(text(&result), "Echo: Grüße ✓");
}

async fn everything_passes(gateway: &Gateway) {
    echoes(gateway).await;
    let wrong = gateway.answer("b__get-sum", json!({"a": "one"})).await;
    assert!(failure(&wrong).contains("expected number"), "{wrong}");
    for (round, dialect) in [EraChoice::Newest, EraChoice::Legacy]
        .into_iter()
        .enumerate()
    {
        let client = gateway.client(dialect, None).await;
        let ask = async |method: &str, params: Value| -> Value {
            let answer = client.request(method, &params).await;
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error:?}"));
            serde_json::from_str(answer.get()).unwrap()
        };
        let weather =
            json!({"name": "b__get-structured-content", "arguments": {"location": "Chicago"}});
        let weather = ask("tools/call", weather).await;
        assert_eq!(weather["structuredContent"]["temperature"], 36, "{weather}");
        let image = ask(
            "tools/call",
            json!({"name": "b__get-tiny-image", "arguments": {}}),
        )
        .await;
        assert_eq!(image["content"][1]["mimeType"], "image/png", "{dialect:?}");
        let note = "demo://resource/dynamic/text/1";
        let note = ask("resources/read", json!({"uri": note})).await;
        assert!(note["contents"][0]["text"].is_string(), "{note}");
        let prompt = json!({"name": "b__args-prompt", "arguments": {"city": "Rome"}});
        let prompt = ask("prompts/get", prompt).await;
        let words = &prompt["messages"][0]["content"]["text"];
        assert_eq!(*words, "What's weather in Rome?", "{dialect:?} {prompt}");
        let argument = json!({"name": "department", "value": "En"});
        let of = json!({"type": "ref/prompt", "name": "b__completable-prompt"});
        let completed = json!({"ref": of, "argument": argument});
        let completed = ask("completion/complete", completed).await;
        assert_eq!(completed["completion"]["values"], json!(["Engineering"]));

        let (reports, mut seen) = mpsc::channel(16);
        let long = json!({"name": "b__trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 4}});
        let options = Options::default().progress(reports);
        let long = client.request_with("tools/call", &long, options).await;
        let long = long.unwrap();
        assert!(long.get().contains("completed"), "{long}");
        for step in 1..=4 {
            let report = seen.recv().await.unwrap();
            assert_eq!(
                (report.progress, report.total),
                (f64::from(step), Some(4.0))
            );
        }
        let long = json!({"duration": 60, "steps": 600});
        give_up(&client, "b__trigger-long-running-operation", long).await;
        // What asks next is asked for the only call under way: not before the other has ended.
        eventually("it to be cancelled", async || {
            let calls = gateway.calls().await;
            let ended = calls.iter().filter(|call| call["outcome"] == "cancelled");
            (ended.count() == round + 1).then_some(())
        })
        .await;

        let (result, asked) =
            Box::pin(call(&client, "b__trigger-elicitation-request", json!({}))).await;
        assert_eq!(asked, ["elicitation/create"], "{dialect:?} {result}");
        assert!(result.to_string().contains("- Name: Ada"), "{result}");
        let prompt = json!({"prompt": "Really?"});
        let (result, asked) = Box::pin(call(&client, "b__trigger-sampling-request", prompt)).await;
        assert_eq!(asked, ["sampling/createMessage"], "{dialect:?}");
        assert!(result.to_string().contains("yes"), "{result}");
    }
}

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// The server, once it listens; it cannot be made to choose a free port by itself.
async fn listening(argv: &[String], port: u16) -> (Child, u16) {
    let mut server = tokio::process::Command::new(&argv[0])
        .args(&argv[1..])
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next_line().await.unwrap().expect("it listens");
        if line.contains("listening on port") {
            break;
        }
    }
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (server, port)
}

async fn ended(mut server: Child) {
    server.kill().await.unwrap();
}
