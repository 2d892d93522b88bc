//! The kinds of use, each through several replicas.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::Row;
use super::client::{Event, Stream, answer, call, request};
use super::cluster::{BALANCER, Cluster, REPLICAS};

/// The time in which something must show everywhere.
const SPREAD_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) const USES: [Row; 19] = [
    Row::new("session: initialize at one, calls at others", session),
    Row::new("session: calls through nginx", balanced_session),
    Row::new("modern: calls through nginx", balanced_modern),
    Row::new("progress", progress),
    Row::new("level: set at one, logs at others", level),
    Row::new("modern question, answered at another", modern_question),
    Row::new(
        "resources and events are the same everywhere",
        resources_and_events,
    ),
    Row::new("session: DELETE at one, gone at all", delete),
    Row::new(
        "session question of an HTTP backend, answered at another",
        |c| question(c, "test_elicitation"),
    ),
    Row::new("session question of a child, answered at another", |c| {
        question(c, "old__test_elicitation")
    }),
    Row::new("sampling, answered at another", |c| {
        question(c, "test_sampling")
    }),
    Row::new(
        "parked question of a child, answered at another",
        parked_question,
    ),
    Row::new("tasks of 2026-07-28 through others", modern_tasks),
    Row::new("tasks of 2025-11-25 through others", session_tasks),
    Row::new("stream resumed at another", resume),
    Row::new("notifications/cancelled through another", cancel),
    Row::new("subscribe at one, stream at another", subscribe),
    Row::new("gateway_status names all replicas", status),
    Row::new("/metrics names the replica", metrics),
];

/// Pairs of a replica and another.
const PAIRS: [(usize, usize); 3] = [(0, 1), (1, 2), (2, 0)];

type Shown = anyhow::Result<String>;

fn session(cluster: &mut Cluster<'_>) -> Shown {
    for at in 0..REPLICAS {
        let session = cluster.client.session(at)?;
        for other in 0..REPLICAS {
            let listed = cluster
                .client
                .ask(other, &session, "tools/list", json!({}))?;
            ensure!(listed["result"]["tools"].is_array(), "{listed}");
            echo(
                &cluster
                    .client
                    .call(other, &session, "echo", json!({"value": other}))?,
                other,
            )?;
        }
    }
    Ok("9 of 9".to_owned())
}

fn echo(result: &Value, value: usize) -> anyhow::Result<()> {
    let echoed = &result["result"]["structuredContent"]["value"];
    ensure!(*echoed == json!(value), "{result}");
    Ok(())
}

fn balanced_session(cluster: &mut Cluster<'_>) -> Shown {
    let session = cluster.client.session(BALANCER)?;
    for value in 0..30 {
        echo(
            &cluster
                .client
                .call(BALANCER, &session, "echo", json!({"value": value}))?,
            value,
        )?;
    }
    Ok("30 of 30".to_owned())
}

fn balanced_modern(cluster: &mut Cluster<'_>) -> Shown {
    for value in 0..30 {
        let params = json!({"name": "echo", "arguments": {"value": value}});
        echo(
            &cluster.client.modern(BALANCER, "tools/call", params)?,
            value,
        )?;
    }
    Ok("30 of 30".to_owned())
}

fn progress(cluster: &mut Cluster<'_>) -> Shown {
    let session = cluster.client.session(0)?;
    for at in 0..REPLICAS {
        let stream = cluster.client.post(at, &session, &slow(3, 50))?;
        let first = stream.message()?.message;
        ensure!(first["method"] == "notifications/progress", "{first}");
        ensure!(stream.response()?["result"].is_object(), "no result");
    }
    Ok(String::new())
}

/// A call that lasts for some steps, with a token for its progress.
fn slow(steps: u32, step_ms: u32) -> Value {
    let mut slow = call("slow", json!({"steps": steps, "step": step_ms}));
    slow["params"]["_meta"] = json!({"progressToken": 1});
    slow
}

fn level(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        let logs = |level: &str| -> anyhow::Result<usize> {
            cluster
                .client
                .ask(at, &session, "logging/setLevel", json!({"level": level}))?;
            let stream =
                cluster
                    .client
                    .post(other, &session, &call("test_tool_with_logging", json!({})))?;
            let mut logs = 0;
            while stream.message()?.message["method"] == "notifications/message" {
                logs += 1;
            }
            Ok(logs)
        };
        ensure!(logs("debug")? > 0, "no logs at {other}");
        ensure!(logs("error")? == 0, "{other} logs below the level");
    }
    Ok(String::new())
}

