//! The gateway's own tools: status, event log, restart of a backend, and search in many tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use gateway_access::{CALL_TOOL, Right, Viewer};
use gateway_approvals::approvals::GuardedCall;
use gateway_store::events::{EventStatus, Outcome, Query, Record, kind, parse_trace};
use mcp_core::jsonrpc::Members;
use mcp_core::server::OriginalRequest;
use mcp_core::suggestion::suggestion;
use mcp_core::tool::{
    Bounded, Call, Content, Detail, Effect, ShortText, Tool, ToolDefinition, ToolError,
    ToolErrorKind, ToolResult, Toolset,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tracing::level_filters::LevelFilter;
use upstream::time::{Since, Timestamp};

use crate::backend::{Backend, BackendState};
use crate::catalog::MergedCatalog;
use crate::config::{BackendKey, DisabledReason, Isolation};
use crate::gateway::{Gateway, not_used};
use crate::names::RefusedItem;

/// The tools that are always listed.
pub(crate) fn own() -> Toolset<Gateway> {
    Toolset::new()
        .with::<GatewayStatus>()
        .with::<GetEvents>()
        .with::<GatewayRestart>()
}

/// The tools that take the place of the backends' tools if there are too many to list.
pub(crate) fn search() -> Toolset<Gateway> {
    Toolset::new().with::<SearchTools>().with::<CallTool>()
}

/// Call a tool found by search_tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallTool {
    /// Its name.
    name: ShortText<128>,
    /// Its arguments, by its inputSchema.
    #[serde(default = "no_arguments")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    arguments: Box<RawValue>,
}

fn no_arguments() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

impl Tool for CallTool {
    const NAME: &'static str = CALL_TOOL;
    const EFFECT: Effect = Effect::Destructive;
    type Service = Gateway;
    type Output = ToolResult;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<ToolResult, ToolError> {
        if !self.arguments.get().starts_with('{') {
            return Err(ToolError::invalid_argument("arguments must be an object."));
        }
        let catalog = gateway.catalog();
        let viewer = gateway.viewer(call);
        let scope = catalog.scope(viewer.view());
        let found = scope.and_then(|scope| scope.tool(&self.name));
        let Some((definition, tool)) = found.filter(|(tool, _)| viewer.allows(tool)) else {
            let denial = scope.and_then(|scope| scope.denial(&self.name, &viewer));
            if let (Some(denial), Some(origin)) = (denial, call.extension::<OriginalRequest>()) {
                let _ = origin.notes.denial.set(denial);
            }
            let may_call = viewer.allows_missing(&self.name);
            let missing = may_call.then(|| gateway.why_missing(&self.name, viewer.view()));
            return Err(missing.flatten().unwrap_or_else(|| {
                let text = format!(
                    "There is no tool {:?}; find tools with search_tools.",
                    &*self.name
                );
                ToolError::new(ToolErrorKind::ToolNotFound, text)
            }));
        };
        if let Some(admission) = gateway.admission() {
            admission.judge(definition, &self.arguments, call)?;
        }
        let running = tool.start(&self.arguments, call).map_err(|error| {
            ToolError::invalid_argument(format!("{}: {}", error.field, error.reason))
        })?;
        running.await
    }
}

/// Restart a backend after crash_loop or when it hangs. Its running calls fail.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayRestart {
    /// Its name in gateway_status.
    backend: ShortText<128>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Restarted {
    backend: String,
    /// Its old status.
    #[schemars(with = "String")]
    before: BackendState,
    /// The next step.
    note: &'static str,
}

