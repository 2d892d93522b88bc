//! Events of a conversation. They are read by kind and a few at a time, because some are huge: the
//! system prompt alone is 20 KB.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use upstream::http::Method;
use upstream::redact::{Redactor, redacted};
use upstream::text::one_line;

use crate::api::agent_server::{AgentServer, Page};
use crate::api::failure::ApiResult;
use crate::api::names::TaskId;

/// Kinds of events.
pub(crate) mod event_kind {
    /// The agent calls a tool.
    pub(crate) const ACTION: &str = "ActionEvent";
    pub(crate) const OBSERVATION: &str = "ObservationEvent";
    /// The error that ended a run.
    pub(crate) const RUN_ERROR: &str = "ConversationErrorEvent";
    /// The error of a tool, which goes to the model.
    pub(crate) const TOOL_ERROR: &str = "AgentErrorEvent";
    /// The agent was stopped at once.
    pub(crate) const INTERRUPT: &str = "InterruptEvent";
    /// The agent was stopped after a step.
    pub(crate) const PAUSED: &str = "PauseEvent";
    /// A message of the user or the agent.
    pub(crate) const MESSAGE: &str = "MessageEvent";
    /// A part of the state has changed.
    pub(crate) const STATE: &str = "ConversationStateUpdateEvent";
    /// The user has refused an action.
    pub(crate) const REJECTION: &str = "UserRejectObservation";
}

/// The order of events in a search.
const OLDEST_FIRST: (&str, &str) = ("sort_order", "TIMESTAMP");
const NEWEST_FIRST: (&str, &str) = ("sort_order", "TIMESTAMP_DESC");
/// Observations that are searched for the newest output of a command.
const OUTPUT_SEARCH_LIMIT: &str = "5";
/// Changes of the state that are searched for the start of a run: few come before it.
const START_SEARCH_LIMIT: &str = "30";
/// Actions in one response; one may hold a whole file.
const ACTIONS_PER_PAGE: &str = "20";

/// An event of any kind, with the fields that are used of some.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: String,
    /// Local time of the agent server. Times of one server can be compared as text.
    pub(crate) timestamp: String,
    /// One of [`event_kind`], or another one.
    pub(crate) kind: String,
    /// Such as `agent` or `user`.
    #[serde(default)]
    pub(crate) source: String,
    /// The tool of an action or observation.
    pub(crate) tool_name: Option<String>,
    tool_call_id: Option<String>,
    /// The action of which it is the result.
    action_id: Option<String>,
    /// The agent's message beside an action.
    #[serde(default)]
    pub(crate) thought: Vec<TextPart>,
    /// The arguments of an action; `None` if they were invalid.
    pub(crate) action: Option<Map<String, Value>>,
    pub(crate) observation: Option<Observation>,
    pub(crate) llm_message: Option<EventMessage>,
    /// The code of an error, such as `MaxIterationsReached`.
    pub(crate) code: Option<String>,
    /// The agent server's classification of an error, if it has one; its `kind` is such as `auth` or `transient`.
    #[serde(default)]
    classification: Value,
    /// The text of an error of a tool.
    error: Option<String>,
    /// The part of the state that has changed, and what it is now.
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: Value,
    /// The user's reason for refusing an action.
    pub(crate) rejection_reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Observation {
    pub(crate) kind: String,
    pub(crate) exit_code: Option<i64>,
    /// The action has failed.
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(default)]
    pub(crate) content: Vec<TextPart>,
}

/// A message from the user or the agent.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct EventMessage {
    #[serde(default)]
    pub(crate) content: Vec<TextPart>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TextPart {
    /// Empty if the part is an image.
    #[serde(default)]
    pub(crate) text: String,
}

impl AgentServer {
    /// Counts the messages of one `source`: `agent` or `user`.
    pub(crate) async fn count_messages(&self, id: TaskId, source: &str) -> ApiResult<u64> {
        self.count(id, event_kind::MESSAGE, ("source", source))
            .await
    }

