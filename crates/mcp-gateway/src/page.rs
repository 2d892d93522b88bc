//! The data of the gateway on the page, beside its tools, and the decisions that people make there. Each caller sees
//! what its role allows: what its own tools would tell it, and no more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::BoxFuture;
use gateway_access::{EffectName, Right, Rule, Viewer};
use gateway_approvals::approvals::{self, Approval, ApprovalStatus};
use gateway_approvals::pins::{self, Pin};
use gateway_store::events::{Query, StoreLocation, kind};
use gateway_store::state::Expected;
use http::HeaderName;
use mcp_core::server::{AccessItem, Principal};
use mcp_core::tool::{Detail, ToolError, ToolErrorKind};
use mcp_serve::PageData;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use upstream::redact::{Redactor, redacted};

use crate::config::{BackendConfig, Config, PinMode, Secret, Target};
use crate::gateway::Gateway;
use crate::tools::{GatewayReport, GetEvents, not_written};

/// Bytes of the events of one answer: the oldest beyond are left out.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// Queries of events at the same time; others wait. Each may have 10,000 in memory.
const MAX_QUERIES: usize = 2;

pub(crate) struct GatewayPage {
    gateway: Arc<Gateway>,
    queries: Semaphore,
}

impl GatewayPage {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        Self {
            gateway,
            queries: Semaphore::new(MAX_QUERIES),
        }
    }

    /// The person who looks at the page, with the role.
    fn viewer(&self, caller: Option<&Arc<Principal>>) -> Viewer {
        Viewer::from_principal(self.gateway.admission(), caller.cloned())
    }
}

/// True if a person sees what no tool tells: the configuration, addresses, what children print, and the roles of others.
/// With roles this is for those who see the events of all callers. Without roles all tokens have the same rights,
/// also those of agents, so that none sees it. Without tokens the page is as open as the tools.
fn is_operator(viewer: &Viewer) -> bool {
    match viewer.has_roles() {
        true => viewer.allows_missing("get_events") && viewer.has(Right::AllEvents),
        false => viewer.principal.is_none(),
    }
}

/// True if a person decides about calls and tools: a token with a role does, since an agent could use the page as well.
fn may_decide(viewer: &Viewer) -> bool {
    viewer.has_roles() && viewer.has(Right::Approve)
}

/// The filters of `get_events`, and a larger limit.
#[derive(Deserialize)]
struct PageEvents {
    #[serde(flatten)]
    filters: serde_json::Map<String, Value>,
    most: Option<usize>,
}

impl PageData for GatewayPage {
    fn revision(&self, caller: Option<&Arc<Principal>>) -> (u64, u64) {
        let viewer = self.viewer(caller);
        let health = self.gateway.database.log.health();
        let events =
            match viewer.allows_missing("get_events") || viewer.allows_missing("gateway_status") {
                true => health.written + health.dropped + health.waiting as u64,
                false => 0,
            };
        (events, self.gateway.catalogs.load(Ordering::Relaxed))
    }

    fn answer<'a>(
        &'a self,
        topic: &'a str,
        caller: Option<&'a Arc<Principal>>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            let viewer = self.viewer(caller);
            if topic == "decide-call" {
                let decider = viewer.principal.as_deref();
                let decided = self
                    .gateway
                    .relay
                    .approvals
                    .decide_on_page(decider, body)
                    .await;
                // The page has no way to give another token.
                return (if decided.0 == 401 { 403 } else { decided.0 }, decided.1);
            }
            match self.of_topic(topic, &viewer, body).await {
                Ok(answer) => (200, answer),
                Err(error) => {
                    let status = match error.kind() {
                        ToolErrorKind::Forbidden => 403,
                        ToolErrorKind::NotFound => 404,
                        ToolErrorKind::InvalidArgument => 400,
                        ToolErrorKind::Conflict => 409,
                        _ => 503,
                    };
                    (status, json!({"error": error.message()}).to_string())
                }
            }
        })
    }
}

