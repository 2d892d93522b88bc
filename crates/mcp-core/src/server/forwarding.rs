//! Forwarding between replicas: processes that serve the same clients, each of which may get any request.
//!
//! Most requests are answered where they arrive. What cannot move, such as a call that waits for an answer, is at one
//! replica; what a client sends to refer to it begins with the id of that replica. The transport forwards such a
//! message, since this crate has no sockets.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;
use crate::error::Error;
use crate::trace::{self, TraceContext};

/// The id of a process, which differs from that of every other replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId(u32);

/// The hexadecimal digits of an id.
const DIGITS: usize = 8;

impl ReplicaId {
    /// The id with these bits.
    pub fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// Its bits.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns the id of the process that has made a handle of 128 bits.
    pub fn from_handle(handle: u128) -> Self {
        Self(u32::try_from(handle >> 96).unwrap_or_default())
    }

    /// Puts the id in front of 96 of these random bits.
    pub fn handle(self, random: u128) -> u128 {
        (u128::from(self.0) << 96) | (random & (u128::MAX >> 32))
    }

    /// Reads the id at the beginning of a handle in hexadecimal digits.
    pub fn from_digits(text: &str) -> Option<Self> {
        let digits = text.get(..DIGITS)?;
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        let is_id = digits.bytes().all(is_digit);
        let bits = is_id.then(|| u32::from_str_radix(digits, 16).ok())?;
        bits.map(Self)
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The place of what a client refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process, if it exists.
    Here,
    /// At another replica.
    There(ReplicaId),
    /// Perhaps at a replica that is not known here yet: the table of replicas must be read again.
    Unknown(ReplicaId),
    /// Its replica is gone.
    Gone,
}

/// The replicas that serve the same clients. Asking never waits.
pub trait Replicas: Send + Sync {
    /// Returns the place of what the process with this id has made.
    fn place(&self, id: ReplicaId) -> Place;

    /// Returns the place of the task with this id: the process that has made it, or the one that has taken it.
    fn task_place(&self, id: &str) -> Option<Place> {
        ReplicaId::from_digits(id).map(|process| self.place(process))
    }

    /// Returns the place of the subscriptions and of the stream of a session with this handle: the replica that has
    /// made it, or another one that all agree on. Never [`Place::Gone`].
    fn home(&self, session: u128) -> Place;
}

/// The receivers of a forwarded message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receivers {
    /// One replica, whose response is that of the request.
    One(ReplicaId),
    /// All others. The request is answered here as well.
    All,
}

/// A message that other replicas must get.
#[derive(Debug)]
pub struct Forwarded {
    /// The replicas that get it.
    pub to: Receivers,
    /// The message; `None` for the whole frame.
    pub frame: Option<Vec<u8>>,
    /// The trace of the request; `None` for other messages.
    pub trace: Option<TraceContext>,
}

/// Forwarding of one frame. A frame that another replica has forwarded has none, so that it is never forwarded again.
pub struct Forwarding {
    replicas: Arc<dyn Replicas>,
    messages: Mutex<Vec<Forwarded>>,
    /// A batch is never forwarded as a whole: each of its requests would be answered twice.
    is_batch: AtomicBool,
}

impl Forwarding {
    /// Forwarding to these replicas.
    pub fn new(replicas: Arc<dyn Replicas>) -> Self {
        Self {
            replicas,
            messages: Mutex::default(),
            is_batch: AtomicBool::default(),
        }
    }

    /// Returns true if no message must be forwarded.
    pub fn is_empty(&self) -> bool {
        lock(&self.messages).is_empty()
    }

    /// Returns true if another replica answers the request.
    pub(super) fn is_elsewhere(&self) -> bool {
        let is_answered = |message: &Forwarded| matches!(message.to, Receivers::One(_));
        lock(&self.messages).iter().any(is_answered)
    }

    /// Takes the messages that must be forwarded.
    pub fn take(&self) -> Vec<Forwarded> {
        std::mem::take(&mut lock(&self.messages))
    }

    /// Returns the place of what the process with this id has made.
    pub fn place(&self, id: ReplicaId) -> Place {
        self.replicas.place(id)
    }

    /// Returns the place of the task with this id.
    pub(super) fn task_place(&self, id: &str) -> Option<Place> {
        self.replicas.task_place(id)
    }

    /// Says that the frame is a batch.
    pub(super) fn set_batch(&self) {
        self.is_batch.store(true, Ordering::Relaxed);
    }

    pub(super) fn add(&self, to: Receivers, frame: Option<Vec<u8>>) {
        let trace = trace::current();
        lock(&self.messages).push(Forwarded { to, frame, trace });
    }

    /// Forwards the frame to the replica at `place`, which may not be known yet, unless it is a batch.
    ///
    /// # Errors
    /// It is at another replica: a placeholder for the response of that one.
    pub fn check(&self, place: Place) -> Result<(), Error> {
        let (Place::There(id) | Place::Unknown(id)) = place else {
            return Ok(());
        };
        if !self.is_batch.load(Ordering::Relaxed) {
            self.add(Receivers::One(id), None);
        }
        // What a client sees if the frame is a batch.
        Err(Error::InvalidRequest {
            detail: "another replica has to answer this; send it alone, not in a batch".to_owned(),
            field: None,
        })
    }

    /// The same for the home of a session.
    pub(super) fn check_home(&self, session: Option<u128>) -> Result<(), Error> {
        match session {
            Some(session) => self.check(self.replicas.home(session)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_begins_with_the_id_of_its_process() {
        for bits in [0, 1, 0xdead_beef, u32::MAX] {
            let id = ReplicaId::new(bits);
            let handle = id.handle(u128::MAX);
            assert_eq!(ReplicaId::from_handle(handle), id);
            assert_eq!(ReplicaId::from_digits(&format!("{handle:032x}")), Some(id));
            assert_eq!(ReplicaId::from_digits(&id.to_string()), Some(id));
        }
        for other in ["", "1234567", "ABCDEF01", "+1234567", "1234567\u{e4}"] {
            assert_eq!(ReplicaId::from_digits(other), None, "{other}");
        }
    }

    struct Others;

    impl Replicas for Others {
        fn place(&self, id: ReplicaId) -> Place {
            Place::There(id)
        }

        fn home(&self, session: u128) -> Place {
            Place::There(ReplicaId::from_handle(session))
        }
    }

    #[test]
    fn batch_is_refused_and_not_forwarded() {
        let there = Place::There(ReplicaId::new(7));
        let single = Forwarding::new(Arc::new(Others));
        for place in [Place::Here, Place::Gone] {
            assert!(single.check(place).is_ok() && single.is_empty());
        }
        for place in [there, Place::Unknown(ReplicaId::new(7))] {
            assert!(single.check(place).is_err());
            let sent = single.take();
            assert_eq!(sent[0].to, Receivers::One(ReplicaId::new(7)));
        }

        let batch = Forwarding::new(Arc::new(Others));
        batch.set_batch();
        assert!(batch.check(there).is_err());
        assert!(batch.check_home(Some(7 << 96)).is_err());
        assert!(batch.is_empty());
    }
}