    pub(crate) async fn count_actions(&self, id: TaskId) -> ApiResult<u64> {
        self.count(id, event_kind::ACTION, ("source", "agent"))
            .await
    }

    /// Counts the actions before `action`.
    pub(crate) async fn count_before(&self, id: TaskId, action: &Event) -> ApiResult<u64> {
        let before = ("timestamp__lt", action.timestamp.as_str());
        self.count(id, event_kind::ACTION, before).await
    }

    async fn count(&self, id: TaskId, kind: &str, more: (&str, &str)) -> ApiResult<u64> {
        let kind = self.known_version().await?.kind_filter(kind);
        let request = self.task_request(Method::GET, id, &["events", "count"]);
        self.send(request.query(&[("kind", &*kind), more])).await
    }

    /// The newest event of `kind`.
    pub(crate) async fn last_event(&self, id: TaskId, kind: &str) -> ApiResult<Option<Event>> {
        let newest = [NEWEST_FIRST, ("limit", "1")];
        Ok(self.events(id, kind, &newest, None).await?.items.pop())
    }

    /// The first page of the actions after `last`, oldest first.
    pub(crate) async fn actions_after(
        &self,
        id: TaskId,
        last: Option<&Event>,
    ) -> ApiResult<Vec<Event>> {
        let since = last.map(|last| last.timestamp.as_str());
        let actions = self.events_since(id, event_kind::ACTION, since, ACTIONS_PER_PAGE);
        let mut actions = actions.await?;
        // The actions of exactly that time are included.
        let known = |action: &Event| last.is_some_and(|last| last.id == action.id);
        if let Some(known) = actions.iter().position(known) {
            actions.drain(..=known);
        }
        Ok(actions)
    }

    /// The time of the newest event of `kind`.
    pub(crate) async fn last_time(&self, id: TaskId, kind: &str) -> ApiResult<Option<String>> {
        let event = self.last_event(id, kind).await?;
        Ok(event.map(|event| event.timestamp))
    }

    /// Returns true if a run has begun after `time`, which [`Self::last_time`] gave.
    pub(crate) async fn has_begun_since(&self, id: TaskId, time: Option<&str>) -> ApiResult<bool> {
        let changes = self.events_since(id, event_kind::STATE, time, START_SEARCH_LIMIT);
        let is_start =
            |change: &Event| change.key == "execution_status" && change.value == "running";
        let is_later = |change: &&Event| time.is_none_or(|time| *change.timestamp > *time);
        Ok(changes.await?.iter().filter(is_later).any(is_start))
    }

    /// The time of the newest message or action. Unlike `updated_at` it does not change with tags.
    pub(crate) async fn last_work(&self, id: TaskId) -> ApiResult<Option<String>> {
        let (action, message) = tokio::try_join!(
            self.last_time(id, event_kind::ACTION),
            self.last_time(id, event_kind::MESSAGE),
        )?;
        Ok(action.max(message))
    }

    /// The time of the last restart of the agent server that interrupted a step.
    pub(crate) async fn last_restart(&self, id: TaskId) -> ApiResult<Option<String>> {
        let event = self.last_event(id, event_kind::TOOL_ERROR).await?;
        // Other errors of tools go to the model, and the run continues.
        let is_restart = |error: &String| error.starts_with("A restart occurred");
        let event = event.filter(|event| event.error.as_ref().is_some_and(is_restart));
        Ok(event.map(|event| event.timestamp))
    }

