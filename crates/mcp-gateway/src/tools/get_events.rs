//! `get_events` (seed 003): queries the event log.

use std::sync::Arc;

use gateway_access::{Right, Viewer};
use gateway_store::events::{EventStatus, Query, Record, TraceId};
use mcp_core::tool::{
    Bounded, Call, Content, Effect, ShortText, Tool, ToolError, ToolErrorKind, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use upstream::time::{Since, Timestamp};

use crate::gateway::Gateway;

/// Query telemetry events from gateway event log
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetEvents {
    /// Only events of this request.
    trace_id: Option<ShortText<128>>,
    /// Such as gateway.tool_call or gateway.backend_failed.
    event_type: Option<ShortText<128>>,
    /// Outcome.
    status: Option<EventStatus>,
    /// Its id in gateway_status.
    replica: Option<ShortText<128>>,
    /// Age such as 1h, 24h, 7d, or an ISO 8601 time.
    since: Option<ShortText<128>>,
    /// Default 100.
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
            TraceId::parse(text).ok_or_else(|| {
                ToolError::invalid_argument("trace_id must be a UUID or 32 hexadecimal digits.")
            })
        });
        let since = self.since.as_deref().map(|text| {
            Since::parse(text.trim()).ok_or_else(|| {
                ToolError::invalid_argument(
                    "since must be a duration such as 1h, 24h or 7d, or a time such as \
                     2026-01-31T12:00:00Z.",
                )
            })
        });
        let own = viewer.principal.as_ref().filter(|_| !sees_all);
        let own = own.map(|principal| Arc::clone(&principal.name));
        Ok(Query {
            trace_id: trace_id.transpose()?,
            event_type: self.event_type.map(ShortText::into_inner),
            status: self.status,
            replica: self.replica.map(ShortText::into_inner),
            since: since.transpose()?.map(|since| since.from(Timestamp::now())),
            principal: own,
            view: viewer.view.clone(),
            limit: self
                .limit
                .map_or(Query::default().limit, |limit| limit.get() as usize),
        })
    }

    /// Returns the events, the oldest first.
    pub(crate) async fn find(
        query: Query,
        gateway: &Gateway,
        viewer: &Viewer,
    ) -> Result<Vec<Record>, ToolError> {
        let events = gateway.log().find(query).await.map_err(|failure| {
            ToolError::unavailable("The event log cannot be read now; tools still work.")
                .caused_by(failure.reason)
        })?;
        let mut events = events;
        if gateway.shared().is_none() {
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
