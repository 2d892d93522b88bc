//! Servers that are killed in the middle of a replacement.

use super::*;

/// A new container that gets unhealthy after some seconds.
fn hopeless(web: &str) -> Value {
    json!({"container": web, "confirm": web, "timeout_seconds": 8, "changes":
        {"healthcheck": {"command": ["false"], "interval_seconds": 1, "retries": 4}}})
}

/// Killed between two steps of the way back: the next server goes the rest of it.
#[tokio::test]
async fn way_back_is_finished_after_a_kill() {
    for mut lab in labs().await {
        for (number, step) in ["start", "rename"].into_iter().enumerate() {
            let name = format!("web{number}");
            let options = json!({"StopTimeout": 0});
            let web = lab.run(&name, &["sleep", "600"], options).await;
            let id = inspect(&lab, &web).await["Id"].as_str().unwrap().to_owned();
            // The engine does not hear of this step.
            let held = match step {
                "start" => format!("/containers/{id}/start"),
                _ => format!("/containers/{id}/rename?name={web} "),
            };
            let proxy = Proxy::silent_about(&lab.host, &held).await;
            let mut session = StdioSession::open(&proxy.host, &[]).await;
            session.start("recreate_container", hopeless(&web)).await;
            let accept = json!({"action": "accept", "content": {"confirm": true}});
            session.reply(accept).await;
            wait_until("the way back", async || {
                let requests = proxy.requests();
                requests
                    .iter()
                    .any(|line| line.contains(held.trim()) && !line.contains(".before-"))
            })
            .await;
            // SIGKILL.
            drop(session);
            assert!(lab.docker.inspect_container(&web, None).await.is_err());
            let kept = inspect(&lab, &id).await;
            assert_eq!(kept["State"]["Running"], step == "rename", "{kept}");
            let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
            let next = Server::start(SERVER, &env).await;
            wait_until("the old one is back", async || {
                let now = lab.docker.inspect_container(&web, None).await;
                let now = serde_json::to_value(now.ok()).unwrap();
                now["Id"] == *id && now["State"]["Running"] == true
            })
            .await;
            drop(next);
            lab.remove(&web).await;
        }
        assert!(names(&lab).await.is_empty());
    }
}

#[tokio::test]
async fn replacement_ends_without_its_caller_and_without_its_server() {
    let Some(mut lab) = lab().await else { return };
    let web = lab
        .run("web", &["sleep", "600"], json!({"StopTimeout": 0}))
        .await;
    let id = inspect(&lab, &web).await["Id"].clone();
    let is_back = async |lab: &Lab| {
        let now = lab.docker.inspect_container(&web, None).await;
        let now = serde_json::to_value(now.ok()).unwrap();
        now["Id"] == id && now["State"]["Running"] == true
    };
    for kill in [false, true] {
        let mut session = StdioSession::open(&lab.host, &[]).await;
        let call = session.start("recreate_container", hopeless(&web)).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session.reply(accept).await;
        wait_until("the new one runs", async || {
            let now = lab.docker.inspect_container(&web, None).await;
            let now = serde_json::to_value(now.ok()).unwrap();
            now["Id"] != id && now["State"]["Running"] == true
        })
        .await;
        if kill {
            drop(session);
            let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
            let next = Server::start(SERVER, &env).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
            wait_until("it is told", async || {
                // A server of another test may have been faster.
                let log = next.log();
                log.contains("was not replaced") || log.contains("another server")
            })
            .await;
        } else {
            session.cancel(call).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
        }
        assert_eq!(names(&lab).await, std::slice::from_ref(&web));
    }
}

/// A server that was killed in the middle of two replacements: the slow one does not keep the other waiting.
#[tokio::test]
async fn replacements_are_finished_side_by_side() {
    let Some(mut lab) = lab().await else { return };
    // Listed first, as the newest; its new container is "starting" for a long time.
    let mut slow = hopeless("");
    slow["timeout_seconds"] = json!(100);
    slow["changes"]["healthcheck"]["interval_seconds"] = json!(200);
    let mut session = StdioSession::open(&lab.host, &[]).await;
    let mut old = Vec::new();
    for (name, mut arguments) in [("quick", hopeless("")), ("slow", slow)] {
        let options = json!({"StopTimeout": 0});
        let web = lab.run(name, &["sleep", "600"], options).await;
        old.push((web.clone(), inspect(&lab, &web).await["Id"].clone()));
        arguments["container"] = json!(web);
        arguments["confirm"] = json!(web);
        session.start("recreate_container", arguments).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session.reply(accept).await;
    }
    let now = async |lab: &Lab, web: &str| {
        let now = lab.docker.inspect_container(web, None).await;
        serde_json::to_value(now.ok()).unwrap()
    };
    for (web, id) in &old {
        let is_new = |now: Value| now["Id"] != *id && now["State"]["Running"] == true;
        wait_until("it is replaced", async || is_new(now(&lab, web).await)).await;
    }
    drop(session);
    let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
    let _next = Server::start(SERVER, &env).await;
    let (quick, id) = &old[0];
    wait_until("the quick one is back", async || {
        now(&lab, quick).await["Id"] == *id
    })
    .await;
    assert_ne!(now(&lab, &old[1].0).await["Id"], old[1].1);
}

/// Of two servers that finish the same replacement, the slower one may look for the new container when the old one is
/// already back. It must not take that for the new one: it would remove the old one.
#[tokio::test]
async fn old_container_survives_a_slower_server() {
    let Some(mut lab) = lab().await else { return };
    let options = json!({"StopTimeout": 0});
    let web = lab.run("web", &["sleep", "600"], options).await;
    let id = inspect(&lab, &web).await["Id"].as_str().unwrap().to_owned();
    let rename = async |name: &str| {
        let options = RenameContainerOptionsBuilder::new().name(name).build();
        lab.docker.rename_container(&id, options).await
    };
    // What a server leaves that is killed after it has removed the new container.
    lab.docker.stop_container(&id, None).await.unwrap();
    rename(&format!("{web}.before-{}.up", &id[..12]))
        .await
        .unwrap();
    // Between its two looks for the new container, the slow one asks for the engine's clock.
    let proxy = Proxy::silent_about(&lab.host, "/info").await;
    let env = [
        ("DOCKER_HOST", &*proxy.host),
        ("DOCKER_CLIENT_TIMEOUT", "5"),
        ("MCP_TOOLSETS", "all"),
    ];
    let slow = Server::start(SERVER, &env).await;
    let look = format!("/containers/{web}/json");
    wait_until("the slow one looks again", async || {
        let requests = proxy.requests();
        let mut requests = requests.iter();
        let mut next = |part: &str| requests.any(|line| line.contains(part));
        next(&look) && next(&look) && next("/info")
    })
    .await;
    // A server of another test may have been faster.
    let _ = lab.docker.start_container(&id, None).await;
    let _ = rename(&web).await;
    wait_until("the slow one is done", async || slow.log().contains(&web)).await;
    let now = inspect(&lab, &id).await;
    assert_eq!(now["Name"], format!("/{web}"), "{now}");
    assert_eq!(now["State"]["Running"], true, "{now}");
}
