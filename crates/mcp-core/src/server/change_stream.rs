//! Telling clients of the legacy era about changes, for as long as their connection lives.

use tokio::sync::broadcast::error::RecvError;

use super::{Connection, Peer, Server, ServerChange};

impl Server {
    /// Sends `peer` what it should know until the server closes: changes of lists, and of the
    /// resources that the connection subscribed to. Nothing before `initialize`.
    pub async fn watch(&self, connection: &Connection, peer: &dyn Peer) {
        let Some(changes) = &self.features.changes else {
            return self.closing.cancelled().await;
        };
        let mut changes = changes.listen();
        loop {
            let change = tokio::select! {
                () = self.closing.cancelled() => return,
                change = changes.recv() => change,
            };
            match change {
                Ok(change) => {
                    let wanted = match &change {
                        ServerChange::Resource(uri) => connection.is_subscribed(uri),
                        _ => connection.negotiated().is_some(),
                    };
                    if wanted {
                        peer.notify(notification(&change));
                    }
                }
                // Which changes were missed is not known, so a client must take all as changed.
                Err(RecvError::Lagged(_)) if connection.negotiated().is_some() => {
                    let resources = connection
                        .subscribed()
                        .into_iter()
                        .map(ServerChange::Resource);
                    for change in ServerChange::LISTS.into_iter().chain(resources) {
                        peer.notify(notification(&change));
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return self.closing.cancelled().await,
            }
        }
    }
}

fn notification(change: &ServerChange) -> String {
    serde_json::json!({"jsonrpc": "2.0", "method": change.method(), "params": change.params()})
        .to_string()
}
