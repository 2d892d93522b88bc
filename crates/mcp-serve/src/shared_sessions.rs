//! Sessions that several processes serve: they have one session key, and a load balancer sends the requests of a session
//! to one of them.

use futures_util::future::BoxFuture;

/// The sessions that the processes with one session key have.
pub trait SharedSessions: Send + Sync {
    /// Claims a session for this process, which has got its first request for it. Completes with false if the session
    /// has ended, or if its process has ended without giving up its sessions: what that one knew of it is lost.
    fn claim(&self, session: u128) -> BoxFuture<'_, bool>;

    /// Ends a session at all processes. Completes once the others can know that, within a second.
    fn end(&self, session: u128) -> BoxFuture<'_, ()>;

    /// Returns true if a session is known to have ended at any process.
    fn has_ended(&self, session: u128) -> bool;

    /// Returns true if other processes are alive.
    fn has_others(&self) -> bool;
}