/// Answers the questions of a call that has ended with them, at another replica.
fn next_round(
    cluster: &Cluster<'_>,
    tool: &str,
    arguments: &Value,
    (at, other): (usize, usize),
) -> anyhow::Result<Value> {
    let mut params = json!({"name": tool, "arguments": arguments});
    let asked = cluster.client.modern(at, "tools/call", params.clone())?;
    let asked = &asked["result"];
    let questions = asked["inputRequests"]
        .as_object()
        .with_context(|| asked.to_string())?;
    params["requestState"] = asked["requestState"].clone();
    let answers = questions
        .iter()
        .map(|(key, question)| (key.clone(), answer(question)["result"].clone()));
    params["inputResponses"] = answers.collect();
    cluster.client.modern(other, "tools/call", params)
}

fn modern_question(cluster: &mut Cluster<'_>) -> Shown {
    for pair in PAIRS {
        let tool = "test_input_required_result_elicitation";
        let result = next_round(cluster, tool, &json!({}), pair)?;
        let result = &result["result"];
        let is_good = result["content"].is_array() && result["isError"] != true;
        ensure!(is_good, "{}", result["content"]);
    }
    Ok("3 of 3".to_owned())
}

fn parked_question(cluster: &mut Cluster<'_>) -> Shown {
    for pair in PAIRS {
        let arguments = json!({"message": "Who?"});
        let result = next_round(cluster, "old__test_elicitation", &arguments, pair)?;
        ensure!(result.to_string().contains("ann"), "{result}");
    }
    Ok("3 of 3".to_owned())
}

/// The trace of one call, by which its events are found.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn resources_and_events(cluster: &mut Cluster<'_>) -> Shown {
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let echo = call("echo", json!({"value": 1}));
    cluster
        .client
        .send(0, "POST", &[("traceparent", &parent)], &echo)?
        .response()?;
    let seen_at = |at| -> anyhow::Result<(String, String)> {
        let resources = cluster.client.ask(at, "", "resources/list", json!({}))?;
        let events = cluster
            .client
            .call(at, "", "get_events", json!({"trace_id": TRACE}))?;
        let text = events["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_default();
        Ok((resources["result"].to_string(), text.to_owned()))
    };
    let mut seen = Vec::new();
    let is_same = cluster.layout.shutdown.wait_until(SPREAD_TIMEOUT, || {
        seen = (0..REPLICAS).filter_map(|at| seen_at(at).ok()).collect();
        let has_event =
            |(_, events): &(String, String)| events.contains(TRACE) || events.contains("tool_call");
        seen.len() == REPLICAS && seen.iter().all(|one| has_event(one) && *one == seen[0])
    });
    ensure!(is_same, "they differ: {seen:.200?}");
    Ok(String::new())
}

fn delete(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        for at in 0..REPLICAS {
            cluster.client.ask(at, &session, "ping", json!({}))?;
        }
        let status = cluster.client.delete(at, &session)?;
        ensure!(status == 204 || status == 200, "DELETE answered {status}");
        let ended = Instant::now();
        let ping = |at| {
            cluster
                .client
                .post(at, &session, &request("ping", json!({})))
        };
        for at in [other, at, other] {
            let status = ping(at)?.status;
            ensure!(
                status == 404,
                "{at} answers {status} after {} ms",
                ended.elapsed().as_millis()
            );
        }
    }
    Ok("404 at once".to_owned())
}

fn question(cluster: &mut Cluster<'_>, tool: &str) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        let arguments = json!({"message": "Who?", "prompt": "Who?"});
        let arguments = match tool {
            "test_sampling" => json!({"prompt": arguments["prompt"]}),
            _ => json!({"message": arguments["message"]}),
        };
        let stream = cluster.client.post(at, &session, &call(tool, arguments))?;
        let question = stream.message()?.message;
        ensure!(
            question["id"] != Value::Null && question["method"].is_string(),
            "{question}"
        );
        let reply = cluster.client.post(other, &session, &answer(&question))?;
        ensure!(reply.status == 202, "the answer gets {}", reply.status);
        let result = stream.response()?;
        ensure!(result["result"].to_string().contains("ann"), "{result}");
    }
    Ok("3 of 3".to_owned())
}

