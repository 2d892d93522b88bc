//! The connections of a listener: their permits, and room for new ones at the limit.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::limits::Limits;

/// Time that a connection has to close by itself after it was chosen to make room.
const ROOM_GRACE: Duration = Duration::from_millis(100);

/// Longest wait for the end of a connection that makes room, longer than its grace period.
const ROOM_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval at which a listener without any room looks for a connection that could make some.
const ROOM_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A TCP connection of a client; the connection of the protocol is in its session.
pub(super) struct ClientConnection {
    pub(super) address: IpAddr,
    /// True beyond the limit of connections: it has one request, for health or metrics.
    pub(super) is_reserved: bool,
    /// True once a request had a valid token.
    has_token: AtomicBool,
    /// Each request that is not answered holds it, too.
    requests: Arc<()>,
    /// True after the refusal of a request whose body has not arrived.
    is_sending: AtomicBool,
    /// True once it has to make room for another connection.
    makes_room: AtomicBool,
    /// Cancelled when it makes room, and when the listener closes.
    ending: CancellationToken,
}

impl ClientConnection {
    /// A connection that ends with `ending`.
    pub(super) fn new(address: IpAddr, is_reserved: bool, ending: CancellationToken) -> Self {
        Self {
            address,
            is_reserved,
            has_token: AtomicBool::new(false),
            requests: Arc::default(),
            is_sending: AtomicBool::new(false),
            makes_room: AtomicBool::new(false),
            ending,
        }
    }

    /// The address by which limits are counted: with IPv6 a client has a whole network of 64 bits.
    pub(super) fn network(&self) -> IpAddr {
        match self.address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        }
    }

    /// Notes that a request had a valid token: the connection makes no room for others any more.
    pub(super) fn set_authenticated(&self) {
        self.has_token.store(true, Ordering::Relaxed);
    }

    /// Counts a request until it is answered, when the result is dropped.
    pub(super) fn open_request(&self) -> Arc<()> {
        Arc::clone(&self.requests)
    }

    /// Notes that a request was refused before its body arrived: the client may send it before it reads.
    pub(super) fn set_sending(&self) {
        self.is_sending.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_sending(&self) -> bool {
        self.is_sending.load(Ordering::Relaxed)
    }

    /// Completes once it has to make room for another connection, or the listener closes.
    pub(super) async fn ending(&self) {
        self.ending.cancelled().await;
    }

    /// Completes for a connection that ends once it has made no room within its time, and no request is being
    /// answered; never when the listener closes.
    pub(super) async fn overdue(&self) {
        if !self.makes_room.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        sleep(ROOM_GRACE).await;
        while !self.is_idle() {
            sleep(ROOM_GRACE).await;
        }
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.requests) == 1
    }

    fn can_make_room(&self) -> bool {
        let is_kept = self.is_reserved || self.has_token.load(Ordering::Relaxed);
        !is_kept && self.is_idle() && !self.ending.is_cancelled()
    }
}

/// The connections of a listener, of which the number is limited.
pub(super) struct Connections {
    usual: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    /// True if connections without a token make room. Otherwise anybody could lock out the clients that have one.
    makes_room: bool,
    /// Cancelled when the listener closes.
    closing: CancellationToken,
    /// The connections by their age, oldest first.
    open: Mutex<BTreeMap<u64, Arc<ClientConnection>>>,
}