impl Tool for GatewayRestart {
    const NAME: &'static str = "gateway_restart";
    const EFFECT: Effect = Effect::Destructive;
    type Service = Gateway;
    type Output = Restarted;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<Restarted, ToolError> {
        let viewer = gateway.viewer(call);
        let mut backends = gateway.backends();
        backends.retain(|key, _| viewer.has_backend(key.as_str()));
        let mut all = backends.values();
        let config = gateway.config();
        let mut disabled = config
            .disabled()
            .filter(|(key, _)| viewer.has_backend(key.as_str()));
        if let Some((key, reason)) = disabled.find(|(key, _)| key.as_str() == &*self.backend) {
            return Err(not_used(key, reason));
        }
        let found = all.find(|backend| backend.key.as_str() == &*self.backend);
        let backend = found.ok_or_else(|| {
            let names = backends.keys().map(|key| key.as_str());
            let (wanted, hint) = (&*self.backend, suggestion(&self.backend, names));
            ToolError::not_found(format!("There is no backend {wanted:?}{hint}"))
        })?;
        if let Some(origin) = call.extension::<OriginalRequest>() {
            let _ = origin.notes.target.set(backend.key.shared());
        }
        let arguments = json!({"backend": &*self.backend}).to_string();
        let guarded = GuardedCall {
            tool: Self::NAME,
            backend: &self.backend,
            effect: Self::EFFECT,
            description: "Restarts a backend. Its running calls fail.",
            arguments: &arguments,
            call,
            withdrawn: &|| {
                let removed = backend.is_removed();
                removed.then(|| {
                    "its backend was removed or configured again; call it again".to_owned()
                })
            },
        };
        gateway.relay.approvals.admit(&guarded).await?;
        let before = backend.status().state;
        backend.restart();
        Ok(Restarted {
            backend: self.backend.into_inner(),
            before,
            note: "It is starting; gateway_status shows its status.",
        })
    }
}

/// Get status of the gateway and all backends
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayStatus {}

#[derive(Serialize, JsonSchema)]
pub(crate) struct GatewayReport {
    gateway: GatewayInfo,
    backends: BTreeMap<String, BackendReport>,
    capabilities: CapabilityCounts,
    event_log: EventLogReport,
    /// Other gateways that serve the same clients. Their backends and calls are not in this report.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_gateways: Option<usize>,
    /// Why decisions of people do not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions: Option<String>,
    /// Why the changed configuration is not used: the gateway goes on with the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_configuration: Option<String>,
    /// Changed settings that are used after a restart only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs_restart: Vec<String>,
    /// Rules that match nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched_rules: Vec<String>,
    /// Items that the gateway cannot offer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_offered: Vec<RefusedItem>,
}

#[derive(Serialize, JsonSchema)]
struct GatewayInfo {
    name: &'static str,
    version: &'static str,
    /// The view of this client.
    #[serde(skip_serializing_if = "Option::is_none")]
    view: Option<String>,
    config: Settings,
}

/// Settings.
#[derive(Serialize, JsonSchema)]
struct Settings {
    log_level: String,
    debug: bool,
    /// Seconds that a call may take.
    backend_timeout: u64,
}

