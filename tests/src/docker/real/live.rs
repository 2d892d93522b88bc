//! What changes is told, and soon: over HTTP, over stdio, in both eras.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::{
    Builder, Client, ClientInfo, Command, Endpoint, EraChoice, Handler, NotificationStream,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::docker::lab::{Lab, lab};
use crate::docker::proxy::Proxy;
use crate::docker::{SERVER, succeed};
use crate::harness::{Server, binary, wait_until};

/// Far longer than any change takes to be told.
const PATIENCE: Duration = Duration::from_secs(60);
const LIST: &str = "notifications/resources/list_changed";

/// Hands on the notifications: the URI that was updated, else the method.
struct Ear(UnboundedSender<String>);

impl Handler for Ear {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params: Value = params.map_or(Value::Null, |params| {
            serde_json::from_str(params.get()).unwrap()
        });
        let what = params["uri"].as_str().unwrap_or(method);
        let _ = self.0.send(what.to_owned());
    }
}

struct Listener {
    client: Client,
    heard: UnboundedReceiver<String>,
}

/// A client that waits as long as a busy machine takes.
fn patient() -> Builder {
    let patience = Duration::from_secs(60);
    Client::builder()
        .timeout(patience)
        .connect_timeout(patience)
}

impl Listener {
    async fn http(server: &Server, dialect: EraChoice) -> Self {
        let (ear, heard) = unbounded_channel();
        let builder = patient().era(dialect).handler(Arc::new(Ear(ear)));
        let client = builder.http(Endpoint::new(&server.url).unwrap()).unwrap();
        Self::connected(client, heard).await
    }

    async fn stdio(host: &str) -> Self {
        let (ear, heard) = unbounded_channel();
        let builder = patient().era(EraChoice::Legacy).handler(Arc::new(Ear(ear)));
        let program = binary(SERVER);
        let command = Command::new(program.to_str().unwrap()).arg("--stdio");
        let client = builder.stdio(command.env("DOCKER_HOST", host)).unwrap();
        Self::connected(client, heard).await
    }

    async fn connected(client: Client, heard: UnboundedReceiver<String>) -> Self {
        client
            .connect(&ClientInfo::new("tests", "1"))
            .await
            .unwrap();
        Self { client, heard }
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
        let stream: NotificationStream = self.client.listen(&filter).await.unwrap();
        tokio::spawn(stream.closed());
    }

    /// Everything that is heard up to `wanted`.
    async fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut heard = Vec::new();
        let hear = async {
            loop {
                let what = self.heard.recv().await.unwrap();
                heard.push(what);
                if heard.last().is_some_and(|what| what == wanted) {
                    break;
                }
            }
        };
        let heard_it = tokio::time::timeout(PATIENCE, hear).await.is_ok();
        assert!(
            heard_it,
            "{wanted} was not told: {heard:?} {:?}",
            self.client.era()
        );
        heard
    }
}

fn uri(name: &str) -> String {
    format!("docker://containers/{name}")
}

#[tokio::test]
async fn a_change_is_told_to_who_subscribed_over_http() {
    for mut lab in Lab::everywhere().await {
        lab.server.wait_for_status("online").await;
        let name = lab.run("watched", &["sleep", "600"], json!({})).await;
        let other = lab.run("other", &["sleep", "600"], json!({})).await;
        let mut listener = Listener::http(&lab.server, EraChoice::Legacy).await;
        listener.subscribe(&[&uri(&name)]).await;
        listener.follow(json!({})).await;
        lab.docker.pause_container(&other).await.unwrap();
        lab.docker.pause_container(&name).await.unwrap();
        let heard = listener.until(&uri(&name)).await;
        assert!(!heard.contains(&uri(&other)), "{heard:?}");
        lab.docker.unpause_container(&name).await.unwrap();
        lab.docker.unpause_container(&other).await.unwrap();
        listener.until(&uri(&name)).await;
    }
}

#[tokio::test]
async fn a_change_is_told_to_who_listens_in_the_modern_era() {
    let Some(mut lab) = lab().await else { return };
    lab.server.wait_for_status("online").await;
    let name = lab.run("watched", &["sleep", "600"], json!({})).await;
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
async fn what_comes_and_goes_changes_the_list_over_stdio() {
    let Some(mut lab) = lab().await else { return };
    let mut listener = Listener::stdio(&lab.host).await;
    // What is there at the start.
    listener.until(LIST).await;
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
async fn a_container_is_known_by_its_id_and_by_its_name() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("known", &["sleep", "600"], json!({})).await;
    let id = lab.docker.inspect_container(&name, None).await.unwrap();
    let id = id.id.unwrap();
    let mut listener = Listener::stdio(&lab.host).await;
    listener.until(LIST).await;
    let uris = [
        uri(&id),
        uri(&id[..12]),
        format!("{}/logs", uri(&name)),
        format!("{}/stats", uri(&name)),
    ];
    listener
        .subscribe(&uris.each_ref().map(String::as_str))
        .await;
    lab.docker.pause_container(&name).await.unwrap();
    // They are told in the order of the alphabet.
    let mut heard = Vec::new();
    while heard.len() < uris.len() {
        let what = listener.heard.recv().await.unwrap();
        if what != LIST {
            heard.push(what);
        }
    }
    heard.sort();
    let mut expected = uris.to_vec();
    expected.sort();
    assert_eq!(heard, expected);
    lab.docker.unpause_container(&name).await.unwrap();
    listener.client.close().await;
}

#[tokio::test]
async fn health_checks_are_no_news_until_they_change_something() {
    let Some(mut lab) = lab().await else { return };
    let more = json!({"Healthcheck": {"Test": ["CMD", "true"], "Interval": 50_000_000}});
    let name = lab.run("checked", &["sleep", "600"], more).await;
    let health = async || {
        let arguments = json!({"container": name});
        succeed(&lab, "get_container", arguments).await["health"].clone()
    };
    wait_until("health", async || health().await["status"] == "healthy").await;
    let mut listener = Listener::stdio(&lab.host).await;
    listener.until(LIST).await;
    listener.subscribe(&[&uri(&name)]).await;
    // At least one more check begins and ends, of which the engine tells three times.
    let before = health().await["last_probe"]["at"].clone();
    wait_until("the next check", async || {
        health().await["last_probe"]["at"] != before
    })
    .await;
    lab.docker.pause_container(&name).await.unwrap();
    let mut heard = listener.until(&uri(&name)).await;
    heard.retain(|what| what != LIST);
    assert_eq!(heard, [uri(&name)]);
    lab.docker.unpause_container(&name).await.unwrap();
    listener.client.close().await;
}

#[tokio::test]
async fn a_broken_stream_is_taken_up_again() {
    let Some(mut lab) = lab().await else { return };
    let name = lab.run("watched", &["sleep", "600"], json!({})).await;
    let proxy = Proxy::start(&lab.host).await;
    let server = Server::start(SERVER, &[("DOCKER_HOST", &proxy.host)]).await;
    server.wait_for_status("online").await;
    let mut listener = Listener::http(&server, EraChoice::Legacy).await;
    listener.subscribe(&[&uri(&name)]).await;
    listener.follow(json!({})).await;
    lab.docker.pause_container(&name).await.unwrap();
    listener.until(&uri(&name)).await;
    for cuts in 1..=3 {
        // A stream that is not there yet cannot break.
        wait_until("the stream", async || proxy.streams() >= cuts).await;
        proxy.cut();
        // Whatever happened meanwhile is not known, so all counts as changed.
        listener.until(&uri(&name)).await;
    }
    lab.docker.unpause_container(&name).await.unwrap();
    listener.until(&uri(&name)).await;
}
