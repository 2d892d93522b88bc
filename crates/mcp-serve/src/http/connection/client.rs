//! The client of a connection, and room for new connections at the limit.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::tokens::LastToken;

/// Time that a connection has to close by itself after it was chosen to make room.
pub(in crate::http) const ROOM_GRACE: Duration = Duration::from_millis(100);

/// The client of one connection.
pub(in crate::http) struct ClientConnection {
    pub(in crate::http) address: IpAddr,
    pub(in crate::http) last_token: LastToken,
    /// True once a request had a valid token.
    has_token: AtomicBool,
    /// Requests that are not answered.
    requests: AtomicUsize,
    /// True once it has to make room for another connection.
    is_ending: AtomicBool,
    /// Notified at that moment.
    ending: Notify,
}

/// A request that is being answered.
pub(in crate::http) struct OpenRequest<'a>(&'a AtomicUsize);

impl ClientConnection {
    /// A connection from this address.
    pub(in crate::http) fn new(address: IpAddr) -> Self {
        Self {
            address,
            last_token: LastToken::default(),
            has_token: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            is_ending: AtomicBool::new(false),
            ending: Notify::new(),
        }
    }

    /// Notes that a request had a valid token: the connection makes no room for others any more.
    pub(in crate::http) fn set_authenticated(&self) {
        self.has_token.store(true, Ordering::Relaxed);
    }

    /// Counts a request until it is answered.
    pub(in crate::http) fn open_request(&self) -> OpenRequest<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        OpenRequest(&self.requests)
    }

    /// True while no request is being answered.
    pub(in crate::http) fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    /// True once it has to make room for another connection.
    pub(in crate::http) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Completes once it has to make room.
    pub(in crate::http) async fn ending(&self) {
        self.ending.notified().await;
    }

    fn can_end(&self) -> bool {
        !self.has_token.load(Ordering::Relaxed) && self.is_idle() && !self.is_ending()
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open connections of a listener, oldest first.
#[derive(Default)]
pub(in crate::http) struct OpenConnections(Mutex<BTreeMap<u64, Arc<ClientConnection>>>);

/// An entry of an open connection, until it is dropped.
pub(in crate::http) struct OpenConnection {
    all: Arc<OpenConnections>,
    number: u64,
}

impl OpenConnections {
    pub(in crate::http) fn add(self: &Arc<Self>, client: Arc<ClientConnection>) -> OpenConnection {
        let mut open = self.0.lock();
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, client);
        OpenConnection {
            all: Arc::clone(self),
            number,
        }
    }

    /// True if a connection could make room.
    pub(in crate::http) fn have_room(&self) -> bool {
        self.0.lock().values().any(|client| client.can_end())
    }

    /// Ends an idle connection that had no valid token, so that another one has room: of the address with the most
    /// such connections the oldest. Returns false if there is none.
    pub(in crate::http) fn make_room(&self) -> bool {
        let open = self.0.lock();
        let idle = || open.values().filter(|client| client.can_end());
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        idle().for_each(|client| *counts.entry(client.address).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        let Some(client) = idle().find(|client| counts.get(&client.address) == Some(&most)) else {
            return false;
        };
        client.is_ending.store(true, Ordering::Relaxed);
        client.ending.notify_one();
        true
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_idle_connection_of_the_address_with_the_most_makes_room() {
        let open: Arc<OpenConnections> = Arc::default();
        let client = |last: u8| Arc::new(ClientConnection::new([127, 0, 0, last].into()));
        let clients = [1, 2, 2, 2, 1, 2].map(client);
        let mut entries: Vec<_> = clients
            .iter()
            .map(|client| open.add(Arc::clone(client)))
            .collect();
        clients[1].set_authenticated();
        let request = clients[2].open_request();
        let ended = || {
            let ended = clients.iter().enumerate();
            let ended = ended.filter(|(_, client)| client.is_ending());
            ended.map(|(at, _)| at).collect::<Vec<_>>()
        };
        for expected in [&[0][..], &[0, 3], &[0, 3, 4], &[0, 3, 4, 5]] {
            assert!(open.have_room() && open.make_room());
            assert_eq!(ended(), expected);
        }
        assert!(!open.have_room() && !open.make_room());
        drop(request);
        assert!(open.make_room() && clients[2].is_ending());
        assert!(!open.make_room(), "the authenticated one stays");
        entries.clear();
        assert!(open.0.lock().is_empty());
    }
}
