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
            let _next = Server::start(SERVER, &env).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
        } else {
            session.cancel(call).await;
            wait_until("the old one is back", async || is_back(&lab).await).await;
        }
        assert_eq!(names(&lab).await, std::slice::from_ref(&web));
    }
}

/// A server that was killed after it has stopped the old container: nothing is waited for. A replacement that another
/// server is at work with is left alone.
#[tokio::test]
async fn only_a_broken_replacement_is_rolled_back_and_at_once() {
    let Some(mut lab) = lab().await else { return };
    let mut sessions = Vec::new();
    let mut old = Vec::new();
    for name in ["broken", "alive"] {
        let options = json!({"StopTimeout": 0});
        let web = lab.run(name, &["sleep", "600"], options).await;
        let id = inspect(&lab, &web).await["Id"].clone();
        let mut arguments = hopeless(&web);
        arguments["timeout_seconds"] = json!(100);
        arguments["changes"]["healthcheck"]["interval_seconds"] = json!(200);
        let mut session = StdioSession::open(&lab.host, &[]).await;
        session.start("recreate_container", arguments).await;
        let accept = json!({"action": "accept", "content": {"confirm": true}});
        session.reply(accept).await;
        wait_until("it is replaced", async || {
            let now = lab.docker.inspect_container(&web, None).await;
            let now = serde_json::to_value(now.ok()).unwrap();
            now["Id"] != id && now["State"]["Running"] == true
        })
        .await;
        sessions.push(session);
        old.push((web, id));
    }
    let (alive, _) = &old[1];
    fails_with!(lab, "recreate_container", {"container": alive, "confirm": alive}, "is being replaced");
    drop(sessions.remove(0));
    let env = [("DOCKER_HOST", &*lab.host), ("MCP_TOOLSETS", "all")];
    let began = std::time::Instant::now();
    let next = Server::start(SERVER, &env).await;
    let (broken, id) = &old[0];
    wait_until("the broken one is back", async || {
        let now = lab.docker.inspect_container(broken, None).await;
        let now = serde_json::to_value(now.ok()).unwrap();
        now["Id"] == *id && now["State"]["Running"] == true
    })
    .await;
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    assert_ne!(inspect(&lab, alive).await["Id"], old[1].1);
    assert_lacks(&next.log(), alive);
}
