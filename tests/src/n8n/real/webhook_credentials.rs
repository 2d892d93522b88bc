//! URLs that require authentication.

use super::*;

async fn assert_runs_with_credential(scheme: &str, kind: &str, data: Value, wrong: Value) {
    let Some(n8n) = Instance::new() else { return };
    let (trigger, id, name) = n8n.secured_webhook(scheme, kind, data.clone()).await;
    let workflow = n8n.live(vec![trigger, echo()]).await;
    let env = n8n.env_without_mcp();
    // A proxy's user takes the header of Basic Auth: that of the webhook is sent in its place.
    let webhooks = n8n.config.url.replacen("://", "://proxy:user@", 1);
    let session_with = async |known: Value| {
        let known = known.to_string();
        let mut env = env.to_vec();
        env.push(("N8N_WEBHOOK_CREDENTIALS", &known));
        env.push(("N8N_WEBHOOK_URL", &webhooks));
        Session::start(SERVER, &env).await
    };
    // By name, and by id.
    for key in [&name, &id] {
        let session = session_with(json!({key: data})).await;
        let ran = run(&session, &workflow, json!({"input": "in"})).await;
        assert_has!(ran, {"output": {"result": "in"}, "way": "webhook"});
        n8n.execution(&ran).await;
    }
    let id_only = json!({"workflow_id": workflow.id});
    let session = session_with(json!({&name: wrong})).await;
    assert_refused(
        &session,
        "run_workflow",
        id_only.clone(),
        "refused the request",
    )
    .await;
    let session = session_with(json!({})).await;
    let variable = "N8N_WEBHOOK_CREDENTIALS";
    let message = assert_refused(&session, "run_workflow", id_only, variable).await;
    assert_contains(&message, &name);
    assert_eq!(n8n.executions(&workflow).await.as_array().unwrap().len(), 2);
    n8n.delete(&workflow).await;
    n8n.delete_credential(&id).await;
}

#[tokio::test]
async fn header_is_sent() {
    let right = json!({"name": "X-Secret", "value": "s3cret"});
    let wrong = json!({"name": "X-Secret", "value": "other"});
    assert_runs_with_credential("headerAuth", "httpHeaderAuth", right, wrong).await;
}

#[tokio::test]
async fn user_and_password_are_sent() {
    let right = json!({"user": "u", "password": "p:ä"});
    let wrong = json!({"user": "u", "password": "other"});
    assert_runs_with_credential("basicAuth", "httpBasicAuth", right, wrong).await;
}

#[tokio::test]
async fn invalid_configuration_is_refused_without_repeating_it() {
    let Some(n8n) = Instance::new() else { return };
    let mut env = n8n.env_without_mcp().to_vec();
    env.push(("N8N_WEBHOOK_CREDENTIALS", "{\"a\": \"SECRET\"}"));
    let server = Server::start(SERVER, &env).await;
    let workflow = n8n.draft(vec![webhook("lastNode")]).await;
    let message = refused!(server.client().await, "run_workflow", {"workflow_id": workflow.id});
    assert_starts_with(&message, "N8N_WEBHOOK_CREDENTIALS");
    assert_lacks(&message, "SECRET");
    assert_lacks(&server.log(), "SECRET");
    n8n.delete(&workflow).await;
}