    /// The output of the newest command, and its exit code: `None` while it runs, or if the terminal did not tell.
    pub(crate) async fn last_command(&self, id: TaskId) -> ApiResult<(String, Option<i64>)> {
        let newest = [NEWEST_FIRST, ("limit", OUTPUT_SEARCH_LIMIT)];
        let events = self.events(id, event_kind::OBSERVATION, &newest, None);
        let events = events.await?.items.into_iter();
        let mut observations = events.filter_map(|event| event.observation);
        let newest = observations.find(|observation| observation.kind == "TerminalObservation");
        let Some(observation) = newest else {
            return Ok(Default::default());
        };
        let exit_code = observation.exit_code.filter(|code| *code >= 0);
        Ok((text_of(&observation.content), exit_code))
    }

    /// At most `limit` (100) events of `kind`, oldest first, starting at the time `since`. Includes
    /// the events of exactly that time.
    pub(crate) async fn events_since(
        &self,
        id: TaskId,
        kind: &str,
        since: Option<&str>,
        limit: &str,
    ) -> ApiResult<Vec<Event>> {
        let mut query = vec![OLDEST_FIRST, ("limit", limit)];
        query.extend(since.map(|since| ("timestamp__gte", since)));
        Ok(self.events(id, kind, &query, None).await?.items)
    }

    /// A page of the events of `kind`; `page` is the cursor of a later one.
    async fn events(
        &self,
        id: TaskId,
        kind: &str,
        query: &[(&str, &str)],
        page: Option<&str>,
    ) -> ApiResult<Page<Event>> {
        let kind = self.known_version().await?.kind_filter(kind);
        let mut query = query.to_vec();
        query.push(("kind", &kind));
        query.extend(page.map(|page| ("page_id", page)));
        let request = self.task_request(Method::GET, id, &["events", "search"]);
        self.send(request.query(&query)).await
    }
}

/// Results in one response.
const RESULTS_PER_PAGE: &str = "100";
/// The kind of an action that calls a tool of an MCP server.
const MCP_ACTION: &str = "MCPToolAction";

/// An action without a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PendingAction {
    /// The id of its event.
    #[serde(skip)]
    pub(crate) id: String,
    /// The tool that it calls.
    pub(crate) tool: String,
    /// All arguments of the call.
    pub(crate) arguments: Map<String, Value>,
}

