//! A resource belongs to one backend, whatever their names are.

use serde_json::{Value, json};

use super::env::{Folder, Gateway};
use crate::harness::{assert_contains, assert_lacks, rpc, wait_until};

/// The fixture twice, with these lines for each, and these tables.
async fn two(aevil: &str, docker: &str, more: &str) -> Gateway {
    let config = format!(
        "[backends.aevil]\nFIXTURE\n{aevil}\n[backends.docker]\nFIXTURE\n{docker}\n{more}\n"
    );
    let gateway = Gateway::start(Folder::new(), &config, &[]).await;
    gateway.server.wait_for_log("backend=aevil tools").await;
    gateway.server.wait_for_log("backend=docker tools").await;
    // The last list is published within a second.
    wait_until("the prompts of both", async || {
        let listed = answer(&gateway, "prompts/list", json!({})).await;
        more.contains("roles") || listed.contains("aevil__") && listed.contains("docker__")
    })
    .await;
    gateway
}

async fn answer(gateway: &Gateway, method: &str, params: Value) -> String {
    gateway.post(rpc(method, params).to_string()).await.body
}

async fn read(gateway: &Gateway, uri: &str) -> String {
    answer(gateway, "resources/read", json!({"uri": uri})).await
}

const STATIC: &str = "test://static-text";
const OF_TEMPLATE: &str = "test://template/7/data";
const COMPLETION: fn() -> Value = || {
    json!({"ref": {"type": "ref/resource", "uri": "test://template/{id}/data"},
        "argument": {"name": "id", "value": "12"}})
};

#[tokio::test]
async fn resource_of_two_backends_is_offered_by_none() {
    let gateway = two("", "", "").await;
    for uri in [STATIC, OF_TEMPLATE, "test://template/%37/data"] {
        assert_contains(&read(&gateway, uri).await, "\"error\"");
    }
    for method in ["resources/list", "resources/templates/list"] {
        assert_lacks(&answer(&gateway, method, json!({})).await, "test://");
    }
    let refused = answer(&gateway, "completion/complete", COMPLETION()).await;
    assert_contains(&refused, "\"error\"");
    let status = gateway.status().await["not_offered"].to_string();
    let conflict = "the backends aevil, docker list it";
    assert_contains(&status, conflict);
    gateway.wait_for_log(conflict).await;
}

#[tokio::test]
async fn operator_decides_which_backend_has_a_resource() {
    let gateway = two("deny = [\"test://*\"]", "", "").await;
    for uri in [STATIC, OF_TEMPLATE] {
        assert_contains(&read(&gateway, uri).await, "\"contents\"");
    }
    let completed = answer(&gateway, "completion/complete", COMPLETION()).await;
    assert_contains(&completed, "123");
    let mut reads = gateway.facts_of("gateway.request").await;
    reads.retain(|facts| facts["method"] == "resources/read");
    let are_of_docker = reads.iter().all(|facts| facts["backend"] == "docker");
    assert!(are_of_docker, "{reads:?}");
}

/// A rule that names a backend does not allow what another one lists beside it.
#[tokio::test]
async fn rule_with_a_backend_is_about_its_resources_only() {
    let roles = "[roles.reader]\nallow = [\"docker:test://*\"]\n[principals]\ndefault = \"reader\"";
    let aevil = "allow = [\"test://watched-resource\"]";
    let gateway = two(aevil, "deny = [\"test://watched-resource\"]", roles).await;
    wait_until("the resources", async || {
        read(&gateway, STATIC).await.contains("\"contents\"")
    })
    .await;
    assert_contains(&read(&gateway, OF_TEMPLATE).await, "\"contents\"");
    let refused = read(&gateway, "test://watched-resource").await;
    assert_contains(&refused, "\"error\"");
    let listed = answer(&gateway, "resources/list", json!({})).await;
    assert_contains(&listed, STATIC);
    assert_lacks(&listed, "watched-resource");
}
