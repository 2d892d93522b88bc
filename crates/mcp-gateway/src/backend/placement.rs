//! A backend that runs at one replica only (`placement = "one"`). The others offer the lists of that one, and forward
//! requests to it before anything else is done for them: approvals, events and counters are there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_store::replicas::{Placed, ReplicaTable};
use mcp_client::{Revision, ServerInfo};
use mcp_core::era::Era;
use mcp_core::server::{OriginalRequest, Place};
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use mcp_serve::ReplicaSet as _;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::{sleep_until, timeout};

use super::{Backend, BackendState, ListedItem, RequestError, Snapshot};
use crate::config::Placement;

/// Longest wait for a replica that runs it, while another one takes it over.
const PLACE_WAIT: Duration = Duration::from_secs(10);

/// The lists of a backend, and its information, as the replica that runs it shows them.
#[derive(Serialize, Deserialize)]
struct ShownLists {
    server: Option<ShownServer>,
    tools: Vec<ShownItem>,
    resources: Vec<ShownItem>,
    templates: Vec<ShownItem>,
    prompts: Vec<ShownItem>,
}

#[derive(Serialize, Deserialize)]
struct ShownServer {
    protocol_version: String,
    capabilities: Box<RawValue>,
    server_info: Box<RawValue>,
    instructions: Option<String>,
}

/// The name or URI, and the definition.
type ShownItem = (String, Box<RawValue>);

impl Backend {
    /// The replicas, if it runs at one of them only.
    fn table(&self) -> Option<&ReplicaTable> {
        let is_one = self.config.placement == Placement::One;
        self.signals.replicas.as_deref().filter(|_| is_one)
    }

    fn placed(&self) -> Option<Placed> {
        self.table()?.placed(self.key.as_str())
    }

    /// Returns true if it runs at one replica only.
    pub(crate) fn is_placed(&self) -> bool {
        self.table().is_some()
    }

    /// Returns true if another replica runs it, or none, or this one may not any more.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.table()
            .is_some_and(|table| table.held_until(self.key.as_str()).is_none())
    }

    /// Completes when this replica has to run it. Until then it offers the lists of the one that does.
    pub(super) async fn until_here(&self) {
        let Some(table) = self.table() else {
            return;
        };
        let mut readings = table.readings();
        let mut shown: Option<Arc<str>> = None;
        while self.is_elsewhere() {
            let lists = self.placed().and_then(|placed| placed.lists);
            if let Some(lists) = lists.filter(|lists| shown.as_ref() != Some(lists)) {
                self.offer(&lists);
                shown = Some(lists);
            }
            // Fails at the end of the process only.
            if readings.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Completes when another replica runs it, or may soon, since this one does not reach the database.
    pub(super) async fn until_elsewhere(&self) {
        let Some(table) = self.table() else {
            return std::future::pending().await;
        };
        let mut readings = table.readings();
        while let Some(until) = table.held_until(self.key.as_str()) {
            tokio::select! {
                changed = readings.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = sleep_until(until.into()) => {}
            }
        }
    }

    /// Shows the lists to the other replicas, if this one runs it.
    pub(super) fn show_lists(&self, snapshot: &Snapshot) {
        let Some(table) = self.table().filter(|_| !self.is_elsewhere()) else {
            return;
        };
        let server = self.status.borrow().server.clone();
        let server = server.map(|server| ShownServer {
            protocol_version: server.protocol_version.clone(),
            capabilities: server.capabilities.clone(),
            server_info: server.server_info.clone(),
            instructions: server.instructions.clone(),
        });
        let items = |list: &[ListedItem]| {
            let items = list.iter();
            items
                .map(|item| (item.id.clone(), item.definition.clone()))
                .collect()
        };
        let shown = ShownLists {
            server,
            tools: items(&snapshot.tools),
            resources: items(&snapshot.resources),
            templates: items(&snapshot.templates),
            prompts: items(&snapshot.prompts),
        };
        // Serializing these types cannot fail.
        let text = serde_json::to_string(&shown).unwrap_or_default();
        table.show_lists(self.key.as_str(), text);
    }

    /// Offers the lists of the replica that runs it.
    fn offer(&self, lists: &str) {
        let shown: ShownLists = match serde_json::from_str(lists) {
            Ok(shown) => shown,
            // Of a replica of another version.
            Err(error) => {
                tracing::warn!(backend = %self.key, %error, "the lists of another replica cannot be read");
                return;
            }
        };
        let items = |list: Vec<ShownItem>| {
            let items = list.into_iter();
            items
                .map(|(id, definition)| ListedItem { id, definition })
                .collect()
        };
        let server = shown.server.map(|server| {
            let revision = Revision::parse(&server.protocol_version);
            Arc::new(ServerInfo {
                era: revision.map_or(Era::Modern, Era::Legacy),
                protocol_version: server.protocol_version,
                capabilities: server.capabilities,
                server_info: server.server_info,
                instructions: server.instructions,
            })
        });
        self.status.send_modify(|status| {
            status.state = BackendState::Elsewhere;
            status.server = server;
            status.last_error = None;
            status.next_try = None;
        });
        self.set_snapshot(Snapshot {
            tools: items(shown.tools),
            resources: items(shown.resources),
            templates: items(shown.templates),
            prompts: items(shown.prompts),
            ..Snapshot::default()
        });
    }

    /// Forwards the call to the replica that runs it. Waits for one while it moves.
    ///
    /// # Errors
    /// There is one, whose response is that of the call.
    pub(crate) async fn forward(&self, call: &Call) -> Result<(), ToolError> {
        let origin = call.extension::<OriginalRequest>();
        let forwarding = origin.and_then(|origin| origin.forwarding.as_ref());
        // Without forwarding, another replica has forwarded it, or this one serves a client over stdio.
        let Some((table, forwarding)) = self.table().zip(forwarding) else {
            return Ok(());
        };
        let (mut readings, arrived) = (table.readings(), Instant::now());
        let found = async {
            loop {
                let placed = self.placed();
                let place = placed.map(|placed| table.place(placed.replica, arrived));
                if let Some(place @ (Place::Here | Place::There(_))) = place {
                    return place;
                }
                if readings.changed().await.is_err() {
                    return Place::Here;
                }
            }
        };
        let place = timeout(PLACE_WAIT, found).await.unwrap_or(Place::Here);
        forwarding.check(place).map_err(|_| {
            let text = format!(
                "The replica that runs the backend {} cannot be reached; try again.",
                self.key
            );
            ToolError::new(ToolErrorKind::Interrupted, text)
        })
    }

    /// Waits until it runs here, for a request that cannot be forwarded.
    pub(super) async fn wait_until_here(&self) -> Result<(), RequestError> {
        let Some(table) = self.table().filter(|_| self.is_elsewhere()) else {
            return Ok(());
        };
        let mut readings = table.readings();
        let here = async { while self.is_elsewhere() && readings.changed().await.is_ok() {} };
        timeout(PLACE_WAIT, here).await.map_err(|_| {
            let text = "runs at another replica, which this request does not reach; try again";
            self.unavailable(text)
        })
    }
}
