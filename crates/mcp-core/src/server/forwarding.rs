//! Forwarding between replicas: processes that serve the same clients, each of which may get any request.
//!
//! Most requests are answered where they arrive. What cannot move, such as a call that waits for an answer, is at one
//! replica; what a client sends to refer to it begins with the id of that replica. The transport forwards such a
//! message, since this crate has no sockets.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::lock;
use crate::error::Error;
use crate::tool::ToolError;
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
    /// The place of its response among those to a batch, where a placeholder is.
    pub reply: Option<usize>,
}

/// Forwarding of one frame. A frame that another replica has forwarded has none, so that it is never forwarded again.
pub struct Forwarding {
    replicas: Arc<dyn Replicas>,
    messages: Mutex<Vec<Forwarded>>,
}

impl Forwarding {
    /// Forwarding to these replicas.
    pub fn new(replicas: Arc<dyn Replicas>) -> Self {
        Self {
            replicas,
            messages: Mutex::default(),
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

    /// Forwarding of one message of a batch. A batch is never forwarded as a whole: each of its requests would be
    /// answered twice.
    pub(super) fn of_message(&self) -> Self {
        Self::new(Arc::clone(&self.replicas))
    }

    /// Sets the request that another replica answers, as a frame of its own.
    pub(super) fn set_frame(&self, frame: &[u8]) {
        for message in lock(&self.messages).iter_mut() {
            message.frame.get_or_insert_with(|| frame.to_owned());
        }
    }

    /// Adds the messages of a part of a batch. `reply` is the place of a placeholder for its response.
    pub(super) fn add_part(&self, part: &Self, reply: Option<usize>) {
        for mut message in part.take() {
            let is_asked = matches!(message.to, Receivers::One(_));
            message.reply = reply.filter(|_| is_asked);
            lock(&self.messages).push(message);
        }
    }

    pub(super) fn add(&self, to: Receivers, frame: Option<Vec<u8>>) {
        let trace = trace::current();
        let reply = None;
        let message = Forwarded {
            to,
            frame,
            trace,
            reply,
        };
        lock(&self.messages).push(message);
    }

    /// Forwards the message to the replica at `place`, which may not be known yet.
    ///
    /// # Errors
    /// It is at another replica: a placeholder for the response of that one, and the response to a part of a batch if that
    /// one cannot be reached.
    pub fn check(&self, place: Place) -> Result<(), Error> {
        let (Place::There(id) | Place::Unknown(id)) = place else {
            return Ok(());
        };
        self.add(Receivers::One(id), None);
        Err(Error::ToolFailed(ToolError::unavailable(
            "The replica that has to answer this cannot be reached; try again.",
        )))
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
    fn message_is_forwarded_to_another_replica_alone_or_of_a_batch() {
        let there = Place::There(ReplicaId::new(7));
        let single = Forwarding::new(Arc::new(Others));
        for place in [Place::Here, Place::Gone] {
            assert!(single.check(place).is_ok() && single.is_empty());
        }
        for place in [there, Place::Unknown(ReplicaId::new(7))] {
            assert!(single.check(place).is_err() && single.is_elsewhere());
            let sent = single.take();
            assert_eq!(sent[0].to, Receivers::One(ReplicaId::new(7)));
            assert!(sent[0].frame.is_none());
        }
        let part = single.of_message();
        assert!(part.check_home(Some(7 << 96)).is_err());
        part.set_frame(b"{}");
        part.add(Receivers::All, Some(b"[]".to_vec()));
        single.add_part(&part, Some(2));
        let sent = single.take();
        assert_eq!(
            (sent[0].frame.as_deref(), sent[0].reply),
            (Some(&b"{}"[..]), Some(2))
        );
        assert_eq!(
            (sent[1].frame.as_deref(), sent[1].reply),
            (Some(&b"[]"[..]), None)
        );
    }
}
