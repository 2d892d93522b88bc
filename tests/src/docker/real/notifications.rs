//! Notifications of changes: over HTTP and stdio, in both eras.

use mcp_client::{Client, ClientInfo, Command, EraChoice};

use crate::docker::prelude::*;
use crate::harness::{CALL_TIMEOUT, Messages, client_builder, recorder};

const LIST: &str = "notifications/resources/list_changed";

struct Listener {
    client: Client,
    messages: Messages,
}

impl Listener {
    async fn http(server: &Server, era: EraChoice) -> Self {
        let (handler, messages) = recorder();
        let client = server.client_with(era, json!({}), Some(handler)).await;
        Self { client, messages }
    }

    /// With a server that sees only the containers of this test: a list has the newest ones of all.
    async fn stdio(lab: &Lab) -> Self {
        let (handler, messages) = recorder();
        let builder = client_builder().era(EraChoice::Legacy).handler(handler);
        let program = binary(SERVER);
        let command = Command::new(program.to_str().unwrap()).arg("--stdio");
        let command = command
            .env("DOCKER_HOST", &lab.host)
            .env("DOCKER_MCP_ALLOW", format!("name={}", lab.name("*")))
            .env("DOCKER_CLIENT_TIMEOUT", "60");
        let client = builder.stdio(command).unwrap();
        let info = ClientInfo::new("tests", "1");
        client.connect(&info).await.unwrap();
        Self { client, messages }
    }

    /// The next notification: the URI of the updated resource, else the method.
    async fn next(&mut self) -> String {
        let (method, params) = self.messages.recv().await.unwrap();
        params["uri"].as_str().map_or(method, str::to_owned)
    }

    async fn subscribe(&self, uris: &[&str]) {
        for uri in uris {
            let params = json!({"uri": uri});
            let subscribed = self.client.request("resources/subscribe", &params);
            subscribed.await.unwrap();
        }
    }

    /// Keeps a stream of notifications open for the rest of the test.
    async fn follow(&self, filter: Value) {
        let stream = self.client.listen(&filter).await.unwrap();
        tokio::spawn(stream.closed());
    }

    /// All notifications up to `wanted`.
    async fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut received = Vec::new();
        let receive = async {
            loop {
                received.push(self.next().await);
                if received.last().is_some_and(|what| what == wanted) {
                    break;
                }
            }
        };
        let arrived = tokio::time::timeout(CALL_TIMEOUT, receive).await.is_ok();
        let era = self.client.era();
        assert!(arrived, "{wanted} was not received: {received:?} {era:?}");
        received
    }
}

fn uri(name: &str) -> String {
    format!("docker://containers/{name}")
}

#[tokio::test]
async fn modern_listener_is_notified_of_changes() {
    let Some(lab) = lab().await else { return };
    lab.server.wait_for_status("online").await;
    let name = lab.sleep("watched", json!({})).await;
    let mut listener = Listener::http(&lab.server, EraChoice::Modern).await;
    let uris = [uri(&name), "docker://containers".to_owned()];
    listener
        .follow(json!({"resourceSubscriptions": uris, "resourcesListChanged": true}))
        .await;
    lab.docker.pause_container(&name).await.unwrap();
    listener.until(&uri(&name)).await;
    lab.docker.unpause_container(&name).await.unwrap();
    listener.until(&uri(&name)).await;
    lab.create("new", &["true"], json!({})).await;
    listener.until(LIST).await;
}

#[tokio::test]
async fn new_container_changes_the_list_over_stdio() {
    let Some(lab) = lab().await else { return };
    let before = lab.create("before", &["true"], json!({})).await;
    let mut listener = Listener::stdio(&lab).await;
    // The first list is complete: a client is not told of a change right after its start.
    let list = listener.client.request("resources/list", &json!({})).await;
    assert!(list.unwrap().get().contains(&uri(&before)));
    listener.subscribe(&["docker://containers"]).await;
    let name = lab.create("new", &["true"], json!({})).await;
    listener.until("docker://containers").await;
    wait_until("the container to be listed", async || {
        let list = listener.client.request("resources/list", &json!({})).await;
        list.unwrap().get().contains(&uri(&name))
    })
    .await;
    listener.client.close().await;
}

#[tokio::test]
async fn subscription_works_by_id_and_by_name() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("known", json!({})).await;
    let id = lab.id(&name).await;
    let mut listener = Listener::stdio(&lab).await;
    let [logs, stats] = ["logs", "stats"].map(|part| format!("{}/{part}", uri(&name)));
    let uris = [uri(&id), uri(&id[..12]), logs, stats];
    let subscribed = uris.each_ref().map(String::as_str);
    listener.subscribe(&subscribed).await;
    lab.docker.pause_container(&name).await.unwrap();
    // They arrive in alphabetical order.
    let mut received = Vec::new();
    while received.len() < uris.len() {
        let what = listener.next().await;
        if what != LIST {
            received.push(what);
        }
    }
    received.sort();
    let mut expected = uris.to_vec();
    expected.sort();
    assert_eq!(received, expected);
    listener.client.close().await;
}

#[tokio::test]
async fn health_checks_without_a_change_send_no_notification() {
    let Some(lab) = lab().await else { return };
    let more = json!({"Healthcheck": {"Test": ["CMD", "true"], "Interval": 50_000_000}});
    let name = lab.sleep("checked", more).await;
    let health = async || {
        let arguments = json!({"container": name});
        succeed(&lab, "get_container", arguments).await["health"].clone()
    };
    wait_until("health", async || health().await["status"] == "healthy").await;
    let mut listener = Listener::stdio(&lab).await;
    listener.subscribe(&[&uri(&name)]).await;
    // At least one more check begins and ends, for which the engine sends three events.
    let before = health().await["last_probe"]["at"].clone();
    wait_until("the next check", async || {
        health().await["last_probe"]["at"] != before
    })
    .await;
    lab.docker.pause_container(&name).await.unwrap();
    let mut received = listener.until(&uri(&name)).await;
    received.retain(|what| what != LIST);
    assert_eq!(received, [uri(&name)]);
    listener.client.close().await;
}

#[tokio::test]
async fn subscriber_is_notified_of_changes_also_after_the_stream_broke() {
    for lab in labs(&[]).await {
        let name = lab.sleep("watched", json!({})).await;
        let other = lab.sleep("other", json!({})).await;
        let proxy = Proxy::start(&lab.host).await;
        let server = in_front_of(&proxy.host, &[]).await;
        server.wait_for_status("online").await;
        let mut listener = Listener::http(&server, EraChoice::Legacy).await;
        listener.subscribe(&[&uri(&name)]).await;
        listener.follow(json!({})).await;
        lab.docker.pause_container(&other).await.unwrap();
        lab.docker.pause_container(&name).await.unwrap();
        let received = listener.until(&uri(&name)).await;
        assert!(!received.contains(&uri(&other)), "{received:?}");
        for cuts in 1..=3 {
            // Wait until there is a stream to break.
            wait_until("the stream", async || proxy.streams() >= cuts).await;
            proxy.cut();
            // Events in between are unknown, so everything counts as changed.
            listener.until(&uri(&name)).await;
        }
        lab.docker.unpause_container(&name).await.unwrap();
        listener.until(&uri(&name)).await;
    }
}