impl GatewayPage {
    async fn of_topic(
        &self,
        topic: &str,
        viewer: &Viewer,
        body: &[u8],
    ) -> Result<String, ToolError> {
        let gateway = &*self.gateway;
        let answer = match topic {
            "state" => state(gateway, viewer)?,
            "tools" => tools(gateway, viewer),
            "events" => {
                let _turn = self.queries.acquire().await;
                return events(gateway, viewer, read(body)?).await;
            }
            "approvals" => waiting(gateway, viewer),
            "decide-tool" => decide_tool(gateway, viewer, read(body)?).await?,
            "settings" => effective(gateway, viewer).await?,
            _ => return Err(ToolError::not_found("There is no such topic.")),
        };
        Ok(answer.to_string())
    }
}

async fn events(
    gateway: &Gateway,
    viewer: &Viewer,
    asked: PageEvents,
) -> Result<String, ToolError> {
    if !viewer.allows_missing("get_events") {
        return Err(forbidden("get_events"));
    }
    let filters = serde_json::from_value(Value::Object(asked.filters));
    let filters: GetEvents =
        filters.map_err(|error| ToolError::invalid_argument(error.to_string()))?;
    let mut query = filters.query(viewer)?;
    query.limit = asked.most.or(query.limit);
    let found = GetEvents::find(query, gateway, viewer).await?;
    newest(&found, MAX_EVENT_BYTES)
}

/// Writes the newest of `events`, at most `limit` bytes.
fn newest(events: &[impl Serialize], limit: usize) -> Result<String, ToolError> {
    let (mut texts, mut bytes) = (Vec::new(), 2);
    for event in events.iter().rev() {
        let text = serde_json::to_string(event).map_err(not_written)?;
        bytes += text.len() + 1;
        if bytes > limit {
            break;
        }
        texts.push(text);
    }
    texts.reverse();
    Ok(format!("[{}]", texts.join(",")))
}

/// The refusal of what a role does not allow.
fn forbidden(right: &str) -> ToolError {
    ToolError::forbidden(format!("Your role does not have `{right}`."))
}

