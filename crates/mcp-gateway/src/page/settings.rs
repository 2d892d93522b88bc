//! The configuration that is in effect. Secrets are shown as dots: also their length says nothing.

use std::time::Duration;

use gateway_access::Rule;
use gateway_store::events::{Query, StoreLocation, kind};
use mcp_core::tool::ToolError;
use serde_json::{Map, Value, json};
use upstream::redact::{Redactor, redacted};

use super::{PageViewer, not_operator};
use crate::config::{BackendConfig, Config, Target};
use crate::gateway::Gateway;

const HIDDEN: &str = "••••";

/// Characters of a part of a path that may be a secret.
const MIN_SECRET: usize = 16;

pub(super) async fn effective(gateway: &Gateway, viewer: &PageViewer) -> Result<Value, ToolError> {
    if !viewer.is_operator() {
        return Err(not_operator(viewer));
    }
    let config = gateway.config();
    let backends = config.backends.iter();
    let backends: Map<String, Value> = backends
        .map(|(key, backend)| (key.to_string(), of_backend(backend)))
        .collect();
    Ok(json!({
        "file": gateway.file(),
        "reload": last_reload(gateway).await,
        "gateway": of_gateway(&config),
        "backends": backends,
        "roles": of_roles(&config),
        "views": config.views.iter().map(|view| &*view.name).collect::<Vec<_>>(),
    }))
}

/// The time and the verdict of the last reload.
async fn last_reload(gateway: &Gateway) -> Option<Value> {
    let query = Query {
        event_type: Some(kind::CONFIG_CHANGED.to_owned()),
        limit: 1,
        ..Query::default()
    };
    let found = gateway.log().find(query).await.ok()?;
    serde_json::to_value(found.last()?).ok()
}

fn of_gateway(config: &Config) -> Value {
    let store = match &config.events {
        StoreLocation::File(path) => path.display().to_string(),
        other if *other == StoreLocation::Memory => "memory".to_owned(),
        _ => format!("postgres://{HIDDEN}"),
    };
    json!({
        "search_above": config.search_above,
        "pins": format!("{:?}", config.pins.mode).to_lowercase(),
        "first_sight": format!("{:?}", config.pins.first_sight).to_lowercase(),
        "events.store": store,
        "events.days": config.retention.age.as_secs() / 86_400,
        "events.rows": config.retention.rows,
        "events.megabytes": config.retention.bytes >> 20,
        "approvals.confirm": patterns(&config.approvals.confirm),
        "approvals.approve": patterns(&config.approvals.approve),
        "approvals.timeout": seconds(config.approvals.timeout),
        "approvals.webhook": config.approvals.webhook.as_ref().map(|_| HIDDEN),
        "approvals.allow_own": config.approvals.allow_own,
    })
}

fn of_backend(backend: &BackendConfig) -> Value {
    let hidden = |names: Vec<&String>| {
        names
            .into_iter()
            .map(|name| format!("{name} = {HIDDEN}"))
            .collect::<Vec<_>>()
    };
    let mut shown = json!({
        "transport": backend.target.transport(),
        "timeout": backend.timeout.map(seconds),
        "start_timeout": seconds(backend.start_timeout),
        "idle_timeout": backend.idle_timeout.map(seconds),
        "max_in_flight": backend.max_in_flight,
        "isolation": format!("{:?}", backend.isolation).to_lowercase(),
        "bare": backend.bare,
        "baggage": backend.baggage,
        "pins": format!("{:?}", backend.pins.mode).to_lowercase(),
        "tools": backend.tools.keys().collect::<Vec<_>>(),
        "disabled": backend.disabled.as_ref().map(ToString::to_string),
    });
    match &backend.target {
        Target::Child(child) => {
            shown["command"] = json!(backend.target.shown());
            shown["env"] = json!(hidden(child.env.keys().collect()));
            shown["env_pass"] = json!(child.env_pass);
            shown["cwd"] = json!(child.cwd);
        }
        Target::Http(remote) => {
            shown["url"] = json!(backend.target.shown());
            shown["headers"] = json!(hidden(remote.headers.keys().collect()));
            shown["token"] = json!(remote.token.as_ref().map(|_| HIDDEN));
            shown["oauth"] = json!(remote.oauth.is_some());
        }
    }
    shown
}

fn of_roles(config: &Config) -> Map<String, Value> {
    let roles = config.roles.iter().flat_map(|roles| &roles.roles);
    let roles = roles.map(|role| {
        let shown = json!({
            "allow": patterns(&role.allow),
            "deny": patterns(&role.deny),
            "confirm": patterns(&role.confirm),
            "approve": patterns(&role.approve),
            "own": role.rights.iter().map(|right| format!("{right:?}")).collect::<Vec<_>>(),
            "views": role.views.as_deref().map(patterns),
        });
        (role.name.clone(), shown)
    });
    roles.collect()
}

fn patterns(rules: &[Rule]) -> Vec<&str> {
    rules.iter().map(|rule| rule.pattern.as_str()).collect()
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

impl Target {
    /// Its name in the configuration.
    pub(super) fn transport(&self) -> &'static str {
        match self {
            Self::Child(_) => "stdio",
            Self::Http(_) => "http",
        }
    }

    /// Its command or its URL as written, since variables hold secrets. Literal secrets are hidden by their shape: of a
    /// URL also the query, and long parts of the path with digits (webhooks and endpoints of one user have such).
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Child(child) => {
                let words: Vec<String> =
                    child.written.iter().map(|word| references(word)).collect();
                Redactor::new(true).command(words.iter().map(String::as_str))
            }
            Self::Http(remote) => shown_url(&references(&remote.written)),
        }
    }
}

fn shown_url(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return HIDDEN.to_owned();
    };
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let path = parts.map(|part| {
        let has_digit = part.bytes().any(|byte| byte.is_ascii_digit());
        let is_hidden = part.len() >= MIN_SECRET && has_digit && !part.starts_with("${");
        if is_hidden { HIDDEN } else { part }
    });
    let path: String = path.flat_map(|part| ["/", part]).collect();
    redacted(&format!("{scheme}://{host}{path}")).into_owned()
}

/// `text` with its references to variables, without their defaults: these are values.
fn references(text: &str) -> String {
    let mut parts = text.split("${");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += "${";
        let (reference, after) = part.split_once('}').unwrap_or((part, ""));
        shown += reference.split(":-").next().unwrap_or_default();
        shown.push('}');
        shown += after;
    }
    shown
}
