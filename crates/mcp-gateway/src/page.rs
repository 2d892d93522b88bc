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
use mcp_core::tool::{ToolError, ToolErrorKind};
use mcp_serve::{PageCaller, PageData};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

use crate::gateway::Gateway;
use crate::tools::GetEvents;

pub(crate) struct GatewayPage(pub(crate) Arc<Gateway>);

/// A person who has signed in, with the role.
struct PageViewer<'a> {
    viewer: Viewer,
    caller: &'a PageCaller,
}

impl PageViewer<'_> {
    /// True if it may use this tool of the gateway itself.
    fn may_use(&self, tool: &str) -> bool {
        self.viewer.allows_missing(tool)
    }

    /// True if it sees the events of all callers, and with them what operators see.
    fn sees_all(&self) -> bool {
        self.may_use("get_events") && self.viewer.has(Right::AllEvents)
    }

    /// True if it decides about calls and tools. Without roles all tokens have the same rights, also those of agents:
    /// then only the person who has started the gateway does.
    fn may_decide(&self) -> bool {
        match self.viewer.has_roles() {
            true => self.viewer.has(Right::Approve),
            false => self.caller.is_operator,
        }
    }

    /// The name for records.
    fn name(&self) -> String {
        let principal = self.viewer.principal.as_ref();
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
    fn revision(&self) -> (u64, u64) {
        let health = self.0.log().health();
        let events = health.written + health.dropped + health.waiting as u64;
        (events, self.0.catalog_number())
    }

    fn answer<'a>(
        &'a self,
        topic: &'a str,
        caller: &'a PageCaller,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            let viewer = Viewer::from_principal(self.0.admission(), caller.principal.clone());
            let viewer = PageViewer { viewer, caller };
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
        viewer: &PageViewer<'_>,
        body: &[u8],
    ) -> Result<String, ToolError> {
        let gateway = &*self.0;
        let answer = match topic {
            "state" => backends::state(gateway, viewer)?,
            "tools" => tools::list(gateway, viewer),
            "events" => return events(gateway, viewer, read(body)?).await,
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
    viewer: &PageViewer<'_>,
    asked: PageEvents,
) -> Result<String, ToolError> {
    if !viewer.may_use("get_events") {
        return Err(forbidden("get_events"));
    }
    let filters: GetEvents = parsed(Value::Object(asked.filters))?;
    let mut query = filters.query(&viewer.viewer)?;
    query.limit = asked.most.unwrap_or(query.limit);
    GetEvents::find(query, gateway, &viewer.viewer).await
}

/// The refusal of what a role does not allow.
fn forbidden(right: &str) -> ToolError {
    ToolError::forbidden(format!("Your role does not have `{right}`."))
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
