//! The decisions of people: about calls that wait for an operator, and about tools whose definition has changed.

use gateway_approvals::approvals::{self, Approval, ApprovalStatus};
use gateway_approvals::pins::{self, Pin};
use gateway_store::events::{EventStatus, kind};
use gateway_store::state::Expected;
use mcp_core::tool::{ToolError, ToolErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PageViewer, forbidden};
use crate::config::PinMode;
use crate::gateway::Gateway;

/// Ended calls that are listed.
const MAX_ENDED: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolDecision {
    backend: String,
    tool: String,
    /// That of the definition that the person has seen.
    hash: String,
    approve: bool,
}

/// The calls that wait, and the last that have ended: all for those who decide or see everything, else the viewer's own.
pub(super) fn waiting(gateway: &Gateway, viewer: &PageViewer) -> Value {
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
            "arguments": approval.arguments,
            "created": approval.created,
            "expires": approval.expires,
            "status": status.name(),
            "decided_by": approval.decided_by.as_ref().filter(|_| sees_all(viewer)),
        })
    });
    let calls: Vec<Value> = calls.collect();
    json!({"may_decide": viewer.may_decide(), "calls": calls})
}

/// The number of calls that wait.
pub(super) fn count(gateway: &Gateway, viewer: &PageViewer) -> usize {
    let found = visible(gateway, viewer);
    let waiting = found
        .iter()
        .filter(|(_, status)| *status == ApprovalStatus::Waiting);
    waiting.count()
}

fn sees_all(viewer: &PageViewer) -> bool {
    viewer.may_decide() || viewer.is_operator()
}

fn visible(gateway: &Gateway, viewer: &PageViewer) -> Vec<(Approval, ApprovalStatus)> {
    let entries = gateway.state().entries();
    let sees_all = sees_all(viewer);
    let own = viewer.0.principal.as_ref().map(|own| &*own.name);
    let found = approvals::read(&entries).into_iter();
    let found = found
        .filter(|(approval, _)| sees_all || own.is_some() && approval.principal.as_deref() == own);
    let found = found.map(|(approval, _)| {
        let status = approval.status_in(&entries);
        (approval, status)
    });
    found.collect()
}

pub(super) async fn decide_call(
    gateway: &Gateway,
    viewer: &PageViewer,
    body: &[u8],
) -> Result<Value, ToolError> {
    let decider = viewer.0.principal.as_deref();
    match gateway.approvals().decide_on_page(decider, body).await {
        Ok(answered) => Ok(answered.into_json()),
        Err((status, reason)) => {
            let kind = match status {
                400 => ToolErrorKind::InvalidArgument,
                404 => ToolErrorKind::NotFound,
                409 => ToolErrorKind::Conflict,
                503 => ToolErrorKind::Unavailable,
                _ => ToolErrorKind::Forbidden,
            };
            Err(ToolError::new(kind, reason))
        }
    }
}

/// The tools that are not offered as they were approved, with what has changed.
pub(super) fn changed(gateway: &Gateway, viewer: &PageViewer) -> Vec<Value> {
    // A definition may say what a role must not know.
    if !sees_all(viewer) {
        return Vec::new();
    }
    let config = gateway.config();
    let backends = gateway.backends();
    let found = pins::read(&gateway.state().entries(), "").into_iter();
    let found = found.filter_map(|(_, pin, _)| {
        let offered = pin.offered.as_ref()?;
        let (key, backend) = backends
            .iter()
            .find(|(key, _)| key.as_str() == pin.backend)?;
        if config.backends.get(key)?.pins.mode == PinMode::Off {
            return None;
        }
        let held = backend
            .snapshot()
            .held
            .get(&pin.tool)
            .map(ToString::to_string);
        Some(json!({
            "backend": pin.backend,
            "tool": pin.tool,
            "status": pin.status().name(),
            "renamed_from": pin.renamed_from,
            "held": held,
            "hash": offered.hash,
            "since": offered.since,
            "diff": pin.diff(),
            "may_decide": viewer.may_decide(),
        }))
    });
    found.collect()
}

pub(super) async fn decide_tool(
    gateway: &Gateway,
    viewer: &PageViewer,
    asked: ToolDecision,
) -> Result<Value, ToolError> {
    if !viewer.may_decide() {
        return Err(forbidden("approve"));
    }
    let entries = gateway.state().entries();
    let found = pins::read(&entries, &asked.backend).into_iter();
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
    let (key, pin, entry) = found
        .into_iter()
        .find(|(_, pin, _)| is_seen(pin))
        .ok_or_else(conflict)?;
    let decided = pin.decided_now(asked.approve, viewer.name());
    let change = pins::store(key, &decided, Expected::Revision(entry.revision));
    match gateway.state().change(vec![change]).await {
        Ok(true) => {}
        Ok(false) => return Err(conflict()),
        Err(_) => {
            return Err(ToolError::unavailable(
                "The store is not available; try again later.",
            ));
        }
    }
    let decision = if asked.approve { "approved" } else { "refused" };
    let facts = json!({
        "backend": asked.backend,
        "tool_name": asked.tool,
        "decision": decision,
        "hash": asked.hash,
        "by": viewer.name(),
    });
    gateway.record(kind::TOOL_DECIDED, EventStatus::Success, facts);
    Ok(json!({"tool": asked.tool, "decision": decision}))
}