fn modern_tasks(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let compute = json!({"name": "slow_compute", "arguments": {"seconds": 60}});
        let made = cluster.client.modern(at, "tools/call", compute)?;
        let id = json!({"taskId": made["result"]["taskId"]});
        let status = |at| -> anyhow::Result<Value> {
            let found = cluster.client.modern(at, "tasks/get", id.clone())?;
            match &found["result"]["status"] {
                Value::Null => bail!("{found}"),
                status => Ok(status.clone()),
            }
        };
        ensure!(status(other)? == "working");
        cluster.client.modern(other, "tasks/cancel", id.clone())?;
        for at in 0..REPLICAS {
            ensure!(status(at)? == "cancelled", "not cancelled at {at}");
        }
    }
    Ok("3 of 3".to_owned())
}

fn session_tasks(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(at)?;
        let params = json!({"name": "slow_compute", "arguments": {"seconds": 1}, "task": {}});
        let made = cluster.client.ask(at, &session, "tools/call", params)?;
        let id = json!({"taskId": made["result"]["task"]["taskId"]});
        let result = cluster
            .client
            .ask(other, &session, "tasks/result", id.clone())?;
        ensure!(result["result"].to_string().contains("1 s"), "{result}");
        let found = cluster.client.ask(other, &session, "tasks/get", id)?;
        ensure!(found["result"]["status"] == "completed", "{found}");
    }
    Ok("3 of 3".to_owned())
}

fn resume(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        let stream = cluster.client.post(at, &session, &slow(20, 50))?;
        let Event { id, message } = stream.message()?;
        ensure!(!id.is_empty(), "no id: {message}");
        drop(stream);
        let resumed: Stream = cluster.client.stream(other, &session, &id)?;
        let next = resumed.message()?;
        ensure!(next.message != message, "an event comes again");
        ensure!(resumed.response()?["result"].is_object(), "no result");
    }
    Ok("3 of 3".to_owned())
}

fn cancel(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        let stream = cluster.client.post(at, &session, &slow(300, 100))?;
        stream.message()?;
        let params = json!({"requestId": 7});
        let cancelled =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        let status = cluster.client.post(other, &session, &cancelled)?.status;
        ensure!(status == 202, "the notification gets {status}");
        let mut found = Value::Null;
        let is_over = cluster.layout.shutdown.wait_until(SPREAD_TIMEOUT, || {
            let count = cluster.client.call(other, "", "count_slow", json!({}));
            found = count.unwrap_or_default()["result"]["structuredContent"].clone();
            found["running"] == 0
        });
        ensure!(is_over, "the call runs on: {found}");
    }
    Ok("3 of 3".to_owned())
}

fn subscribe(cluster: &mut Cluster<'_>) -> Shown {
    for (at, other) in PAIRS {
        let session = cluster.client.session(0)?;
        let uri = json!({"uri": "test://watched-resource"});
        let subscribed = cluster
            .client
            .ask(at, &session, "resources/subscribe", uri)?;
        ensure!(subscribed["result"].is_object(), "{subscribed}");
        let stream = cluster.client.stream(other, &session, "")?;
        let (client, changes) = (cluster.client.clone(), Duration::from_millis(500));
        // Several, since the gateway subscribes at the backend some time later.
        let changing = thread::spawn(move || {
            for _ in 0..10 {
                let _ = client.call(at, "", "test_trigger_resource_change", json!({}));
                thread::sleep(changes);
            }
        });
        let told = stream.message();
        let _ = changing.join();
        let told = told?.message;
        ensure!(
            told["method"] == "notifications/resources/updated",
            "{told}"
        );
    }
    Ok("3 of 3".to_owned())
}

fn status(cluster: &mut Cluster<'_>) -> Shown {
    for at in 0..REPLICAS {
        let status = cluster.client.call(at, "", "gateway_status", json!({}))?;
        let replicas = status["result"]["structuredContent"]["replicas"]
            .as_array()
            .map(Vec::len);
        ensure!(
            replicas == Some(REPLICAS),
            "replica {at} names {replicas:?}"
        );
    }
    Ok("3 at each".to_owned())
}

fn metrics(cluster: &mut Cluster<'_>) -> Shown {
    for at in 0..REPLICAS {
        let (status, text) = cluster.client.page(at, "/metrics")?;
        ensure!(
            status == 200 && text.contains("replica"),
            "replica {at} is not named"
        );
    }
    Ok(String::new())
}
