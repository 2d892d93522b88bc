//! Replicas: processes that serve the same clients behind one address. A service that knows them implements
//! [`ReplicaSet`]; the endpoint then forwards what only one of them can answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use mcp_core::server::{Place, ReplicaId};
use mcp_core::sign::Signer;

/// The port of a process that becomes a replica.
#[derive(Clone)]
pub struct ListeningAddress {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The address that it listens on.
    pub address: SocketAddr,
    /// A fingerprint of the key that signs what clients keep. Replicas with another key cannot use it.
    pub key: String,
    /// Signs what replicas tell each other, with the same key.
    pub signer: Signer,
}

/// The replicas that serve the same clients.
pub trait ReplicaSet: Send + Sync {
    /// Returns the place of what the process with this id has made, for a request that arrived at `arrived`. Does not
    /// wait.
    fn place(&self, id: ReplicaId, arrived: Instant) -> Place;

    /// The same for the task with this id; `None` if no process makes such ids.
    fn task_place(&self, id: &str, arrived: Instant) -> Option<Place>;

    /// The same for the subscriptions and the stream of a session with this handle. Never [`Place::Gone`].
    fn home(&self, session: u128, arrived: Instant) -> Place;

    /// Makes this process a replica: it listens from now on. Completes when the others know it, or after a few seconds.
    fn join(&self, listening: ListeningAddress) -> BoxFuture<'_, ()>;

    /// Returns the URL of a replica that is alive, without a path.
    fn address(&self, id: ReplicaId) -> Option<Arc<str>>;

    /// Returns the other replicas that are alive.
    fn others(&self) -> Vec<ReplicaId>;

    /// Counts a replica that could not be reached as gone, until it is seen again.
    fn suspect(&self, id: ReplicaId);

    /// Reads the table again, unless it was read after `arrived`. Returns false if it cannot be read now.
    fn refresh(&self, arrived: Instant) -> BoxFuture<'_, bool>;

    /// Returns the time since 1970 by the clock of the database, which all replicas share; `None` until it was asked.
    fn time(&self) -> Option<Duration>;

    /// Completes when a replica is gone.
    fn gone(&self, id: ReplicaId) -> BoxFuture<'static, ()>;

    /// Remembers that a session, or something else with a handle, has ended. Completes once the others can see it, with
    /// false if it had ended before at any replica; with `None` after a second, if that is not known.
    fn end_session(&self, session: u128) -> BoxFuture<'_, Option<bool>>;

    /// Counts a request of this client, and returns the part of its rate limit that this process may admit.
    fn rate_share(&self, client: &str) -> f64;

    /// Returns true if a session was ended at any replica.
    fn has_ended(&self, session: u128) -> bool;
}
