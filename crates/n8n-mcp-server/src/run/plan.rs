//! From a workflow and the caller's request to the one request that starts it. Nothing is sent here.

mod file;
mod form;
mod parameters;
#[cfg(test)]
mod tests;

use mcp_core::tool::ToolError;
use serde_json::{Map, Value};

use crate::api::Workflow;
use crate::builtin_mcp::McpRequest;
use crate::production_url::UrlRequest;
use crate::trigger::{Access, Kind, Trigger, Way, triggers};

use form::form_request;
use parameters::{chat_request, mcp_request, webhook_request};

/// The trigger that was chosen, and the request that starts it with the parameters in it.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// Name of the trigger node.
    pub(crate) trigger: String,
    pub(crate) start: Start,
}

/// The one request that starts a workflow.
#[derive(Debug, PartialEq)]
pub(crate) enum Start {
    Url(UrlRequest),
    Mcp(McpRequest),
}

impl RunPlan {
    /// Chooses the trigger and the way, and fills in the parameters. The trigger keeps `request_id`.
    ///
    /// A URL goes before n8n's MCP server, and of those that only that server starts, those that take
    /// parameters go first. Where two are equal the caller has to choose.
    ///
    /// # Errors
    /// When no trigger is open, or the parameters do not fit the one that is.
    pub(crate) fn new(
        workflow: &Workflow,
        trigger: Option<&str>,
        parameters: Map<String, Value>,
        request_id: &str,
        access: &Access,
    ) -> Result<Self, ToolError> {
        let name = &workflow.name;
        if workflow.is_archived {
            return Err(ToolError::conflict(format!(
                "Workflow \"{name}\" is archived. Unarchive and activate it in n8n."
            )));
        }
        let all = triggers(workflow);
        if all.is_empty() {
            return Err(ToolError::conflict(format!(
                "Workflow \"{name}\" has no trigger that is not disabled. Add a Webhook trigger in \
                 n8n."
            )));
        }
        let (trigger, way) = match trigger {
            Some(wanted) => named(&all, wanted, access)?,
            None => best(&all, name, access)?,
        };
        let request = match way {
            Way::Webhook => webhook_request(trigger, parameters),
            Way::Chat => chat_request(trigger, parameters, request_id),
            Way::Form => form_request(trigger, parameters, request_id),
            Way::McpProduction | Way::McpManual | Way::McpTest => {
                let first = all.iter().find(|trigger| {
                    matches!(
                        trigger.kind,
                        Kind::Webhook | Kind::Chat | Kind::Form | Kind::Schedule
                    )
                });
                let is_first = first.is_some_and(|first| first.node.name == trigger.node.name);
                let request = mcp_request(trigger, way, is_first, parameters, request_id)?;
                return Ok(Self {
                    trigger: trigger.node.name.clone(),
                    start: Start::Mcp(request),
                });
            }
        };
        Ok(Self {
            trigger: trigger.node.name.clone(),
            start: Start::Url(UrlRequest {
                credential: trigger.credential(access).map(str::to_owned),
                ..request?
            }),
        })
    }

    /// The way that it goes.
    pub(crate) fn way(&self) -> Way {
        match &self.start {
            Start::Url(request) => request.way,
            Start::Mcp(request) => request.way,
        }
    }
}

fn named<'a>(
    all: &'a [Trigger<'_>],
    wanted: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, Way), ToolError> {
    let trigger = all.iter().find(|trigger| trigger.node.name == wanted);
    let trigger = trigger.ok_or_else(|| {
        ToolError::invalid_argument(format!(
            "The workflow has no trigger {wanted:?}. `trigger` is one of: {}.",
            names(all.iter())
        ))
    })?;
    let way = trigger
        .way(access)
        .map_err(|reason| ToolError::conflict(closed(trigger, &reason)))?;
    Ok((trigger, way))
}

fn best<'a>(
    all: &'a [Trigger<'_>],
    name: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, Way), ToolError> {
    let (mut open, mut reasons) = (Vec::new(), String::new());
    for trigger in all {
        match trigger.way(access) {
            Ok(way) => open.push((trigger.rank(way), trigger, way)),
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
        return Err(ToolError::conflict(format!(
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

fn closed(trigger: &Trigger<'_>, reason: &str) -> String {
    format!("Trigger {}: {reason}.", shown(trigger))
}

fn names<'a>(triggers: impl Iterator<Item = &'a Trigger<'a>>) -> String {
    triggers.map(shown).collect::<Vec<_>>().join(", ")
}

fn shown(trigger: &Trigger<'_>) -> String {
    format!("`{}` ({})", trigger.node.name, trigger.kind.as_str())
}
