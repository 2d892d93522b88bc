//! The data of the gateway on the page, beside its tools, and the decisions that people make there. Each caller sees
//! what its role allows: what its own tools would tell it, and no more.
//!
//! * [`backends`]: their state; [`tools`]: definitions, and who may call them; [`settings`]: the configuration.
//! * [`decisions`]: calls that wait for an operator, and tools whose definition has changed.

mod backends;
mod decisions;
mod settings;
mod tools;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gateway_access::{Right, Viewer};
use mcp_core::server::Principal;
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::PageData;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::Semaphore;

use crate::gateway::Gateway;
use crate::tools::{GetEvents, not_written};

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
}

/// A person who looks at the page, with the role.
struct PageViewer(Viewer);

impl PageViewer {
    fn new(gateway: &Gateway, caller: Option<&Arc<Principal>>) -> Self {
        Self(Viewer::from_principal(gateway.admission(), caller.cloned()))
    }

    /// True if it may use this tool of the gateway itself.
    fn may_use(&self, tool: &str) -> bool {
        self.0.allows_missing(tool)
    }

    /// True if it sees what no tool tells: the configuration, addresses, what children print, and the roles of others.
    /// With roles this is for those who see the events of all callers. Without roles all tokens have the same rights,
    /// also those of agents, so that none sees it. Without tokens the page is as open as the tools.
    fn is_operator(&self) -> bool {
        match self.0.has_roles() {
            true => self.may_use("get_events") && self.0.has(Right::AllEvents),
            false => self.0.principal.is_none(),
        }
    }

    /// True if it decides about calls and tools: a token with a role does, since an agent could use the page as well.
    fn may_decide(&self) -> bool {
        self.0.has_roles() && self.0.has(Right::Approve)
    }

    /// The name for records.
    fn name(&self) -> String {
        let principal = self.0.principal.as_ref();
        principal.map_or("the page".to_owned(), |principal| {
            principal.name.to_string()
        })
    }
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
        let viewer = PageViewer::new(&self.gateway, caller);
        let health = self.gateway.log().health();
        let events = match viewer.may_use("get_events") || viewer.may_use("gateway_status") {
            true => health.written + health.dropped + health.waiting as u64,
            false => 0,
        };
        (events, self.gateway.catalog_number())
    }

    fn answer<'a>(
        &'a self,
        topic: &'a str,
        caller: Option<&'a Arc<Principal>>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            let viewer = PageViewer::new(&self.gateway, caller);
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
        viewer: &PageViewer,
        body: &[u8],
    ) -> Result<String, ToolError> {
        let gateway = &*self.gateway;
        let answer = match topic {
            "state" => backends::state(gateway, viewer)?,
            "tools" => tools::list(gateway, viewer),
            "events" => {
                let _turn = self.queries.acquire().await;
                return events(gateway, viewer, read(body)?).await;
            }
            "approvals" => decisions::waiting(gateway, viewer),
            "decide-call" => decisions::decide_call(gateway, viewer, body).await?,
            "decide-tool" => decisions::decide_tool(gateway, viewer, read(body)?).await?,
            "settings" => settings::effective(gateway, viewer).await?,
            _ => return Err(ToolError::not_found("There is no such topic.")),
        };
        Ok(answer.to_string())
    }
}

async fn events(
    gateway: &Gateway,
    viewer: &PageViewer,
    asked: PageEvents,
) -> Result<String, ToolError> {
    if !viewer.may_use("get_events") {
        return Err(forbidden("get_events"));
    }
    let filters: GetEvents = parsed(Value::Object(asked.filters))?;
    let mut query = filters.query(&viewer.0)?;
    query.limit = asked.most.unwrap_or(query.limit);
    let found = GetEvents::find(query, gateway, &viewer.0).await?;
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
fn not_operator(viewer: &PageViewer) -> ToolError {
    match viewer.0.has_roles() {
        true => forbidden("events:all"),
        false => ToolError::forbidden(
            "Without roles all tokens have the same rights, so that no token sees this; give roles to tokens.",
        ),
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ToolError> {
    let body: &RawValue = serde_json::from_slice(body).map_err(|_| not_json())?;
    serde_json::from_str(body.get()).map_err(|error| ToolError::invalid_argument(error.to_string()))
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, ToolError> {
    serde_json::from_value(value).map_err(|error| ToolError::invalid_argument(error.to_string()))
}

fn not_json() -> ToolError {
    ToolError::invalid_argument("The body must be JSON.")
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
