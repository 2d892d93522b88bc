//! Dispatch: one frame in, one answer out, whatever the dialect and the transport.

mod caller;
mod catalog;
mod change_notifier;
mod change_stream;
mod completion;
mod connection;
mod context;
mod custom;
mod dispatch;
mod features;
mod initialize;
mod legacy_client;
mod limits;
mod logging;
mod mcp_method;
mod modern;
mod modern_client;
mod original_request;
mod outcome;
mod params;
mod prompts;
mod relayed;
mod reply;
mod resources;
mod seed_001;
mod tasks;
mod tool_catalog;
mod tool_result;
mod tools;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::era::Hints;
use crate::error::ErrorCodes;
use crate::health::Health;
use crate::sign::Signer;

pub use caller::{Caller, Peer};
use catalog::Catalog;
pub use change_notifier::{ChangeNotifier, ServerChange, SubscribedUris};
pub use connection::{Connection, Negotiated};
pub use features::{ServerFeatures, ServerItems};
pub use original_request::{OriginalRequest, PreviousRounds};
pub use reply::FrameReply;
use tasks::Tasks;

/// Who a server is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For example `n8n-mcp-server`.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub description: String,
}

/// What can be set about dispatch.
#[derive(Clone)]
pub struct ServerSettings {
    /// How the unversioned era numbers its errors.
    pub profile: ErrorCodes,
    /// After this long a tool call is given up.
    pub call_timeout: Duration,
    /// Signs what travels through clients.
    pub signer: Signer,
    /// Runs what outlives its request: the core has no runtime.
    pub spawn: fn(Background),
    /// 128 bits that nobody can guess; `None` where there is no randomness.
    pub random: fn() -> Option<u128>,
}

/// Work that nobody waits for.
pub type Background = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server without its edges: it knows the protocol and its tools, and no transport.
pub struct Server {
    identity: Identity,
    settings: ServerSettings,
    /// What can be listed from the start, which is offered always.
    own_items: ServerItems,
    /// What can be listed now.
    catalog: RwLock<Arc<Catalog>>,
    /// What is offered beside the lists.
    features: ServerFeatures,
    tasks: Arc<Tasks>,
    health: Health,
    clock: Arc<dyn Clock>,
    /// Why the service cannot be used at the moment; `None` while it can.
    degraded: Mutex<Option<String>>,
    /// A member of the `_meta` of every modern result: who answers.
    modern_meta: String,
    closing: CancellationToken,
}

/// One incoming frame with what its transport knows about it.
pub struct IncomingFrame<'a> {
    /// The bytes of a line or a body.
    pub frame: &'a [u8],
    /// What the headers say.
    pub hints: Hints<'a>,
    /// The connection or session that the frame came on, where there is one.
    pub connection: Option<Arc<Connection>>,
    /// The sender, and the way back.
    pub caller: Caller,
}

impl Server {
    /// A server that offers `features` and is degraded until its service was seen.
    pub fn new(
        identity: Identity,
        settings: ServerSettings,
        mut features: ServerFeatures,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let own = std::mem::take(&mut features.items);
        let info = json!({"name": identity.name, "version": identity.version, "description": identity.description});
        Self {
            modern_meta: format!(r#""io.modelcontextprotocol/serverInfo":{info}"#),
            closing: CancellationToken::new(),
            identity,
            settings,
            own_items: own.clone(),
            catalog: RwLock::new(Arc::new(Catalog::new(own))),
            features,
            tasks: Arc::new(Tasks::new()),
            health: Health::default(),
            clock,
            degraded: Mutex::new(Some("the service was not asked yet".to_owned())),
        }
    }

    /// Who it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How the unversioned era numbers its errors.
    pub fn profile(&self) -> ErrorCodes {
        self.settings.profile
    }

    /// Its counters.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Time since it started.
    pub fn uptime(&self) -> Duration {
        self.clock.uptime()
    }

    /// Notes whether the service can be used: `None`, or the reason why not. Returns true if that
    /// changed.
    pub fn set_degraded(&self, reason: Option<String>) -> bool {
        let mut degraded = self.degraded.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = *degraded != reason;
        *degraded = reason;
        changed
    }

    /// Why the service cannot be used; `None` while it can.
    pub fn degraded(&self) -> Option<String> {
        self.degraded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Ends the tasks of a caller who never comes back, so that nobody could ask for them.
    pub fn forget(&self, caller: &str) {
        self.tasks.forget_all(caller);
    }

    /// Ends what would stay open for ever. Requests are still answered.
    pub fn close(&self) {
        self.closing.cancel();
    }
}