#[derive(Default, Serialize, JsonSchema)]
struct BackendReport {
    /// `stopped`, `starting`, `running`, `failed`, `crash_loop` or `disabled`.
    #[schemars(with = "String")]
    status: BackendState,
    namespace: String,
    /// The negotiated protocol version.
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    tool_count: usize,
    /// Seconds that a call of it may take, if less.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_s: Option<f64>,
    calls: u64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    restarts: u64,
    /// Responses that match no open request.
    stray_answers: u64,
    /// Lines that are not messages.
    noise: u64,
    /// Callers with a process or session of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<usize>,
    /// The remedy: for a backend that cannot be called, or after refused questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    /// Questions whose client is not certain.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<u64>")]
    refused_questions: u64,
    /// Log messages whose client is not certain.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<u64>")]
    unattributed_logs: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Seconds until the next try.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try_s: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct CapabilityCounts {
    tools: usize,
    resources: usize,
    prompts: usize,
}

#[derive(Serialize, JsonSchema)]
struct EventLogReport {
    /// `ok` or `degraded`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The time and the reason of its last replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<String>,
    written: u64,
    dropped: u64,
}

/// Enough to see the cause; each costs tokens.
const MAX_NOT_OFFERED: usize = 20;

impl Tool for GatewayStatus {
    const NAME: &'static str = "gateway_status";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Gateway;
    type Output = GatewayReport;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<GatewayReport, ToolError> {
        let origin = call.extension::<OriginalRequest>();
        let timeout = origin.map(|origin| origin.timeout.as_secs());
        Ok(GatewayReport::new(gateway, &gateway.viewer(call), timeout))
    }
}

impl GatewayReport {
    /// The report of all that `viewer` may see. `timeout` is that of its calls, in seconds.
    pub(crate) fn new(gateway: &Gateway, viewer: &Viewer, timeout: Option<u64>) -> Self {
        let catalog = gateway.catalog();
        let events = gateway.database.log.health();
        let mut backends = gateway.backends();
        backends.retain(|key, _| viewer.has_backend(key.as_str()));
        let timeout = timeout.unwrap_or(30);
        let used = backends.values();
        let used = used.map(|backend| {
            let report = BackendReport::new(backend, &catalog, timeout);
            (backend.key.to_string(), report)
        });
        let config = gateway.config();
        let disabled = config
            .disabled()
            .filter(|(key, _)| viewer.has_backend(key.as_str()))
            .map(|(key, reason)| (key.to_string(), BackendReport::disabled(key, reason)));
        let is_shown = |refused: &&RefusedItem| viewer.has_backend(&refused.backend);
        let scope = catalog.scope(viewer.view());
        let not_offered = scope.into_iter().flat_map(|scope| scope.refused());
        let not_offered = not_offered.filter(is_shown).take(MAX_NOT_OFFERED);
        // They name what others may do.
        let sees_rules = viewer.view().is_none() && viewer.has(Right::AllEvents);
        // Those of now: tokens change without the lists.
        let unmatched =
            sees_rules.then(|| gateway.find_unmatched(&gateway.config(), &gateway.catalog()));
        let unmatched = unmatched.iter().flatten();
        let unmatched = unmatched.take(MAX_NOT_OFFERED).map(ToString::to_string);
        let (resources, prompts) = scope.map_or((0, 0), |scope| scope.counts());
        let level = LevelFilter::current();
        Self {
            gateway: GatewayInfo {
                name: "mcp-gateway",
                version: env!("CARGO_PKG_VERSION"),
                view: viewer.view().map(ToOwned::to_owned),
                config: Settings {
                    log_level: level.to_string().to_uppercase(),
                    debug: level >= LevelFilter::DEBUG,
                    backend_timeout: timeout,
                },
            },
            backends: used.chain(disabled).collect(),
            capabilities: CapabilityCounts {
                tools: scope.map_or(0, |scope| scope.listed_tools().count()),
                resources,
                prompts,
            },
            event_log: EventLogReport {
                status: events.degraded.as_ref().map_or("ok", |_| "degraded"),
                reason: events.degraded,
                replaced: events.replaced,
                written: events.written,
                dropped: events.dropped,
            },
            decisions: gateway.lost_decisions(),
            refused_configuration: gateway.refused_config.lock().clone(),
            needs_restart: gateway.needs_restart.lock().clone(),
            unmatched_rules: unmatched.collect(),
            other_gateways: gateway
                .database
                .shared
                .as_ref()
                .map(|shared| shared.others()),
            not_offered: not_offered
                .map(|refused| RefusedItem {
                    item: refused.item.chars().take(64).collect(),
                    ..refused.clone()
                })
                .collect(),
        }
    }
}

impl BackendReport {
    fn disabled(key: &BackendKey, reason: &DisabledReason) -> Self {
        Self {
            status: BackendState::Disabled,
            namespace: key.to_string(),
            last_error: Some(reason.to_string()),
            advice: reason.advice(key),
            ..Self::default()
        }
    }

