//! From a workflow and its caller's wishes to the one request that starts it. Nothing is sent here.

mod file;
mod fill;
mod form;
#[cfg(test)]
mod tests;

use mcp_core::tool::{ToolError, ToolErrorKind};
use serde_json::{Map, Value};

use crate::api::Workflow;
use crate::trigger::{Kind, Means, Site, Trigger, Way, triggers};

#[cfg(test)]
pub(crate) use fill::File;
use fill::fill;
pub(crate) use fill::{Body, Inputs, McpStart, Part, Start, UrlStart};

/// What the caller wants to happen.
pub(crate) struct Wish<'a> {
    /// What the trigger is to receive.
    pub(crate) parameters: Map<String, Value>,
    /// The name of the trigger node; chosen here where absent.
    pub(crate) trigger: Option<&'a str>,
    /// Unique; the trigger keeps it, so that the execution is found again by it.
    pub(crate) request_id: &'a str,
}

/// Chooses the trigger and the way, and fills in the parameters.
///
/// A URL goes before n8n's MCP server, and of those that only that server starts, those that take
/// parameters go first. Where two are equal the caller has to choose.
pub(crate) fn plan(
    workflow: &Workflow,
    wish: Wish<'_>,
    means: Means<'_>,
) -> Result<(String, Start), ToolError> {
    let name = &workflow.name;
    if workflow.is_archived {
        return Err(conflict(format!(
            "Workflow \"{name}\" is archived. Unarchive and activate it in n8n."
        )));
    }
    let site = Site::of(workflow, means);
    let all = triggers(workflow);
    if all.is_empty() {
        return Err(conflict(format!(
            "Workflow \"{name}\" has no trigger that is not disabled. Add a Webhook trigger in n8n."
        )));
    }
    let (trigger, way) = match wish.trigger {
        Some(wanted) => named(&all, wanted, site)?,
        None => best(&all, name, site)?,
    };
    let starts_from_outside = |trigger: &&Trigger<'_>| {
        matches!(
            trigger.kind,
            Kind::Webhook | Kind::Chat | Kind::Form | Kind::Schedule
        )
    };
    let first = all.iter().find(starts_from_outside);
    let is_first = first.is_some_and(|first| first.node.name == trigger.node.name);
    let start = fill(trigger, is_first, way, wish)?;
    Ok((trigger.node.name.clone(), start))
}

fn named<'a>(
    all: &'a [Trigger<'_>],
    wanted: &str,
    site: Site<'_>,
) -> Result<(&'a Trigger<'a>, Way), ToolError> {
    let trigger = all.iter().find(|trigger| trigger.node.name == wanted);
    let trigger = trigger.ok_or_else(|| {
        ToolError::invalid_argument(format!(
            "The workflow has no trigger {wanted:?}. `trigger` is one of: {}.",
            names(all.iter())
        ))
    })?;
    let way = trigger
        .way(site)
        .map_err(|reason| conflict(closed(trigger, &reason)))?;
    Ok((trigger, way))
}

fn best<'a>(
    all: &'a [Trigger<'_>],
    name: &str,
    site: Site<'_>,
) -> Result<(&'a Trigger<'a>, Way), ToolError> {
    let (mut open, mut reasons) = (Vec::new(), String::new());
    for trigger in all {
        match trigger.way(site) {
            Ok(way) => open.push((rank(trigger, &way), trigger, way)),
            Err(reason) => {
                reasons.push(' ');
                reasons.push_str(&closed(trigger, &reason));
            }
        }
    }
    // Stable, so equals stay in the order of the workflow.
    open.sort_by_key(|(rank, ..)| *rank);
    let mut open = open.into_iter();
    let Some((first, trigger, way)) = open.next() else {
        return Err(conflict(format!(
            "Workflow \"{name}\" cannot be started from here.{reasons}"
        )));
    };
    let equals: Vec<_> = open.take_while(|(rank, ..)| *rank == first).collect();
    if equals.is_empty() {
        return Ok((trigger, way));
    }
    let names = names(std::iter::once(trigger).chain(equals.iter().map(|(_, equal, _)| *equal)));
    Err(ToolError::invalid_argument(format!(
        "Workflow \"{name}\" can be started in several ways. Pass `trigger`, one of: {names}."
    )))
}

/// Smaller is better.
fn rank(trigger: &Trigger<'_>, way: &Way) -> (bool, Kind) {
    (matches!(way, Way::Mcp(_)), trigger.kind)
}

fn closed(trigger: &Trigger<'_>, reason: &str) -> String {
    format!(
        "Trigger `{}` ({}): {reason}.",
        trigger.node.name,
        trigger.kind.as_str()
    )
}

fn names<'a>(triggers: impl Iterator<Item = &'a Trigger<'a>>) -> String {
    let names =
        triggers.map(|trigger| format!("`{}` ({})", trigger.node.name, trigger.kind.as_str()));
    names.collect::<Vec<_>>().join(", ")
}

fn conflict(message: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Conflict, message)
}
