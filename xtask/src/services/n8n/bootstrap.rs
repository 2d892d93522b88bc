//! Gives an n8n what programs need: an owner, keys, a workflow. At every start, so that an interrupted one is continued.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use ureq::http::Method;

use super::{API_KEY, MCP_TOKEN};
use crate::http::Client;
use crate::instance::Instance;
use crate::secrets;

const EMAIL: &str = "owner@example.test";
const EXAMPLE: &str = include_str!("../../../backends/n8n/hello-world.json");
const TAG: &str = "example";

pub(super) fn bootstrap(instance: &Instance) -> Result<()> {
    if key_works(instance) {
        return Ok(());
    }
    let session = log_in(instance)?;
    secrets::write(&instance.file(MCP_TOKEN), &make_mcp_token(&session)?)?;
    let key = make_api_key(&session)?;
    let example = import_example(&session)?;
    publish_example(&client_with(instance, &key), &example)?;
    // Last, because a working key means that everything is done.
    secrets::write(&instance.file(API_KEY), &key)
}

fn client(instance: &Instance) -> Client {
    Client::at(instance.port, Duration::from_secs(30))
}

fn client_with(instance: &Instance, key: &str) -> Client {
    client(instance).with("X-N8N-API-KEY", key)
}

fn key_works(instance: &Instance) -> bool {
    let key = secrets::read(&instance.file(API_KEY));
    key.is_some_and(|key| client_with(instance, &key).is_up("/api/v1/workflows?limit=1"))
}

/// Makes the owner if it is missing; returns a client with the owner's session.
fn log_in(instance: &Instance) -> Result<Client> {
    let client = client(instance);
    // n8n wants an upper-case letter and a digit.
    let password = secrets::read_or_create(&instance.file("owner-password"), "A1")?;
    let owner =
        json!({ "email": EMAIL, "firstName": "Local", "lastName": "Owner", "password": password });
    // Refused if the owner exists; then the login below shows whether it is ours.
    client.call(Method::POST, "/rest/owner/setup", Some(&owner))?;
    let login = json!({ "emailOrLdapLoginId": EMAIL, "password": password });
    let response = client.call(Method::POST, "/rest/login", Some(&login))?;
    let folder = instance.dir.display();
    ensure!(
        response.status == 200,
        "the local n8n refuses the password kept for its owner; remove {folder} to start again"
    );
    let cookie = response.headers.get("set-cookie");
    let cookie = cookie.and_then(|cookie| cookie.to_str().ok()?.split(';').next());
    Ok(client.with("cookie", cookie.context("no session after the login")?))
}

fn make_api_key(session: &Client) -> Result<String> {
    let scopes = session.get("/rest/api-keys/scopes")?.json["data"].clone();
    // Labels are unique per user, and a lost key cannot be read again.
    let label = format!("local {}", &secrets::random()?[..8]);
    let request = json!({ "label": label, "expiresAt": null, "scopes": scopes });
    let made = session.send(Method::POST, "/rest/api-keys", &request)?;
    text(&made, "/data/rawApiKey")
}

fn make_mcp_token(session: &Client) -> Result<String> {
    let enabled = json!({ "mcpAccessEnabled": true });
    session.send(Method::PATCH, "/rest/mcp/settings", &enabled)?;
    let made = session.send(Method::POST, "/rest/mcp/api-key/rotate", &json!({}))?;
    text(&made, "/data/apiKey")
}

fn text(response: &Value, pointer: &str) -> Result<String> {
    let text = response.pointer(pointer).and_then(Value::as_str);
    let text = text.with_context(|| format!("n8n's response has no {pointer}"));
    text.map(str::to_owned)
}

/// Creates the example and returns its id: that of its file, which the public API does not take.
fn import_example(session: &Client) -> Result<String> {
    let workflow: Value = serde_json::from_str(EXAMPLE)?;
    let id = text(&workflow, "/id")?;
    if session.is_up(&format!("/rest/workflows/{id}")) {
        return Ok(id);
    }
    let made = session.send(Method::POST, "/rest/workflows", &workflow)?;
    text(&made, "/data/id")
}

fn publish_example(api: &Client, id: &str) -> Result<()> {
    let path = format!("/api/v1/workflows/{id}");
    if api.get(&path)?.json["active"] == true {
        return Ok(());
    }
    let made = api.call(Method::POST, "/api/v1/tags", Some(&json!({ "name": TAG })))?;
    if let Some(id) = made.json["id"].as_str() {
        api.send(Method::PUT, &format!("{path}/tags"), &json!([{ "id": id }]))?;
    }
    api.send(Method::POST, &format!("{path}/activate"), &json!({}))?;
    Ok(())
}