    /// `timeout` is that of all calls, in seconds.
    fn new(backend: &Backend, catalog: &MergedCatalog, timeout: u64) -> Self {
        let mut status = backend.status();
        if status.state == BackendState::Running && catalog.lacks_tools_of(backend) {
            // A client that reads the list now does not find them.
            status.state = BackendState::Starting;
        }
        let metrics = &backend.metrics;
        let counters = backend.counters();
        let server = status.server.as_ref();
        let isolation = backend.config.isolation;
        let own_timeout = backend.config.timeout.filter(|own| own.as_secs() < timeout);
        let is_isolated = matches!(isolation, Isolation::Principal | Isolation::Session);
        Self {
            status: status.state,
            namespace: backend.key.to_string(),
            protocol: server.map(|server| server.protocol_version.clone()),
            tool_count: backend.snapshot().tools.len(),
            timeout_s: own_timeout.map(|own| own.as_secs_f64()),
            calls: metrics.calls.get(),
            errors: metrics.errors.get(),
            p50_ms: metrics.quantiles.quantile(50),
            p99_ms: metrics.quantiles.quantile(99),
            restarts: metrics.restarts.get(),
            stray_answers: counters.unmatched_responses,
            noise: counters.invalid_messages,
            instances: Some(backend.instances()).filter(|count| *count > 0 || is_isolated),
            advice: match (status.state, &status.last_error) {
                (BackendState::Failed | BackendState::CrashLoop, _)
                | (BackendState::Starting, Some(_)) => Some(backend.failure_advice(status.state)),
                _ if counters.refused_requests > 0 => Some(backend.refusal_advice()),
                _ => None,
            },
            refused_questions: counters.refused_requests,
            unattributed_logs: counters.unattributed_logs,
            next_try_s: status.next_try_s(),
            last_error: match status.state {
                BackendState::Running => None,
                _ => status.last_error,
            },
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Query telemetry events from gateway event log
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEvents {
    /// Only events of this request.
    trace_id: Option<ShortText<128>>,
    /// Such as gateway.tool_call or gateway.backend_failed.
    event_type: Option<ShortText<128>>,
    /// `pending` is a waiting approval.
    status: Option<EventStatus>,
    /// Only requests of this principal.
    principal: Option<ShortText<256>>,
    /// Only requests of this view.
    view: Option<ShortText<128>>,
    /// Only of this backend.
    backend: Option<ShortText<128>>,
    /// Only of this listed tool, prompt or resource.
    item: Option<ShortText<256>>,
    /// End of the request.
    outcome: Option<Outcome>,
    /// Kind of the failure, such as timeout or tool_error.
    kind: Option<ShortText<64>>,
    /// Only events that name this, such as a container in an argument.
    about: Option<ShortText<256>>,
    /// Only of the gateway with this id, as events show.
    replica: Option<ShortText<128>>,
    /// Age such as 1h, 24h, 7d, or an ISO 8601 time.
    since: Option<ShortText<128>>,
    /// Newest events; default 100.
    limit: Option<Bounded<1, 1000>>,
}

impl Tool for GetEvents {
    const NAME: &'static str = "get_events";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Gateway;
    type Output = ToolResult;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<ToolResult, ToolError> {
        let viewer = gateway.viewer(call);
        let events = Self::find(self.query(&viewer)?, gateway, &viewer).await?;
        let text = serde_json::to_string(&events).map_err(not_written)?;
        Ok(ToolResult::Content(vec![Content::text(text)]))
    }
}

impl GetEvents {
    /// The query of these filters for the events that `viewer` may see.
    pub(crate) fn query(self, viewer: &Viewer) -> Result<Query, ToolError> {
        let sees_all = viewer.has(Right::AllEvents);
        if !sees_all && viewer.principal.is_none() {
            return Err(ToolError::new(
                ToolErrorKind::Forbidden,
                "Without a token of its own a client has no events of its own; an operator can allow \
                 `own = [\"events:all\"]`.",
            ));
        }
        let trace_id = self.trace_id.as_deref().map(|text| {
            let expected = "trace_id must be a UUID or 32 hexadecimal digits.";
            parse_trace(text).ok_or_else(|| ToolError::invalid_argument(expected))
        });
        let since = self.since.as_deref().map(|text| {
            let expected = "since must be a duration such as 1h, 24h or 7d, or a time such as 2026-01-31T12:00:00Z.";
            Since::parse(text.trim()).ok_or_else(|| ToolError::invalid_argument(expected))
        });
        if let Some(name) = &self.event_type {
            kind::check(name)
                .map_err(|text| ToolError::invalid_argument(format!("event_type {text}.")))?;
        }
        // Those of a view see its events only.
        let view = self.view.map(|name| Arc::from(name.into_inner().as_str()));
        if viewer.view.is_some() && view.is_some() && viewer.view != view {
            return Err(ToolError::forbidden(
                "Events of another view are not for this one: leave `view` out.",
            ));
        }
        // Rules of the operator stand in events, and a filter would tell of them.
        if !sees_all && self.about.is_some() {
            return Err(ToolError::forbidden(
                "`about` is for those who see all events; your role does not have `events:all`.",
            ));
        }
        let own = viewer.principal.as_ref().filter(|_| !sees_all);
        let own = own.map(|principal| Arc::clone(&principal.name));
        let asked = self
            .principal
            .map(|name| Arc::from(name.into_inner().as_str()));
        if own.is_some() && asked.is_some() && own != asked {
            return Err(ToolError::forbidden(
                "Events of others are for those who have `events:all`: leave `principal` out.",
            ));
        }
        Ok(Query {
            trace_id: trace_id.transpose()?,
            event_type: self.event_type.map(ShortText::into_inner),
            status: self.status,
            replica: self.replica.map(ShortText::into_inner),
            since: since.transpose()?.map(|since| since.from(Timestamp::now())),
            principal: own.or(asked),
            view: viewer.view.clone().or(view),
            backend: self.backend.map(ShortText::into_inner),
            item: self.item.map(ShortText::into_inner),
            outcome: self.outcome,
            kind: self.kind.map(ShortText::into_inner),
            about: self.about.map(ShortText::into_inner),
            hides_denials: !sees_all,
            limit: self.limit.map(|limit| limit.get() as usize),
        })
    }

    /// Returns the events, the oldest first.
    pub(crate) async fn find(
        query: Query,
        gateway: &Gateway,
        viewer: &Viewer,
    ) -> Result<Vec<Record>, ToolError> {
        let mut events = gateway.database.log.find(query).await.map_err(|failure| {
            ToolError::unavailable("The event log cannot be read now; tools still work.")
                .caused_by(failure.reason)
        })?;
        if gateway.database.shared.is_none() {
            events.iter_mut().for_each(|event| event.replica = None);
        }
        if !viewer.has(Right::AllEvents) {
            events.iter_mut().for_each(Record::hide_denial);
        }
        Ok(events)
    }
}

pub(crate) fn not_written(error: serde_json::Error) -> ToolError {
    ToolError::upstream("The events could not be written as JSON.").caused_by(error)
}

/// Find tools by what they do. Call one with call_tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchTools {
    /// Words; a backend's name narrows it to that backend.
    query: ShortText<256>,
    /// Default 8.
    limit: Option<Bounded<1, 50>>,
}

impl Tool for SearchTools {
    const NAME: &'static str = "search_tools";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Gateway;
    type Output = ToolResult;

    async fn call(self, gateway: &Gateway, call: &Call) -> Result<ToolResult, ToolError> {
        let (catalog, limit) = (gateway.catalog(), self.limit.map_or(8, Bounded::get));
        let viewer = gateway.viewer(call);
        let is_allowed = |tool: &ToolDefinition| viewer.allows(tool);
        let gone = || ToolError::unavailable("This view was removed; there are no tools.");
        let scope = catalog.scope(viewer.view()).ok_or_else(gone)?;
        let found = scope.find(&catalog, self.query.into_inner()).await;
        let found = found.map_err(|error| {
            ToolError::upstream("The tools cannot be searched at the moment.").caused_by(error)
        })?;
        let allowed = found.into_iter().filter(|tool| is_allowed(tool));
        let found: Vec<&ToolDefinition> = allowed.take(limit as usize).collect();
        if found.is_empty() {
            let names = scope.backends_of(is_allowed).into_iter();
            let names: Vec<String> = names.map(ToString::to_string).collect();
            let count = scope.listed_tools().filter(|tool| is_allowed(tool)).count();
            return Ok(ToolResult::text(format!(
                "No tool matches; try other words. The {count} tools belong to these backends: {}.",
                names.join(", ")
            )));
        }
        let tools: Vec<String> = found.into_iter().map(brief).collect();
        let text = format!("[{}]", tools.join(",\n"));
        Ok(ToolResult::Content(vec![Content::text(text)]))
    }
}

/// The name, description and input schema of a tool.
fn brief(tool: &ToolDefinition) -> String {
    let full = tool.encode(Detail::Basic);
    let members = Members::read(&full);
    members.map_or(full, |members| members.encode())
}
