//! Notifications of changes to a legacy client, as long as its connection exists.

use serde_json::json;

use super::{Caller, Connection, Peer, Server, ServerChange};

impl Server {
    /// Sends the changes that `connection` needs to `peer` until the server closes: changes of
    /// subscribed resources and, after `initialize`, of lists.
    pub async fn watch(&self, connection: &Connection, caller: &Caller, peer: &dyn Peer) {
        let mut receiver = self.receive_changes(caller.view());
        loop {
            let changes = tokio::select! {
                () = self.closing.cancelled() => return,
                changes = receiver.next(|| connection.subscribed()) => changes,
            };
            for change in changes {
                let is_wanted = match &change {
                    ServerChange::Resource(uri) => {
                        connection.is_subscribed(uri)
                            // It may have been allowed when the client subscribed.
                            && self.catalog_of(caller).watches(uri)
                    }
                    _ => connection.negotiated().is_some(),
                };
                if is_wanted {
                    let (method, params) = (change.method(), change.params());
                    let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                    peer.notify(message.to_string());
                }
            }
        }
    }
}
