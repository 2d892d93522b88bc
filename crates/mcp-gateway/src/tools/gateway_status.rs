//! `gateway_status` (seed 003): the state of the gateway, its backends and its event log.

use std::collections::BTreeMap;

use gateway_access::Viewer;
use mcp_core::server::OriginalRequest;
use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Backend, BackendState};
use crate::config::{BackendKey, DisabledReason, Isolation};
use crate::gateway::Gateway;
use crate::names::RefusedItem;

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

impl Settings {
    fn new(timeout: Option<u64>) -> Self {
        let level = tracing::level_filters::LevelFilter::current();
        Self {
            log_level: level.to_string().to_uppercase(),
            debug: level >= tracing::level_filters::LevelFilter::DEBUG,
            backend_timeout: timeout.unwrap_or(30),
        }
    }
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
    /// The setting that helps after refused questions.
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
        let events = gateway.log().health();
        let mut backends = gateway.backends();
        backends.retain(|key, _| viewer.has_backend(key.as_str()));
        let used = backends.values();
        let used = used.map(|backend| (backend.key.to_string(), BackendReport::new(backend)));
        let config = gateway.config();
        let disabled = config
            .disabled()
            .filter(|(key, _)| viewer.has_backend(key.as_str()))
            .map(|(key, reason)| (key.to_string(), BackendReport::disabled(key, reason)));
        let is_shown = |refused: &&RefusedItem| viewer.has_backend(&refused.backend);
        let scope = catalog.scope(viewer.view());
        let not_offered = scope.into_iter().flat_map(|scope| scope.refused());
        let not_offered = not_offered.filter(is_shown).take(MAX_NOT_OFFERED);
        let (resources, prompts) = scope.map_or((0, 0), |scope| scope.counts());
        Self {
            gateway: GatewayInfo {
                name: "mcp-gateway",
                version: env!("CARGO_PKG_VERSION"),
                view: viewer.view().map(ToOwned::to_owned),
                config: Settings::new(timeout),
            },
            backends: used.chain(disabled).collect(),
            capabilities: CapabilityCounts {
                tools: scope.map_or(0, |scope| scope.listed_tools().count()),
                resources,
                prompts,
            },
            event_log: EventLogReport {
                status: if events.degraded.is_none() {
                    "ok"
                } else {
                    "degraded"
                },
                reason: events.degraded,
                replaced: events.replaced,
                written: events.written,
                dropped: events.dropped,
            },
            other_gateways: gateway.shared().map(|shared| shared.others()),
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
            ..Self::default()
        }
    }

    fn new(backend: &Backend) -> Self {
        let status = backend.status();
        let metrics = &backend.metrics;
        let counters = backend.counters();
        Self {
            status: status.state,
            namespace: backend.key.to_string(),
            protocol: status
                .server
                .as_ref()
                .map(|server| server.protocol_version.clone()),
            tool_count: backend.snapshot().tools.len(),
            calls: metrics.calls.get(),
            errors: metrics.errors.get(),
            p50_ms: metrics.quantiles.quantile(0.5),
            p99_ms: metrics.quantiles.quantile(0.99),
            restarts: metrics.restarts.get(),
            stray_answers: counters.unmatched_responses,
            noise: counters.invalid_messages,
            instances: (backend.config.isolation != Isolation::Shared).then(|| backend.instances()),
            advice: (counters.refused_requests > 0).then(|| backend.refusal_advice()),
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
