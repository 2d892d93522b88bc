//! Notifications of changes, and the resources that clients have subscribed to.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::catalog::ListHashes;
use super::{Caller, Server};

/// Changes that a slow subscriber may lag behind before it misses some.
const MAX_QUEUED_CHANGES: usize = 256;

/// A change of data that clients may have cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// The list of tools (`notifications/tools/list_changed`).
    Tools,
    /// The list of prompts (`notifications/prompts/list_changed`).
    Prompts,
    /// The list of resources (`notifications/resources/list_changed`).
    Resources,
    /// The content of the resource with this URI (`notifications/resources/updated`).
    Resource(String),
}

impl ServerChange {
    pub(super) const LISTS: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }

    pub(super) fn params(&self) -> Value {
        match self {
            Self::Resource(uri) => json!({"uri": uri}),
            _ => json!({}),
        }
    }
}

/// A change that is announced.
#[derive(Clone, Debug)]
enum Announced {
    /// Each subscriber gets it.
    Change(ServerChange),
    /// The server has published items; a subscriber gets the changes of the lists that it sees.
    Published,
}

/// The URIs of the resources that clients have subscribed to, with the number of subscriptions.
pub type SubscribedUris = BTreeMap<String, usize>;

/// Announces changes to all subscribed clients.
///
/// ```
/// use mcp_core::server::{ChangeNotifier, ServerChange, ServerFeatures};
///
/// let changes = ChangeNotifier::new();
/// let features = ServerFeatures {
///     changes: Some(changes.clone()),
///     ..ServerFeatures::default()
/// };
/// // Later, in the service:
/// changes.announce(ServerChange::Tools);
/// if changes.subscribed_uris().borrow().contains_key("jobs://7/log") {
///     changes.announce(ServerChange::Resource("jobs://7/log".to_owned()));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ChangeNotifier {
    sender: broadcast::Sender<Announced>,
    subscribed: watch::Sender<SubscribedUris>,
    has_lists: watch::Sender<bool>,
}

impl ChangeNotifier {
    /// A notifier without subscribers.
    pub fn new() -> Self {
        Self {
            sender: broadcast::channel(MAX_QUEUED_CHANGES).0,
            subscribed: watch::Sender::default(),
            has_lists: watch::Sender::new(false),
        }
    }

    /// Notes that the service has published its first lists, or cannot at the moment.
    pub fn lists_published(&self) {
        self.has_lists.send_replace(true);
    }

    /// Waits for [`lists_published`](Self::lists_published). A service is not ready before: a client that got
    /// a part of a list would be notified of a change right after its start.
    pub async fn wait_for_lists(&self) {
        // The sender lives as long as `self`.
        let _ = self
            .has_lists
            .subscribe()
            .wait_for(|has_lists| *has_lists)
            .await;
    }

    /// Sends the change to all subscribers.
    pub fn announce(&self, change: ServerChange) {
        // Fails without subscribers.
        let _ = self.sender.send(Announced::Change(change));
    }

    /// Lets each subscriber look for changes of its lists.
    pub(super) fn published(&self) {
        let _ = self.sender.send(Announced::Published);
    }

    /// The subscribed resources, now and after each change of the subscriptions. A service need not
    /// watch any other resource.
    pub fn subscribed_uris(&self) -> watch::Receiver<SubscribedUris> {
        self.subscribed.subscribe()
    }

    /// Counts a subscription of `uri`, until it is dropped.
    pub fn subscribe(&self, uri: &str) -> Subscription {
        self.subscribed
            .send_modify(|all| *all.entry(uri.to_owned()).or_default() += 1);
        Subscription {
            uri: uri.to_owned(),
            subscribed: self.subscribed.clone(),
        }
    }
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        Self::new()
    }
}

/// One client's subscription of one resource.
#[derive(Debug)]
pub struct Subscription {
    uri: String,
    subscribed: watch::Sender<SubscribedUris>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscribed.send_modify(|all| {
            if let Some(count) = all.get_mut(&self.uri) {
                *count -= 1;
                if *count == 0 {
                    all.remove(&self.uri);
                }
            }
        });
    }
}

/// Receives the changes of what a caller sees.
pub(super) struct ChangeReceiver<'a> {
    server: &'a Server,
    caller: &'a Caller,
    /// `None` if the server announces none.
    receiver: Option<broadcast::Receiver<Announced>>,
    /// The lists of the caller when it has got the last change.
    seen: ListHashes,
}

impl ChangeReceiver<'_> {
    /// Waits for the next change. A receiver that has lagged behind does not know which changes it
    /// missed: it gets the changes of all lists and of all `resources`.
    pub(super) async fn next(&mut self, resources: impl Fn() -> Vec<String>) -> Vec<ServerChange> {
        let received = match &mut self.receiver {
            Some(receiver) => receiver.recv().await,
            None => std::future::pending().await,
        };
        let seen = self.seen;
        if !matches!(received, Ok(Announced::Change(_))) {
            self.seen = self.server.catalog_of(self.caller).hashes();
        }
        match received {
            Ok(Announced::Change(change)) => vec![change],
            Ok(Announced::Published) => {
                let lists = ServerChange::LISTS
                    .into_iter()
                    .zip(seen.iter().zip(&self.seen));
                let changed = lists.filter(|(_, (before, now))| before != now);
                changed.map(|(list, _)| list).collect()
            }
            Err(RecvError::Lagged(_)) => {
                let resources = resources().into_iter().map(ServerChange::Resource);
                ServerChange::LISTS.into_iter().chain(resources).collect()
            }
            Err(RecvError::Closed) => {
                self.receiver = None;
                Vec::new()
            }
        }
    }
}

impl Server {
    pub(super) fn receive_changes<'a>(&'a self, caller: &'a Caller) -> ChangeReceiver<'a> {
        let changes = self.features.changes.as_ref();
        let receiver = changes.map(|changes| changes.sender.subscribe());
        ChangeReceiver {
            server: self,
            caller,
            seen: match receiver {
                Some(_) => self.catalog_of(caller).hashes(),
                None => ListHashes::default(),
            },
            receiver,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_counted() {
        let changes = ChangeNotifier::new();
        let subscribed = changes.subscribed_uris();
        let (first, second) = (changes.subscribe("a"), changes.subscribe("a"));
        assert_eq!(subscribed.borrow().get("a"), Some(&2));
        drop(first);
        assert_eq!(subscribed.borrow().get("a"), Some(&1));
        drop(second);
        assert!(subscribed.borrow().is_empty());
    }
}
