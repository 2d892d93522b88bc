//! The checks of one connection.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::peer::{Peer, refused};
use crate::{failed, within};

/// Runs every check and prints one line for each.
pub(crate) async fn run(at: &str, era: &str, mut peer: Peer) {
    let (version, missing) = match era {
        "legacy" => ("2025-11-25", -32002),
        _ => ("2026-07-28", -32602),
    };
    report(at, "negotiate", async {
        same(peer.version()?, version.to_owned())
    })
    .await;
    report(at, "list_tools", list_tools(&peer)).await;
    report(at, "call", call(&peer)).await;
    report(at, "error", error(&peer)).await;
    report(at, "progress", progress(&mut peer)).await;
    report(at, "cancel", cancel(&mut peer)).await;
    report(at, "resource", resource(&peer, missing)).await;
    report(at, "prompt", prompt(&peer)).await;
    report(at, "close", async { Ok(drop(peer.client.cancel().await?)) }).await;
}

async fn report(at: &str, check: &str, outcome: impl Future<Output = anyhow::Result<()>>) {
    match within(outcome).await {
        Ok(()) => println!("ok {at} {check}"),
        Err(why) => failed(at, check, &why),
    }
}

fn same<T: Debug + PartialEq>(found: T, wanted: T) -> anyhow::Result<()> {
    ensure!(found == wanted, "{found:?} instead of {wanted:?}");
    Ok(())
}

fn has(many: &[String], one: &str) -> anyhow::Result<()> {
    ensure!(
        many.iter().any(|found| found == one),
        "no {one} in {many:?}"
    );
    Ok(())
}

async fn list_tools(peer: &Peer) -> anyhow::Result<()> {
    let [tools, ..] = peer.names().await?;
    ["echo", "slow", "fail"]
        .into_iter()
        .try_for_each(|name| has(&tools, name))
}

async fn call(peer: &Peer) -> anyhow::Result<()> {
    let value =
        json!({"text": "Grüße ✓ \u{2028}", "large": u64::MAX, "list": [1, 2.5, null, true, {}]});
    let result = peer.call("echo", json!({"value": value})).await?;
    same(&result["isError"], &json!(false))?;
    same(&result["structuredContent"], &json!({"value": value}))
}

async fn error(peer: &Peer) -> anyhow::Result<()> {
    let result = peer.call("fail", json!({})).await?;
    same(&result["isError"], &json!(true))?;
    same(
        &result["content"][0]["text"],
        &json!("The service failed; try again later."),
    )?;
    same(refused(peer.call("no_such_tool", json!({})).await)?, -32602)
}

async fn progress(peer: &mut Peer) -> anyhow::Result<()> {
    let result = peer.call("slow", json!({"step": 5, "steps": 5})).await?;
    same(&result["structuredContent"], &json!({"done": 5}))?;
    for done in 1..=5 {
        let seen = peer.seen.recv().await.context("no progress")?;
        same(
            seen,
            json!([f64::from(done), 5.0, format!("step {done} of 5")]),
        )?;
    }
    Ok(())
}

async fn cancel(peer: &mut Peer) -> anyhow::Result<()> {
    let Peer { client, seen } = peer;
    let slow = rmcp::model::CallToolRequestParams::new("slow").with_arguments(
        json!({"step": 100, "steps": 300})
            .as_object()
            .cloned()
            .unwrap_or_default(),
    );
    // The call is dropped after its first progress notification.
    tokio::select! {
        result = client.call_tool(slow) => anyhow::bail!("{result:?} before any progress"),
        step = seen.recv() => drop(step.context("no progress")?),
    }
    // The server is notified a moment later; the connection stays open.
    let until = Instant::now() + Duration::from_secs(25);
    while running(peer).await? != json!(0) && Instant::now() < until {
        sleep(Duration::from_millis(20)).await;
    }
    same(running(peer).await?, json!(0))
}

async fn running(peer: &Peer) -> anyhow::Result<serde_json::Value> {
    Ok(peer.call("count_slow", json!({})).await?["structuredContent"]["running"].take())
}

async fn resource(peer: &Peer, missing: i32) -> anyhow::Result<()> {
    let [_, resources, _] = peer.names().await?;
    has(&resources, "test://static-text")?;
    let text = "This is the content of the static text resource.";
    same(
        &peer.read("test://static-text").await?["text"],
        &json!(text),
    )?;
    let png = peer.read("test://static-binary").await?;
    ensure!(
        png["blob"]
            .as_str()
            .is_some_and(|blob| blob.starts_with("iVBORw0KGgo")),
        "{png}"
    );
    let data = peer.read("test://template/42/data").await?;
    ensure!(
        data["text"]
            .as_str()
            .is_some_and(|text| text.contains(r#""id":"42""#)),
        "{data}"
    );
    same(refused(peer.read("test://nothing").await)?, missing)
}

async fn prompt(peer: &Peer) -> anyhow::Result<()> {
    let [.., prompts] = peer.names().await?;
    has(&prompts, "test_prompt_with_arguments")?;
    let arguments = json!({"arg1": "one", "arg2": "two"});
    let text = peer.prompt("test_prompt_with_arguments", arguments).await?;
    same(text, json!("Prompt with arguments: arg1='one', arg2='two'"))?;
    same(
        refused(peer.prompt("no_such_prompt", json!({})).await)?,
        -32602,
    )
}
