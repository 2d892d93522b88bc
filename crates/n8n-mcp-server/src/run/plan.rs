//! Plans a run: chooses the trigger and builds the one request that starts it. Sends nothing.

mod request;
#[cfg(test)]
mod tests;

use mcp_core::tool::ToolError;
use n8n_workflow::Workflow;
use n8n_workflow::trigger::{Trigger, TriggerKind, triggers};
use serde_json::{Map, Value};

use crate::builtin_mcp::McpRequest;
use crate::production_url::UrlRequest;
use crate::start_method::{Access, StartMethod};
use crate::variant_name::variant_name;

use request::{chat_request, file_parts, form_request, mcp_request, webhook_request};

pub(crate) use request::HttpInput;
pub(in crate::run) use request::{form_body, webhook_body};

/// The chosen trigger, and the request that starts it, with the parameters.
#[derive(Debug)]
pub(crate) struct RunPlan {
    /// Name of the trigger node.
    pub(crate) trigger: String,
    pub(crate) start: Start,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Start {
    Url(UrlRequest),
    Mcp(McpRequest),
}

impl RunPlan {
    /// Chooses the trigger and how to start it, and fills in the parameters and the `request_id`.
    ///
    /// Prefers URLs to n8n's MCP server, and among triggers that only that server starts, those
    /// that take parameters. If two are equally good, the caller must choose.
    ///
    /// # Errors
    /// When no trigger can be started, or the parameters do not fit.
    pub(crate) fn new(
        workflow: &Workflow,
        trigger: Option<&str>,
        mut parameters: Map<String, Value>,
        mut http: HttpInput,
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
        if trigger.kind == TriggerKind::Form && way == StartMethod::Form {
            parameters.append(&mut http.files);
        }
        http.check_kind(trigger, way)?;
        let mut start = match way {
            StartMethod::Webhook => {
                let credential = access.credential(trigger);
                let reserved = credential.and_then(|name| access.credentials.header(name));
                http.check_user(access)?;
                let files = file_parts(std::mem::take(&mut http.files))?;
                Start::Url(webhook_request(trigger, parameters, http, files, reserved)?)
            }
            StartMethod::Chat => Start::Url(chat_request(trigger, parameters, request_id)?),
            StartMethod::Form => Start::Url(form_request(trigger, parameters, request_id)?),
            StartMethod::McpProduction | StartMethod::McpManual | StartMethod::McpTest => {
                let input = (parameters, http);
                Start::Mcp(mcp_request(trigger, way, input, request_id)?)
            }
        };
        if let Start::Url(request) = &mut start {
            request.credential = access.credential(trigger).map(str::to_owned);
        }
        let trigger = trigger.node.name.clone();
        Ok(Self { trigger, start })
    }
}

impl Start {
    pub(super) fn way(&self) -> StartMethod {
        match self {
            Self::Url(request) => request.way,
            Self::Mcp(request) => request.way,
        }
    }
}

fn named<'a>(
    all: &'a [Trigger<'_>],
    wanted: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, StartMethod), ToolError> {
    let trigger = all.iter().find(|trigger| trigger.node.name == wanted);
    let trigger = trigger.ok_or_else(|| {
        ToolError::invalid_argument(format!(
            "The workflow has no trigger {wanted:?}. `trigger` is one of: {}.",
            names(all.iter())
        ))
    })?;
    let way = access
        .way(trigger)
        .map_err(|reason| ToolError::conflict(closed(trigger, &reason)))?;
    Ok((trigger, way))
}

fn best<'a>(
    all: &'a [Trigger<'_>],
    name: &str,
    access: &Access,
) -> Result<(&'a Trigger<'a>, StartMethod), ToolError> {
    let (mut open, mut reasons) = (Vec::new(), String::new());
    for trigger in all {
        match access.way(trigger) {
            Ok(way) => open.push((way.rank(trigger.kind), trigger, way)),
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
    format!("`{}` ({})", trigger.node.name, variant_name(&trigger.kind))
}
