//! What a fresh n8n needs before a program can use it: an owner, keys, a workflow.
//!
//! It runs at every start: a working key says that all was done before, and a run that
//! was cut short is taken up where it ended.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use ureq::http::Method;

use super::{API_KEY, MCP_TOKEN};
use crate::http::Client;
use crate::instance::Instance;
use crate::secrets;

const EMAIL: &str = "owner@example.test";
const EXAMPLE: &str = include_str!("../../../backends/n8n/hello-world.json");
const TAG: &str = "example";

/// Brings this n8n to the state that servers and tests expect.
pub(super) fn bootstrap(instance: &Instance) -> anyhow::Result<()> {
    if key_works(instance) {
        return Ok(());
    }
    let session = log_in(instance)?;
    secrets::write(&instance.file(MCP_TOKEN), &make_mcp_token(&session)?)?;
    let key = make_api_key(&session)?;
    let example = import_example(&session)?;
    let api = client(&instance.url()).with("X-N8N-API-KEY", key.as_str());
    publish_example(&api, &example)?;
    // Last, because with a working key all of this counts as done.
    secrets::write(&instance.file(API_KEY), &key)
}

fn client(url: &str) -> Client {
    Client::new(url, Duration::from_secs(30))
}

fn key_works(instance: &Instance) -> bool {
    secrets::read(&instance.file(API_KEY)).is_some_and(|key| {
        client(&instance.url())
            .with("X-N8N-API-KEY", key)
            .is_up("/api/v1/workflows?limit=1")
    })
}

/// Makes the owner if there is none yet; gives a client with the owner's session.
fn log_in(instance: &Instance) -> anyhow::Result<Client> {
    let url = instance.url();
    // n8n wants an upper-case letter and a digit.
    let password = secrets::read_or_create(&instance.file("owner-password"), || {
        Ok(format!("{}A1", secrets::random()?))
    })?;
    let owner =
        json!({ "email": EMAIL, "firstName": "Local", "lastName": "Owner", "password": password });
    // Refused when the owner exists; then the login below tells whether it is ours.
    client(&url).call(Method::POST, "/rest/owner/setup", Some(&owner))?;

    let login = json!({ "emailOrLdapLoginId": EMAIL, "password": password });
    let answer = client(&url).call(Method::POST, "/rest/login", Some(&login))?;
    if answer.status != 200 {
        let folder = instance.dir.display();
        bail!(
            "the local n8n refuses the password kept for its owner; remove {folder} to start afresh"
        );
    }
    let cookie = answer
        .headers
        .get("set-cookie")
        .and_then(|cookie| cookie.to_str().ok()?.split(';').next());
    Ok(client(&url).with("cookie", cookie.context("no session after the login")?))
}

fn make_api_key(session: &Client) -> anyhow::Result<String> {
    let scopes = session.get("/rest/api-keys/scopes")?.json["data"].clone();
    // Labels are unique per user, and a lost key cannot be read again.
    let label = format!("local {}", &secrets::random()?[..8]);
    let wish = json!({ "label": label, "expiresAt": null, "scopes": scopes });
    let made = session.send(Method::POST, "/rest/api-keys", &wish)?;
    text(&made, "/data/rawApiKey")
}

fn make_mcp_token(session: &Client) -> anyhow::Result<String> {
    let enabled = json!({ "mcpAccessEnabled": true });
    session.send(Method::PATCH, "/rest/mcp/settings", &enabled)?;
    let made = session.send(Method::POST, "/rest/mcp/api-key/rotate", &json!({}))?;
    text(&made, "/data/apiKey")
}

fn text(answer: &Value, pointer: &str) -> anyhow::Result<String> {
    let text = answer.pointer(pointer).and_then(Value::as_str);
    let text = text.with_context(|| format!("n8n's answer has no {pointer}"));
    text.map(str::to_owned)
}

/// Creates the example and gives its id: that of its file, where n8n lets it be chosen. The public
/// API never does, and n8n 1 does not either.
fn import_example(session: &Client) -> anyhow::Result<String> {
    let workflow: Value = serde_json::from_str(EXAMPLE)?;
    let id = text(&workflow, "/id")?;
    if session.is_up(&format!("/rest/workflows/{id}")) {
        return Ok(id);
    }
    let made = session.send(Method::POST, "/rest/workflows", &workflow)?;
    text(&made, "/data/id")
}

/// Tags and activates the example.
fn publish_example(api: &Client, id: &str) -> anyhow::Result<()> {
    let path = format!("/api/v1/workflows/{id}");
    let now = api.get(&path)?;
    if now.json["active"] == true {
        return Ok(());
    }
    let made = api.call(Method::POST, "/api/v1/tags", Some(&json!({ "name": TAG })))?;
    if let Some(id) = made.json["id"].as_str() {
        api.send(Method::PUT, &format!("{path}/tags"), &json!([{ "id": id }]))?;
    }
    api.send(Method::POST, &format!("{path}/activate"), &json!({}))?;
    Ok(())
}
