//! `subscriptions/listen`: a request that stays open and tells of changes (2026-07-28,
//! "Subscriptions").

use std::collections::{BTreeSet, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;

use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::context::Context;
use crate::server::outcome::{MethodResult, Outcome, ResultKind};
use crate::server::params::wrong;
use crate::server::{ChangeNotifier, Server, ServerChange};

/// What the client wants to hear.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: HashSet<String>,
    task_ids: BTreeSet<String>,
}

impl Filter {
    fn read(params: Option<&RawValue>) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Params {
            notifications: Filter,
        }
        let params: Result<Params, _> = serde_json::from_str(params.map_or("{}", RawValue::get));
        params
            .map(|params| params.notifications)
            .map_err(|error| wrong("notifications", &error.to_string()))
    }

    fn wants(&self, change: &ServerChange) -> bool {
        match change {
            ServerChange::Tools => self.tools_list_changed,
            ServerChange::Prompts => self.prompts_list_changed,
            ServerChange::Resources => self.resources_list_changed,
            ServerChange::Resource(uri) => self.resource_subscriptions.contains(uri),
        }
    }
}

impl Server {
    /// Acknowledges, tells of changes, and answers when the server stops. A client that leaves ends
    /// the wait through its call.
    pub(in crate::server) async fn listen(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let Context { call, caller, .. } = context;
        let filter = Filter::read(context.raw)?;
        // Subscribed before the acknowledgement, so that nothing is missed after it.
        let mut tasks = self.listen_to_tasks(&filter.task_ids, context)?;
        let mut changes = self
            .features
            .changes
            .as_ref()
            .map(|changes| changes.listen());
        let interest = |changes: &ChangeNotifier| -> Vec<_> {
            let wanted = filter.resource_subscriptions.iter();
            wanted.map(|uri| changes.interest(uri)).collect()
        };
        let _interests = self.features.changes.as_ref().map(interest);
        let id = context.id.as_json();
        let send = |method: &str, params: Value| {
            let params = params.to_string();
            caller.send(tagged(method, members(&params), id))
        };
        let mut honoured = self.honoured(&filter);
        if !tasks.ids.is_empty() {
            honoured.insert("taskIds".to_owned(), json!(tasks.ids));
        }
        let acknowledged = json!({"notifications": honoured});
        if !send("notifications/subscriptions/acknowledged", acknowledged) {
            let detail = "subscriptions/listen needs Accept: text/event-stream".to_owned();
            return Err(Error::InvalidRequest {
                detail,
                field: None,
            });
        }
        loop {
            let change = async {
                match &mut changes {
                    Some(changes) => changes.recv().await,
                    None => std::future::pending().await,
                }
            };
            let change = tokio::select! {
                () = call.cancelled() => break,
                () = self.closing.cancelled() => break,
                task = tasks.next() => {
                    caller.send(tagged("notifications/tasks", &task, id));
                    continue;
                }
                change = change => change,
            };
            match change {
                Ok(change) if filter.wants(&change) => _ = send(change.method(), change.params()),
                Ok(_) => {}
                // Which changes were missed is not known, so a client must take all as changed.
                Err(RecvError::Lagged(_)) => {
                    let resources = filter.resource_subscriptions.iter();
                    let resources = resources.cloned().map(ServerChange::Resource);
                    let all = ServerChange::LISTS.into_iter().chain(resources);
                    for change in all.filter(|change| filter.wants(change)) {
                        send(change.method(), change.params());
                    }
                }
                Err(RecvError::Closed) => changes = None,
            }
        }
        let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let json = Json::Owned(format!(r#"{{"resultType":"complete","_meta":{meta}}}"#));
        Ok(Outcome::Done(MethodResult {
            kind: ResultKind::Whole,
            ..json.into()
        }))
    }

    /// The part of the filter that can ever be served.
    fn honoured(&self, filter: &Filter) -> Map<String, Value> {
        let mut honoured = Map::new();
        if self.features.changes.is_none() {
            return honoured;
        }
        let has_resources = self.has_resources();
        let kinds = [
            ("toolsListChanged", filter.tools_list_changed),
            (
                "promptsListChanged",
                filter.prompts_list_changed && self.has_prompts(),
            ),
            (
                "resourcesListChanged",
                filter.resources_list_changed && has_resources,
            ),
        ];
        honoured.extend(
            kinds
                .into_iter()
                .filter(|(_, wanted)| *wanted)
                .map(|(kind, _)| (kind.to_owned(), json!(true))),
        );
        if has_resources && !filter.resource_subscriptions.is_empty() {
            honoured.insert(
                "resourceSubscriptions".to_owned(),
                json!(filter.resource_subscriptions),
            );
        }
        honoured
    }
}

/// A notification that says to which subscription it belongs. `members` are those of its parameters
/// and `id` is its subscription's, both JSON text.
fn tagged(method: &str, members: &str, id: &str) -> String {
    let comma = if members.is_empty() { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{comma}{members}}}}}"#
    )
}

/// What stands between the braces of an object.
fn members(object: &str) -> &str {
    let inner = object
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    inner.unwrap_or_default()
}