/// The place of a connection until it is dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    number: u64,
    pub(super) client: Arc<ClientConnection>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(limits: &Limits, needs_token: bool, closing: CancellationToken) -> Self {
        Self {
            usual: Arc::new(Semaphore::new(limits.max_connections)),
            reserved: Arc::new(Semaphore::new(limits.reserved_connections)),
            makes_room: needs_token,
            closing,
            open: Mutex::default(),
        }
    }

    /// Waits until there is a place for another connection, or one could make room.
    pub(super) async fn available(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                permit = self.permit() => return permit.map(drop),
                () = sleep(ROOM_CHECK_INTERVAL), if self.makes_room => {
                    if self.have_room() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes a place for a connection that is there. At the limit an idle connection that had no valid token makes
    /// room; else the place is a reserved one.
    pub(super) async fn place(self: &Arc<Self>, address: IpAddr) -> io::Result<Place> {
        let is_full = self.usual.available_permits() == 0;
        if is_full && self.makes_room && self.make_room() {
            let usual = Arc::clone(&self.usual).acquire_owned();
            if let Ok(permit) = timeout(ROOM_TIMEOUT, usual).await {
                return Ok(self.taken(address, permit.map_err(io::Error::other)?, false));
            }
        }
        let (permit, is_reserved) = self.permit().await?;
        Ok(self.taken(address, permit, is_reserved))
    }

    /// Waits for a permit: a reserved one only if there is no other. Returns whether it is one.
    async fn permit(&self) -> io::Result<(OwnedSemaphorePermit, bool)> {
        let (usual, reserved) = (Arc::clone(&self.usual), Arc::clone(&self.reserved));
        let (permit, is_reserved) = tokio::select! {
            biased;
            permit = usual.acquire_owned() => (permit, false),
            permit = reserved.acquire_owned() => (permit, true),
        };
        Ok((permit.map_err(io::Error::other)?, is_reserved))
    }

    fn taken(
        self: &Arc<Self>,
        address: IpAddr,
        permit: OwnedSemaphorePermit,
        is_reserved: bool,
    ) -> Place {
        let ending = self.closing.child_token();
        let client = Arc::new(ClientConnection::new(address, is_reserved, ending));
        Place {
            number: self.add(Arc::clone(&client)),
            connections: Arc::clone(self),
            client,
            _permit: permit,
        }
    }

    fn add(&self, client: Arc<ClientConnection>) -> u64 {
        let mut open = self.open.lock();
        let number = open.last_key_value().map_or(0, |(last, _)| last + 1);
        open.insert(number, client);
        number
    }

    /// True if a connection could make room.
    fn have_room(&self) -> bool {
        let open = self.open.lock();
        open.values().any(|client| client.can_make_room())
    }

    /// Ends an idle connection that had no valid token, so that another one has room: of the network with the most
    /// such connections the oldest. Returns false if there is none.
    fn make_room(&self) -> bool {
        let open = self.open.lock();
        let idle = || open.values().filter(|client| client.can_make_room());
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        idle().for_each(|client| *counts.entry(client.network()).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        let chosen = idle().find(|client| counts.get(&client.network()) == Some(&most));
        let Some(chosen) = chosen else {
            return false;
        };
        chosen.makes_room.store(true, Ordering::Relaxed);
        chosen.ending.cancel();
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn oldest_idle_connection_of_the_network_with_the_most_makes_room() {
        let open = Connections::new(&Limits::default(), true, CancellationToken::new());
        // The second network, of four connections, has an address for each.
        let addresses = Cell::new(0);
        let client = |network: u16, is_reserved| {
            addresses.set(addresses.get() + 1);
            let address = [0x2001, 0xdb8, 0, network, 0, 0, 0, addresses.get()].into();
            let ending = CancellationToken::new();
            Arc::new(ClientConnection::new(address, is_reserved, ending))
        };
        let clients = [1, 2, 2, 2, 1, 2].map(|last| client(last, false));
        for client in &clients {
            open.add(Arc::clone(client));
        }
        open.add(client(2, true));
        clients[1].set_authenticated();
        let request = clients[2].open_request();
        let ended = || {
            let ended = clients.iter().enumerate();
            let ended = ended.filter(|(_, client)| client.ending.is_cancelled());
            ended.map(|(at, _)| at).collect::<Vec<_>>()
        };
        for expected in [&[0][..], &[0, 3], &[0, 3, 4], &[0, 3, 4, 5]] {
            assert!(open.have_room() && open.make_room());
            assert_eq!(ended(), expected);
        }
        assert!(!open.have_room() && !open.make_room());
        drop(request);
        assert!(open.make_room() && clients[2].ending.is_cancelled());
        assert!(
            !open.make_room(),
            "the authenticated and the reserved ones stay"
        );
    }
}