/// The refusal of what only operators see.
fn not_operator(viewer: &Viewer) -> ToolError {
    match viewer.has_roles() {
        true => forbidden("events:all"),
        false => ToolError::forbidden(
            "Without roles all tokens have the same rights, so that no token sees this; give roles to tokens.",
        ),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ToolError> {
    let not_json = |_| ToolError::invalid_argument("The body must be JSON.");
    let body: &RawValue = serde_json::from_slice(body).map_err(not_json)?;
    serde_json::from_str(body.get()).map_err(|error| ToolError::invalid_argument(error.to_string()))
}

/// The tool with the same content.
const STATUS: &str = "gateway_status";

fn state(gateway: &Gateway, viewer: &Viewer) -> Result<Value, ToolError> {
    if !viewer.allows_missing(STATUS) {
        return Err(forbidden(STATUS));
    }
    let report = GatewayReport::new(gateway, viewer, None);
    let mut state = serde_json::to_value(report)
        .map_err(|error| ToolError::upstream("The state cannot be written.").caused_by(error))?;
    for (key, backend) in gateway.backends() {
        let shown = state["backends"].get_mut(key.as_str());
        let Some(shown) = shown.filter(|_| is_operator(viewer)) else {
            continue;
        };
        shown["transport"] = json!(backend.config.target.transport());
        if let Some(server) = &backend.status().server {
            shown["server"] = json!(server.server_info);
        }
        shown["address"] = json!(backend.config.target.shown());
        shown["stderr"] = json!(backend.last_lines());
    }
    state["role"] = json!(viewer.role().map(|role| &role.name));
    state["may"] = json!({
        "restart": viewer.allows_missing("gateway_restart"),
        "see_all": is_operator(viewer),
        "decide": may_decide(viewer),
        "approve": may_decide(viewer),
    });
    let calls = visible(gateway, viewer).into_iter();
    let waiting = calls.filter(|(_, status)| *status == ApprovalStatus::Waiting);
    // A page that is not looked at tells of each once.
    state["waiting"] = waiting.map(|(approval, _)| approval.id).collect();
    Ok(state)
}

fn tools(gateway: &Gateway, viewer: &Viewer) -> Value {
    let catalog = gateway.catalog();
    let config = gateway.config();
    let roles = config.roles.as_ref().filter(|_| is_operator(viewer));
    let scope = catalog.scope(None);
    let tools = scope.into_iter().flat_map(|scope| scope.listed_tools());
    let tools = tools.filter(|tool| viewer.allows(tool)).map(|tool| {
        let may_call = roles.map(|roles| {
            let allowed = roles.roles.iter();
            let item = AccessItem::of_tool(tool);
            let allowed = allowed.filter(|role| role.decide(item, None).is_allowed());
            allowed.map(|role| role.name.as_str()).collect::<Vec<_>>()
        });
        json!({
            "backend": catalog.backend_of(tool).map(ToString::to_string),
            "effect": EffectName::from_effect(tool.effect).to_string(),
            "tokens": tool.tokens(),
            "roles": may_call,
            "definition": tool.render(Detail::Full),
        })
    });
    json!({"tools": tools.collect::<Vec<_>>(), "changed": changed(gateway, viewer)})
}

/// Ended calls that are listed.
const MAX_ENDED: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolDecision {
    backend: String,
    tool: String,
    /// That of the definition that the person has seen.
    hash: String,
    approve: bool,
}

/// The calls that wait, and the last that have ended: all for those who decide or see everything, else the viewer's own.
fn waiting(gateway: &Gateway, viewer: &Viewer) -> Value {
    let found = visible(gateway, viewer);
    // All that wait, the oldest first: a new one moves no button. Then the last that have ended.
    let (waiting, ended): (Vec<_>, Vec<_>) = found
        .iter()
        .partition(|(_, status)| *status == ApprovalStatus::Waiting);
    let listed = waiting
        .into_iter()
        .chain(ended.into_iter().rev().take(MAX_ENDED));
    let calls = listed.map(|(approval, status)| {
        json!({
            "id": approval.id,
            "tool": approval.tool,
            "backend": approval.backend,
            "principal": approval.principal,
            "client": approval.client,
            "effect": approval.effect,
            "description": approval.description,
            // It names what others may do.
            "rule": Some(&approval.rule).filter(|_| sees_all(viewer)),
            "arguments": approval.arguments,
            "created": approval.created,
            "expires": approval.expires,
            "status": status,
            "decided_by": approval.decided_by.as_ref().filter(|_| sees_all(viewer)),
            "reason": approval.reason,
        })
    });
    let calls: Vec<Value> = calls.collect();
    json!({"may_decide": may_decide(viewer), "calls": calls})
}

fn sees_all(viewer: &Viewer) -> bool {
    may_decide(viewer) || is_operator(viewer)
}

fn visible(gateway: &Gateway, viewer: &Viewer) -> Vec<(Approval, ApprovalStatus)> {
    let entries = gateway.database.state.entries();
    let sees_all = sees_all(viewer);
    let own = viewer.principal.as_ref().map(|own| &*own.name);
    let found = approvals::read(&entries)
        .into_iter()
        .filter_map(|(approval, _)| {
            let is_own = own.is_some() && approval.principal.as_deref() == own;
            let status = gateway.relay.approvals.status(&approval, &entries);
            (sees_all || is_own).then_some((approval, status))
        });
    found.collect()
}

/// The tools that are not offered as they were approved, with what has changed.
fn changed(gateway: &Gateway, viewer: &Viewer) -> Vec<Value> {
    // A definition may say what a role must not know.
    if !sees_all(viewer) {
        return Vec::new();
    }
    let backends = gateway.backends();
    let found = pins::read(&gateway.database.state.entries(), "").into_iter();
    let found = found.filter_map(|(_, pin, _)| {
        let offered = pin.offered.as_ref()?;
        let mut backends = backends.values();
        let backend = backends.find(|backend| backend.key.as_str() == pin.backend)?;
        if backend.config.pins.mode == PinMode::Off {
            return None;
        }
        let held = backend.held(&pin.tool).map(|reason| reason.to_string());
        Some(json!({
            "backend": pin.backend,
            "tool": pin.tool,
            "status": pin.status(),
            "renamed_from": pin.renamed_from,
            "held": held,
            "hash": offered.hash,
            "since": offered.since,
            "diff": pin.diff(),
            "may_decide": may_decide(viewer),
        }))
    });
    found.collect()
}

async fn decide_tool(
    gateway: &Gateway,
    viewer: &Viewer,
    asked: ToolDecision,
) -> Result<Value, ToolError> {
    if !may_decide(viewer) {
        return Err(forbidden("approve"));
    }
    let entries = gateway.database.state.entries();
    let mut found = pins::read(&entries, &asked.backend).into_iter();
    let is_seen = |pin: &Pin| {
        let offered = pin.offered.as_ref();
        pin.backend == asked.backend
            && pin.tool == asked.tool
            && offered.is_some_and(|offered| offered.hash == asked.hash)
    };
    let conflict = || {
        let text =
            "The definition has changed meanwhile, or it was decided about. Look at it again.";
        ToolError::new(ToolErrorKind::Conflict, text)
    };
    let found = found.find(|(_, pin, _)| is_seen(pin));
    let (key, mut pin, entry) = found.ok_or_else(conflict)?;
    let person = viewer.principal.as_ref();
    let person = person.map_or("the page".to_owned(), |person| person.name.to_string());
    let event = pin.decide(asked.approve, person);
    let change = pins::store(key, &pin, Expected::Revision(entry.revision));
    let stored = gateway.database.state.change(vec![change]).await;
    let no_store = |_| ToolError::unavailable("The store is not available; try again later.");
    if !stored.map_err(no_store)? {
        return Err(conflict());
    }
    gateway.database.log.record(event);
    let decision = if asked.approve { "approved" } else { "refused" };
    Ok(json!({"tool": asked.tool, "decision": decision}))
}

const HIDDEN: &str = "••••";

/// Characters of a part of a path that may be a secret.
const MIN_SECRET: usize = 16;

async fn effective(gateway: &Gateway, viewer: &Viewer) -> Result<Value, ToolError> {
    if !is_operator(viewer) {
        return Err(not_operator(viewer));
    }
    let config = gateway.config();
    let backends = config.backends.iter();
    let backends: Map<String, Value> = backends
        .map(|(key, backend)| (key.to_string(), of_backend(backend)))
        .collect();
    Ok(json!({
        "file": gateway.source.file(),
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
        limit: Some(1),
        ..Query::default()
    };
    let found = gateway.database.log.find(query).await.ok()?;
    serde_json::to_value(found.last()?).ok()
}

fn of_gateway(config: &Config) -> Value {
    let store = match &config.events {
        StoreLocation::File(path) => path.display().to_string(),
        StoreLocation::Memory => "memory".to_owned(),
        StoreLocation::Postgres(_) => format!("postgres://{HIDDEN}"),
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
    let hidden = |secrets: &BTreeMap<String, Secret>| {
        let names = secrets.keys().map(|name| format!("{name} = {HIDDEN}"));
        names.collect::<Vec<_>>()
    };
    let mut shown = json!({
        "transport": backend.target.transport(),
        "timeout": backend.timeout.map(seconds),
        "start_timeout": seconds(backend.start_timeout),
        "idle_timeout": backend.idle_timeout.map(seconds),
        "max_in_flight": backend.max_in_flight,
        "isolation": format!("{:?}", backend.isolation).to_lowercase(),
        "questions": backend.questions,
        "bare": backend.bare,
        "baggage": backend.baggage,
        "pins": format!("{:?}", backend.pins.mode).to_lowercase(),
        "tools": backend.tools.keys().collect::<Vec<_>>(),
        "disabled": backend.disabled.as_ref().map(ToString::to_string),
    });
    match &backend.target {
        Target::Child(child) => {
            shown["command"] = json!(backend.target.shown());
            shown["env"] = json!(hidden(&child.env));
            shown["env_pass"] = json!(child.env_pass);
            shown["cwd"] = json!(child.cwd);
        }
        Target::Http(remote) => {
            shown["url"] = json!(backend.target.shown());
            shown["headers"] = json!(hidden(&remote.headers));
            let names = remote.forward_headers.iter().map(HeaderName::as_str);
            shown["forward_headers"] = json!(names.collect::<Vec<_>>());
            shown["identity_header"] =
                json!(remote.identity_header.as_ref().map(HeaderName::as_str));
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
    fn transport(&self) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_events_within_the_limit_are_written() {
        for (limit, expected) in [(100, "[1,2,3]"), (7, "[2,3]"), (3, "[]")] {
            assert_eq!(newest(&[1, 2, 3], limit).unwrap(), expected);
        }
    }
}
