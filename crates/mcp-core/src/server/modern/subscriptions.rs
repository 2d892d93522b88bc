//! `subscriptions/listen`: a request whose response is a stream of notifications (2026-07-28,
//! "Subscriptions").

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::answer::Answer;
use crate::server::connection::MAX_SUBSCRIPTIONS;
use crate::server::context::RequestContext;
use crate::server::params::{MAX_TASK_ID, MAX_URI, check_length, object, wrong};
use crate::server::{ChangeNotifier, Server, ServerChange};

/// The notifications of a subscription.
#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    resources_list_changed: bool,
    #[serde(skip_serializing_if = "HashSet::is_empty")]
    resource_subscriptions: HashSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    task_ids: BTreeSet<String>,
}

impl Filter {
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
    /// Acknowledges, sends notifications, and answers when the server stops. The call is cancelled
    /// when the client disconnects.
    pub(in crate::server) async fn listen(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(deserialize_with = "object")]
            notifications: Filter,
        }
        let Params {
            notifications: filter,
        } = context.parse("notifications")?;
        if filter.resource_subscriptions.len() > MAX_SUBSCRIPTIONS {
            let reason = format!("has more than {MAX_SUBSCRIPTIONS} resources");
            return Err(wrong("notifications.resourceSubscriptions", &reason));
        }
        for uri in &filter.resource_subscriptions {
            check_length("notifications.resourceSubscriptions", uri, MAX_URI)?;
        }
        for id in &filter.task_ids {
            check_length("notifications.taskIds", id, MAX_TASK_ID)?;
        }
        let uris = filter.resource_subscriptions.iter().map(String::as_str);
        self.check_resources(uris, context).await?;
        let (call, caller) = (&context.call, context.caller());
        // Subscribed before the acknowledgement, so that nothing is missed after it.
        let mut tasks = self.subscribe_to_tasks(&filter.task_ids, context).await?;
        let mut receiver = self.receive_changes(caller);
        let uris = || filter.resource_subscriptions.iter();
        let subscribe = |changes: &ChangeNotifier| -> Vec<_> {
            uris().map(|uri| changes.subscribe(uri)).collect()
        };
        let _subscriptions = self.features.changes.as_ref().map(subscribe);
        let id = context.request.id.as_json();
        let send =
            |method: &str, params: Value| caller.send(tagged(method, &params.to_string(), id));
        let supported = Filter {
            task_ids: tasks.ids.iter().cloned().collect(),
            ..self.supported(&filter)
        };
        let acknowledged = json!({"notifications": supported});
        if !send("notifications/subscriptions/acknowledged", acknowledged) {
            return Err(Error::InvalidRequest {
                detail: "subscriptions/listen needs Accept: text/event-stream".to_owned(),
                field: None,
            });
        }
        loop {
            let changes = tokio::select! {
                () = call.cancelled() => break,
                () = self.closing.cancelled() => break,
                task = tasks.next() => {
                    caller.send(tagged("notifications/tasks", &task, id));
                    continue;
                }
                changes = receiver.next(|| uris().cloned().collect()) => changes,
            };
            // A resource may have been allowed when the client subscribed.
            let is_allowed = |change: &ServerChange| match change {
                ServerChange::Resource(uri) => self.catalog_of(caller).allows_uri(uri),
                _ => true,
            };
            for change in changes
                .iter()
                .filter(|change| filter.wants(change) && is_allowed(change))
            {
                send(change.method(), change.params());
            }
        }
        let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        let json = Json::from(format!(r#"{{"resultType":"complete","_meta":{meta}}}"#));
        Ok(Answer::Whole(json))
    }

    /// The part of the filter, without tasks, that the server supports.
    fn supported(&self, filter: &Filter) -> Filter {
        if self.features.changes.is_none() {
            return Filter::default();
        }
        let has_resources = self.has_resources();
        let uris = filter.resource_subscriptions.iter();
        Filter {
            tools_list_changed: filter.tools_list_changed,
            prompts_list_changed: filter.prompts_list_changed && self.has_prompts(),
            resources_list_changed: filter.resources_list_changed && has_resources,
            resource_subscriptions: uris.filter(|_| has_resources).cloned().collect(),
            task_ids: BTreeSet::new(),
        }
    }
}

/// A notification with the id of its subscription in its parameters, which are an object as JSON.
fn tagged(method: &str, params: &str, id: &str) -> String {
    let members = params.strip_prefix('{').unwrap_or("}");
    let comma = if members == "}" { "" } else { "," };
    format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{comma}{members}}}"#
    )
}
