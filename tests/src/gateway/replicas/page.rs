//! The page of three gateways behind one address: a link of any of them opens it, and the sign-in holds at all.

use serde_json::{Value, json};

use super::env::ReplicaGroup;
use crate::harness::{eventually, http_client, wait_until};

/// The sign-in of a browser: its cookie and the key of its page.
struct SignedIn {
    cookie: String,
    key: String,
}

/// Sends a request of the page to the replica `at`, which a browser reaches by the address of the load balancer.
async fn post(
    group: &ReplicaGroup,
    at: usize,
    path: &str,
    signed_in: Option<&SignedIn>,
    body: &Value,
) -> reqwest::Response {
    let url = group.url(at).replace("/mcp", path);
    let key = signed_in.map_or("", |signed_in| &signed_in.key);
    let mut request = http_client()
        .post(url)
        .header("host", "localhost:3455")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/json")
        .header("x-page-key", key);
    if let Some(signed_in) = signed_in {
        request = request.header("cookie", &signed_in.cookie);
    }
    request.body(body.to_string()).send().await.unwrap()
}

async fn sign_in(group: &ReplicaGroup, at: usize, link: &str) -> Result<SignedIn, u16> {
    let reply = post(group, at, "/page/sign-in", None, &json!({"link": link})).await;
    if reply.status() != 200 {
        return Err(reply.status().as_u16());
    }
    let cookie = reply.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let answer: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
    let key = answer["key"].as_str().unwrap().to_owned();
    Ok(SignedIn { cookie, key })
}

/// The link that a replica has printed last.
async fn link(group: &ReplicaGroup, at: usize) -> String {
    eventually("a link", async || {
        let log = group.log(at);
        let (_, rest) = log.rsplit_once("#secret=")?;
        rest.split_whitespace().next().map(str::to_owned)
    })
    .await
}

async fn status(group: &ReplicaGroup, at: usize, signed_in: &SignedIn) -> u16 {
    let reply = post(group, at, "/page/me", Some(signed_in), &json!({})).await;
    reply.status().as_u16()
}

#[tokio::test]
async fn link_of_one_replica_opens_the_page_at_all_and_once() {
    let Some(group) = ReplicaGroup::start_with(&[], 0).await else {
        return;
    };
    let first = link(&group, 0).await;
    let other = if first.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{other}{}", &first[1..]);
    assert_eq!(sign_in(&group, 1, &forged).await.err(), Some(401));
    let signed_in = sign_in(&group, 1, &first).await.unwrap();
    for at in 0..3 {
        assert_eq!(status(&group, at, &signed_in).await, 200, "{at}");
        assert_eq!(sign_in(&group, at, &first).await.err(), Some(401), "{at}");
    }
    // Used at several of them at the same time, it opens the page once.
    let second = link(&group, 2).await;
    let tries = (0..9).map(|n| sign_in(&group, n % 3, &second));
    let tries = futures_util::future::join_all(tries).await;
    let opened: Vec<_> = tries.into_iter().filter_map(Result::ok).collect();
    assert_eq!(opened.len(), 1);
    // A used link is not printed again.
    wait_until("the interval of links", async || {
        let asked = post(&group, 0, "/page/new-link", None, &json!({})).await;
        asked.status() == 200
    })
    .await;
    let next = eventually("another link", async || {
        Some(link(&group, 0).await).filter(|next| *next != first)
    });
    assert!(sign_in(&group, 2, &next.await).await.is_ok());
    // Sign out ends this sign-in at all replicas, and no other.
    let left = post(&group, 2, "/page/sign-out", Some(&signed_in), &json!({})).await;
    assert_eq!(left.status(), 200);
    for at in 0..3 {
        wait_until("the end of the sign-in", async || {
            status(&group, at, &signed_in).await == 401
        })
        .await;
        assert_eq!(status(&group, at, &opened[0]).await, 200, "{at}");
    }
}
