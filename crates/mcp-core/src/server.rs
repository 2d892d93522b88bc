//! Dispatch: one frame in, one reply out, for every era and transport.

mod access;
mod answer;
mod audit;
mod caller;
mod catalog;
mod changes;
mod clients;
mod connection;
mod context;
mod dispatch;
mod features;
mod handshake;
mod items;
mod limits;
mod method;
mod modern;
mod params;
mod record;
mod results;
mod seed_001;
mod tasks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderMap;
use parking_lot::{Mutex, RwLock};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::era::Era;
use crate::error::ErrorCodes;
use crate::http_headers::{VERSION, text};
use crate::meta::Meta;
use crate::metrics::{Durations, Labels};
use crate::sign::Signer;
pub use crate::tool::Principal;

pub use access::{Access, AccessItem, Denial, DeniedBy, ServerItems, WhyMissing};
pub use answer::{FrameReply, RequestEnd};
pub use audit::{Audit, AuditNotes, AuditedRequest};
pub use caller::{Caller, ClientName, Peer};
use catalog::Published;
pub use changes::{ChangeNotifier, ServerChange, SubscribedUris, Subscription};
pub use clients::PreviousRounds;
pub use connection::{Connection, Negotiated};
pub use context::{ExistenceCheck, OriginalRequest};
pub use features::ServerFeatures;
use limits::FailureLog;
pub use method::known_method;
use seed_001::Health;
use tasks::Tasks;
pub use tasks::{StoredTask, TaskOwner, TaskStore};

/// The member of `_meta` that describes a server (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Name, version and description of a server.
#[derive(Clone, Debug)]
pub struct Identity {
    /// For example `n8n-mcp-server`.
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// One sentence.
    pub description: String,
}

impl Identity {
    /// The `serverInfo` in the `_meta` of modern results.
    fn modern_meta(&self, title: Option<&str>) -> String {
        let mut info =
            json!({"name": self.name, "version": self.version, "description": self.description});
        if let Some(title) = title {
            info["title"] = json!(title);
        }
        format!(r#""{SERVER_INFO}":{info}"#)
    }
}

/// Settings of the dispatch.
#[derive(Clone)]
pub struct ServerSettings {
    /// The error codes of the unversioned era.
    pub error_codes: ErrorCodes,
    /// The timeout of a tool call.
    pub call_timeout: Duration,
    /// Signs state that clients store.
    pub signer: Signer,
    /// Returns 128 secret random bits; `None` if there is no randomness.
    pub random: fn() -> Option<u128>,
}

/// Names of clients that a server keeps.
pub const MAX_CLIENTS: usize = 64;

/// A server without a transport.
pub struct Server {
    identity: Identity,
    settings: ServerSettings,
    /// The items from the start, which are always listed.
    own_items: ServerItems,
    /// The items that are listed now.
    published: RwLock<Arc<Published>>,
    /// All features except the items.
    features: ServerFeatures,
    tasks: Arc<Tasks>,
    health: Health,
    /// The durations of all requests that have ended.
    durations: Durations,
    /// The tools that have a label of their own in them.
    labels: Labels,
    started: Instant,
    /// The reason why the service cannot be used at the moment.
    degraded: Mutex<Option<String>>,
    /// Notified by each call that fails because of the service.
    service_failed: Notify,
    failures: Arc<FailureLog>,
    /// The names of the clients that have called a tool.
    clients: Mutex<Vec<ClientName>>,
    closing: CancellationToken,
}

/// One incoming frame with what its transport knows about it.
pub struct IncomingFrame<'a> {
    /// The bytes of a line or a body.
    pub frame: &'a [u8],
    /// The headers over HTTP, where the modern era repeats the envelope in them.
    pub headers: Option<&'a HeaderMap>,
    /// True over HTTP+SSE, the transport of 2024-11-05, on which requests of the modern era are refused.
    pub is_old_transport: bool,
    /// The connection or session of the frame, if it has one.
    pub connection: Option<Arc<Connection>>,
    /// The client that has sent it.
    pub caller: Caller,
}

impl IncomingFrame<'_> {
    /// The value of `MCP-Protocol-Version`.
    fn version(&self) -> Option<&str> {
        text(self.headers?, VERSION)
    }

    /// The era of a request of the frame.
    fn era(&self, method: &str, meta: Option<Meta<'_>>) -> Era {
        let negotiated = self.connection.as_ref().and_then(|it| it.negotiated());
        let negotiated = negotiated.map(|negotiated| negotiated.revision);
        Era::decide(self.version(), negotiated, method, meta)
    }
}

impl Server {
    /// A server with these features, which is degraded until [`Server::set_degraded`].
    pub fn new(identity: Identity, settings: ServerSettings, mut features: ServerFeatures) -> Self {
        let own_items = std::mem::take(&mut features.items);
        let published = Published::new(own_items.clone(), &identity);
        Self {
            closing: CancellationToken::new(),
            identity,
            settings,
            published: RwLock::new(Arc::new(published)),
            own_items,
            features,
            tasks: Arc::new(Tasks::new()),
            health: Health::default(),
            durations: Durations::default(),
            labels: Labels::default(),
            started: Instant::now(),
            degraded: Mutex::new(Some("the service was not checked yet".to_owned())),
            service_failed: Notify::new(),
            failures: Arc::default(),
            clients: Mutex::default(),
        }
    }

    /// Its name, version and description.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The error codes of the unversioned era.
    pub fn error_codes(&self) -> ErrorCodes {
        self.settings.error_codes
    }

    /// The durations of its requests.
    pub fn durations(&self) -> &Durations {
        &self.durations
    }

    /// Time since it started.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sets the reason why the service cannot be used, or `None`. Returns true if that has changed.
    pub fn set_degraded(&self, reason: Option<String>) -> bool {
        let mut degraded = self.degraded.lock();
        let changed = *degraded != reason;
        *degraded = reason;
        changed
    }

    /// Waits until a call has failed because of the service, since the last time.
    pub async fn service_failed(&self) {
        self.service_failed.notified().await;
    }

    /// The reason why the service cannot be used; `None` while it can.
    pub fn degraded(&self) -> Option<String> {
        self.degraded.lock().clone()
    }

    /// The names of the clients that have called a tool since the start: the first [`MAX_CLIENTS`], none beside an audit.
    pub fn clients(&self) -> Vec<ClientName> {
        self.clients.lock().clone()
    }

    /// Keeps the name of a client that calls a tool.
    fn note_client(&self, client: ClientName) {
        let mut clients = self.clients.lock();
        if clients.len() < MAX_CLIENTS && !clients.contains(&client) {
            clients.push(client);
        }
    }

    /// Records a request of the caller with this principal that its transport has refused because of an error of this kind.
    pub fn record_refusal(&self, principal: Option<&Arc<str>>, kind: &'static str) {
        if let Some(audit) = &self.features.audit {
            audit.refused(principal, kind);
        }
    }

    /// Cancels and removes the tasks of a caller whose session has ended.
    pub fn forget(&self, caller: &str) {
        self.tasks.remove_all(caller);
    }

    /// Ends streams and tasks. Requests are still answered.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Waits until [`Server::close`] is called.
    pub async fn closed(&self) {
        self.closing.cancelled().await;
    }
}

/// Runs the closure when it is dropped, for example with the future of a request.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
