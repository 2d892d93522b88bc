//! Telling clients of changes, and knowing which of them anybody waits for.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

/// Changes that a slow listener may lag behind before it misses some.
const QUEUE: usize = 256;

/// Something that clients may have cached has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// What the resource with this URI holds.
    Resource(String),
}

impl ServerChange {
    /// Those of the lists.
    pub(super) const LISTS: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The method of the notification that tells of it.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
            Self::Resource(_) => "notifications/resources/updated",
        }
    }

    /// The parameters of that notification.
    pub(super) fn params(&self) -> Value {
        match self {
            Self::Resource(uri) => json!({"uri": uri}),
            _ => json!({}),
        }
    }
}

/// Resources that clients wait for changes of, with the number of those who do.
pub type SubscribedUris = BTreeMap<String, usize>;

/// Tells every listening client of changes.
#[derive(Clone, Debug)]
pub struct ChangeNotifier {
    sender: broadcast::Sender<ServerChange>,
    watched: watch::Sender<SubscribedUris>,
}

impl ChangeNotifier {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self {
            sender: broadcast::channel(QUEUE).0,
            watched: watch::Sender::default(),
        }
    }

    /// Tells those who listen.
    pub fn announce(&self, change: ServerChange) {
        // Without listeners there is nobody to tell.
        let _ = self.sender.send(change);
    }

    /// The resources that somebody has subscribed to, now and from now on: what nobody waits for
    /// need not be looked at.
    pub fn subscribed_uris(&self) -> watch::Receiver<SubscribedUris> {
        self.watched.subscribe()
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<ServerChange> {
        self.sender.subscribe()
    }

    /// Notes that somebody waits for changes of `uri`, until the interest is dropped.
    pub(super) fn interest(&self, uri: &str) -> Interest {
        self.watched
            .send_modify(|watched| *watched.entry(uri.to_owned()).or_default() += 1);
        Interest {
            uri: uri.to_owned(),
            watched: self.watched.clone(),
        }
    }
}

impl Default for ChangeNotifier {
    fn default() -> Self {
        Self::new()
    }
}

/// One client's wait for the changes of one resource.
pub(super) struct Interest {
    uri: String,
    watched: watch::Sender<SubscribedUris>,
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.watched.send_modify(|watched| {
            if let Some(count) = watched.get_mut(&self.uri) {
                *count -= 1;
                if *count == 0 {
                    watched.remove(&self.uri);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interest_is_counted() {
        let changes = ChangeNotifier::new();
        let watched = changes.subscribed_uris();
        let (first, second) = (changes.interest("a"), changes.interest("a"));
        assert_eq!(watched.borrow().get("a"), Some(&2));
        drop(first);
        assert_eq!(watched.borrow().get("a"), Some(&1));
        drop(second);
        assert!(watched.borrow().is_empty());
    }
}
