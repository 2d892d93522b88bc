//! A replica that does not reach the database, while the others do.

use std::time::Duration;

use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::env::ReplicaGroup;
use super::placement::{children, holder};
use crate::gateway::env::Folder;
use crate::harness::real::postgres;
use crate::harness::{assert_contains, eventually, wait_until};

/// A way to the database that can be cut.
struct Link {
    store: String,
    is_cut: watch::Sender<bool>,
}

impl Link {
    async fn new(store: &str) -> Self {
        let (scheme, rest) = store.split_once("://").unwrap();
        let (user, rest) = rest.rsplit_once('@').unwrap();
        let (address, path) = rest.split_once('/').unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap();
        let (is_cut, mut cut) = watch::channel(false);
        let address = address.to_owned();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                if *cut.borrow_and_update() {
                    continue;
                }
                let (address, mut cut) = (address.clone(), cut.clone());
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(address).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => {}
                        _ = cut.wait_for(|is_cut| *is_cut) => {}
                    }
                });
            }
        });
        Self {
            store: format!("{scheme}://{user}@{own}/{path}"),
            is_cut,
        }
    }
}

#[tokio::test]
async fn child_of_a_replica_without_the_database_ends_before_another_one_starts() {
    let Some(store) = postgres() else {
        return;
    };
    let links = [
        Link::new(&store).await,
        Link::new(&store).await,
        Link::new(&store).await,
    ];
    let folder = Folder::new();
    let stores = links.each_ref().map(|link| link.store.as_str());
    let group = ReplicaGroup::start_placed_on(stores, &folder).await;
    let cut = eventually("the replica with the child", async || {
        holder(&group, 0).await
    })
    .await;
    let before = children(&folder);
    assert_eq!(before.len(), 1);
    links[cut].is_cut.send_replace(true);
    let mut has_ended = false;
    let moved = async {
        loop {
            let now = children(&folder);
            // Read twice: one may have ended, and another started, between two of them.
            assert!(
                now.len() <= 1 || now.intersection(&children(&folder)).count() <= 1,
                "{now:?}"
            );
            has_ended |= now.is_empty();
            if !now.is_empty() && now.is_disjoint(&before) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let moved = tokio::time::timeout(Duration::from_secs(30), moved);
    let after = moved.await.expect("another child");
    assert!(has_ended);
    let others = [(cut + 1) % 3, (cut + 2) % 3];
    for at in others {
        let text = json!({"name": "one__test_simple_text", "arguments": {}});
        let reply = group.ask(at, "", "tools/call", text).await;
        assert_contains(&reply["result"], "simple text");
    }
    // It is back, and does not start its own.
    links[cut].is_cut.send_replace(false);
    wait_until("a call through the replica that is back", async || {
        let text = json!({"name": "one__test_simple_text", "arguments": {}});
        let reply = group.ask(cut, "", "tools/call", text).await;
        reply["result"]["isError"] != true && reply["result"].is_object()
    })
    .await;
    assert_eq!(children(&folder), after);
}