impl Event {
    /// The call that waits; `None` if its arguments were invalid: such an action is never taken.
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
            tool: self.tool_name.unwrap_or_default(),
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
            let query = [NEWEST_FIRST, ("limit", ACTIONS_PER_PAGE)];
            let actions = self.events(id, event_kind::ACTION, &query, page.as_deref());
            let actions = actions.await?;
            let Some(oldest) = actions.items.last() else {
                break;
            };
            let results = self.results_since(id, &oldest.timestamp).await?;
            let known = pending.len();
            let open = actions.items.into_iter();
            let has_result = |action: &Event| {
                let ids = [Some(&action.id), action.tool_call_id.as_ref()];
                ids.into_iter().flatten().any(|id| results.contains(id))
            };
            let open = open.filter(|action| !has_result(action));
            pending.extend(open.filter_map(Event::pending));
            page = actions.next_page_id;
            // An agent calls no tool before its earlier calls have their results.
            if page.is_none() || pending.len() == known {
                break;
            }
        }
        pending.reverse();
        Ok(pending)
    }

    /// The ids of actions and calls that have a result.
    async fn results_since(&self, id: TaskId, time: &str) -> ApiResult<HashSet<String>> {
        let mut results = HashSet::new();
        for kind in [
            event_kind::OBSERVATION,
            event_kind::REJECTION,
            event_kind::TOOL_ERROR,
        ] {
            let mut page = None;
            loop {
                let query = [
                    OLDEST_FIRST,
                    ("limit", RESULTS_PER_PAGE),
                    ("timestamp__gte", time),
                ];
                let found = self.events(id, kind, &query, page.as_deref()).await?;
                for result in found.items {
                    results.extend(result.action_id);
                    // An error names only the call.
                    if kind == event_kind::TOOL_ERROR {
                        results.extend(result.tool_call_id);
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

const RESUME_AFTER_RESTART: &str =
    "Read get_task_result for what was done, then call resume_task to continue.";

/// The event that ended a run.
#[derive(Debug)]
pub(crate) enum RunEnd {
    Error(Box<Event>),
    /// A restart of the agent server in the middle of a step.
    Restart,
    /// An interrupt by a client.
    Interrupt,
}

/// Explains why a run ended early, and what to do about it. `max_iterations` is the limit of its steps.
pub(crate) fn explain_run_end(
    end: Option<&RunEnd>,
    max_iterations: Option<u64>,
) -> (String, &'static str) {
    let restarted = match end {
        Some(RunEnd::Error(error)) => return explain_error(error, max_iterations),
        Some(RunEnd::Restart) => {
            "The agent server restarted while the task was running; the current step was lost."
        }
        // A restart between two steps leaves no event.
        _ => "The run ended without a reason, most likely because the agent server restarted.",
    };
    (restarted.to_owned(), RESUME_AFTER_RESTART)
}

/// The agent server's detail of an error quotes the model provider, so only the code and the class of
/// the error are used.
fn explain_error(error: &Event, max_iterations: Option<u64>) -> (String, &'static str) {
    let code = one_line(error.code.as_deref().unwrap_or_default(), 60);
    let class = error.classification["kind"].as_str();
    let (reason, next) = match (code.as_str(), class.unwrap_or_default()) {
        ("MaxIterationsReached", _) => {
            let limit = max_iterations.map_or(String::new(), |max| format!(" of {max} steps"));
            return (
                format!("The agent reached its limit{limit} before it was done ({code})."),
                "Read get_task_result; resume_task with a higher max_iterations gives it more.",
            );
        }
        ("MaxBudgetReached", _) => (
            "The task used up its budget before it was done",
            "Raise the budget in OpenHands, or run a smaller task.",
        ),
        // Agent servers before 1.46 send no class.
        (_, "auth") | ("LLMAuthenticationError", _) => (
            "The model provider refuses the agent's credentials",
            "The operator has to correct the model's key in the OpenHands settings.",
        ),
        (_, "quota") => (
            "The account at the model provider is used up",
            "The operator has to raise the quota or choose another model in OpenHands.",
        ),
        (_, "rate_limit") | ("LLMRateLimitError", _) => (
            "The model provider limits the rate of requests",
            "Call resume_task in a few minutes.",
        ),
        (_, "config") | ("LLMBadRequestError", "") => (
            "The agent's model or tools are not set up correctly",
            "The operator has to correct the OpenHands settings or the agent profile.",
        ),
        (_, "transient") | ("LLMTimeoutError" | "LLMServiceUnavailableError", _) => (
            "The model did not answer, or answered with an error",
            "Call resume_task; if it fails again, check the model in the OpenHands settings.",
        ),
        _ => (
            "The run failed",
            "Call resume_task, or run it again; the agent server's log says more.",
        ),
    };
    (format!("{reason} ({code})."), next)
}

/// Characters of an action in a status or a progress message.
const MAX_ACTION_CHARS: usize = 160;
/// Characters of any other event.
const MAX_LINE_CHARS: usize = 240;

fn text_of(content: &[TextPart]) -> String {
    content.iter().map(|part| part.text.as_str()).collect()
}

/// The summary of an event, in one line.
pub(crate) fn summary(event: &Event) -> String {
    let line = match event.kind.as_str() {
        event_kind::ACTION => return action_summary(event),
        event_kind::OBSERVATION => match &event.observation {
            Some(observation) => {
                let printed = text_of(&observation.content);
                match (observation.exit_code, observation.is_error) {
                    (Some(code), _) if code != 0 => format!("exit {code}: {printed}"),
                    (_, true) => format!("error: {printed}"),
                    _ => printed,
                }
            }
            None => String::new(),
        },
        event_kind::MESSAGE => match &event.llm_message {
            Some(message) => format!("{}: {}", event.source, text_of(&message.content)),
            None => event.source.clone(),
        },
        // The agent server's detail of an error quotes the model provider.
        event_kind::RUN_ERROR => event.code.clone().unwrap_or_default(),
        event_kind::REJECTION => event.rejection_reason.clone().unwrap_or_default(),
        event_kind::TOOL_ERROR => event.tool_name.clone().unwrap_or_default(),
        _ => String::new(),
    };
    one_line(&redacted(&line), MAX_LINE_CHARS)
}

/// The summary of an action: the tool with its main argument. The model's own description may say anything.
fn action_summary(event: &Event) -> String {
    let tool = event.tool_name.as_deref().unwrap_or("tool");
    // Calls of MCP servers are shown as they are, whatever the model says about them.
    if let Some(action) = &event.action
        && action.get("kind").and_then(Value::as_str) == Some(MCP_ACTION)
    {
        let mut arguments = action.get("data").cloned().unwrap_or_default();
        Redactor::new(true).json(&mut arguments);
        return one_line(&redacted(&format!("{tool} {arguments}")), MAX_LINE_CHARS);
    }
    let argument = |name: &str| event.action.as_ref()?.get(name).and_then(Value::as_str);
    // Only the file name: the full path would reveal directories of the agent server.
    let file = argument("path").and_then(|path| path.rsplit('/').next());
    let parts = [Some(tool), argument("command"), file];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    one_line(&redacted(&text), MAX_ACTION_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, more: Value) -> Event {
        let mut event = json!({"id": "a", "kind": kind, "timestamp": "t"});
        let more = more.as_object().unwrap().clone();
        event.as_object_mut().unwrap().extend(more);
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn arguments_are_those_of_the_call() {
        for (action, expected) in [
            (
                json!({"kind": "TerminalAction", "command": "a\nb", "timeout": null}),
                json!({"command": "a\nb"}),
            ),
            (
                json!({"kind": "MCPToolAction", "data": {"kind": "x", "n": 1}}),
                json!({"kind": "x", "n": 1}),
            ),
            (Value::Null, Value::Null),
        ] {
            let event = event(
                "ActionEvent",
                json!({"summary": "a claim", "action": action}),
            );
            let arguments = event.pending().map(|pending| pending.arguments);
            assert_eq!(json!(arguments), expected);
        }
    }

    #[test]
    fn errors_have_distinct_explanations() {
        for (code, class, part) in [
            (
                "MaxIterationsReached",
                "agent_action",
                "its limit of 500 steps before it was done (MaxIterationsReached).",
            ),
            ("LLMServiceUnavailableError", "transient", "model did not"),
            ("LLMAuthenticationError", "", "credentials"),
            ("LLMBadRequestError", "config", "set up"),
            ("KeyError", "internal", "failed (KeyError)"),
        ] {
            let more = json!({"code": code, "classification": {"kind": class}});
            let error = RunEnd::Error(Box::new(event("ConversationErrorEvent", more)));
            let reason = explain_run_end(Some(&error), Some(500)).0;
            assert!(reason.contains(part), "{reason}");
        }
        let restart = explain_run_end(Some(&RunEnd::Restart), None).0;
        assert!(restart.contains("restarted while"));
        assert!(explain_run_end(None, None).0.contains("without a reason"));
    }

    #[test]
    fn action_is_one_line() {
        for (more, line) in [
            // Not what the model says about its action.
            (
                json!({"tool_name": "terminal", "summary": "List the files",
                    "action": {"command": "ls -l \\\n  src"}}),
                "terminal ls -l \\ src",
            ),
            (
                json!({"tool_name": "n8n_run_workflow",
                    "action": {"kind": "MCPToolAction", "data": {"id": 7, "password": "hunter2"}}}),
                "n8n_run_workflow {\"id\":7,\"password\":\"***\"}",
            ),
        ] {
            assert_eq!(summary(&event("ActionEvent", more)), line);
        }
    }
}
