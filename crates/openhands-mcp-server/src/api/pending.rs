//! The actions of a conversation that have no result yet. The next run takes all of them, also a run that another client
//! starts: that is how OpenHands takes an approval.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::agent_server::{AgentServer, Page};
use crate::api::events::event_kind;
use crate::api::failure::ApiResult;
use crate::api::task_id::TaskId;

/// Actions in one response; one may hold a whole file.
const ACTIONS_PER_PAGE: &str = "20";
/// Results in one response.
const RESULTS_PER_PAGE: &str = "100";
/// The kind of an action that calls a tool of an MCP server.
const MCP_ACTION: &str = "MCPToolAction";

/// An action without a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PendingAction {
    /// The id of its event.
    pub(crate) id: String,
    /// The tool that it calls.
    pub(crate) tool: String,
    /// All arguments of the call.
    pub(crate) arguments: Map<String, Value>,
}

#[derive(Deserialize)]
struct ActionEvent {
    id: String,
    timestamp: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    tool_call_id: String,
    /// `None` if the arguments were invalid; such an action is never taken.
    action: Option<Map<String, Value>>,
}

/// The result of an action: its output, a refusal, or an error.
#[derive(Deserialize)]
struct ResultEvent {
    action_id: Option<String>,
    tool_call_id: Option<String>,
}

/// The actions that have a result.
#[derive(Default)]
struct Results {
    actions: HashSet<String>,
    /// Errors name only the call.
    failed_calls: HashSet<String>,
}

impl Results {
    fn include(&self, action: &ActionEvent) -> bool {
        self.actions.contains(&action.id) || self.failed_calls.contains(&action.tool_call_id)
    }
}

impl ActionEvent {
    fn pending(self) -> Option<PendingAction> {
        let mut action = self.action?;
        let kind = action.remove("kind");
        if kind.as_ref().and_then(Value::as_str) == Some(MCP_ACTION)
            && let Some(Value::Object(data)) = action.remove("data")
        {
            action = data;
        }
        action.retain(|_, value| !value.is_null());
        Some(PendingAction {
            id: self.id,
            tool: self.tool_name,
            arguments: action,
        })
    }
}

impl AgentServer {
    /// The actions without a result, oldest first.
    pub(crate) async fn pending_actions(&self, id: TaskId) -> ApiResult<Vec<PendingAction>> {
        let mut pending = Vec::new();
        let mut page = None;
        loop {
            let query = vec![
                ("sort_order", "TIMESTAMP_DESC"),
                ("limit", ACTIONS_PER_PAGE),
            ];
            let actions: Page<ActionEvent> = self
                .event_page(id, event_kind::ACTION, query, page.as_deref())
                .await?;
            let Some(oldest) = actions.items.last() else {
                break;
            };
            let results = self.results_since(id, &oldest.timestamp).await?;
            let known = pending.len();
            let open = actions.items.into_iter();
            let open = open.filter(|action| !results.include(action));
            pending.extend(open.filter_map(ActionEvent::pending));
            page = actions.next_page_id;
            // An agent calls no tool before its earlier calls have their results.
            if page.is_none() || pending.len() == known {
                break;
            }
        }
        pending.reverse();
        Ok(pending)
    }

    async fn results_since(&self, id: TaskId, time: &str) -> ApiResult<Results> {
        let mut results = Results::default();
        for kind in [
            event_kind::OBSERVATION,
            event_kind::REJECTION,
            event_kind::TOOL_ERROR,
        ] {
            let mut page = None;
            loop {
                let query = vec![
                    ("sort_order", "TIMESTAMP"),
                    ("limit", RESULTS_PER_PAGE),
                    ("timestamp__gte", time),
                ];
                let found: Page<ResultEvent> =
                    self.event_page(id, kind, query, page.as_deref()).await?;
                for result in found.items {
                    results.actions.extend(result.action_id);
                    if kind == event_kind::TOOL_ERROR {
                        results.failed_calls.extend(result.tool_call_id);
                    }
                }
                page = found.next_page_id;
                if page.is_none() {
                    break;
                }
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn action(action: Value) -> Option<PendingAction> {
        let event = json!({"id": "a", "timestamp": "t", "tool_name": "x", "tool_call_id": "c",
            "summary": "a claim", "action": action});
        let event: ActionEvent = serde_json::from_value(event).unwrap();
        event.pending()
    }

    #[test]
    fn arguments_are_those_of_the_call() {
        let terminal = json!({"kind": "TerminalAction", "command": "a\nb", "timeout": null});
        let arguments = action(terminal).unwrap().arguments;
        assert_eq!(json!(arguments), json!({"command": "a\nb"}));
        let of_server = json!({"kind": "MCPToolAction", "data": {"kind": "x", "n": 1}});
        let arguments = action(of_server).unwrap().arguments;
        assert_eq!(json!(arguments), json!({"kind": "x", "n": 1}));
        assert_eq!(action(Value::Null), None);
    }
}
