//! Links of the page, where no token is needed: each works once. And the sign-ins by them.
//!
//! A process alone remembers its link and the sign-ins. Replicas sign the link, so that each of them opens it, and share
//! the table of what has ended: a link ends with its first use, and a sign-in by Sign out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::sign::Signer;
use parking_lot::Mutex;

use crate::ReplicaSet;
use crate::clock::unix_time;
use crate::key;
use crate::tokens::digest;

/// Interval between two links that are printed on request.
const LINK_INTERVAL: Duration = Duration::from_secs(10);

/// Age at which a link is not valid any more: it stays in logs.
const LINK_AGE: Duration = Duration::from_secs(10 * 60);

/// The start of the name of a sign-in that all replicas accept.
const SHARED: char = 'r';

const INVALID: &str = "this link was used already, is older than 10 min, or there is a newer one";
const NO_DATABASE: &str = "the database of the replicas cannot be reached; ask for another link";

/// The links of this process.
pub(super) struct Links {
    signer: Signer,
    purpose: String,
    replicas: Option<Arc<dyn ReplicaSet>>,
    last: Mutex<LastLink>,
    /// The name of all sign-ins of a process alone: those of another process or before a sign-out have another one.
    round: Mutex<Option<String>>,
}

/// A link that works once: the last that was printed.
#[derive(Default)]
struct LastLink {
    secret: Option<String>,
    made: Option<Instant>,
    printed: Option<Instant>,
}

/// The content of a link that all replicas open.
struct SharedLink {
    /// Ends with the first use.
    handle: u128,
    /// By the clock of the database.
    made: Duration,
}

impl Links {
    pub(super) fn new(name: &str, signer: Signer, replicas: Option<Arc<dyn ReplicaSet>>) -> Self {
        Self {
            signer,
            purpose: format!("page link\n{name}"),
            replicas,
            last: Mutex::default(),
            round: Mutex::new(random()),
        }
    }

    /// Prints a link that works: the last one as long as it does, so that other processes cannot take it away. One that
    /// is asked for too soon is not printed. Returns false if there is none then.
    pub(super) fn print(&self, is_asked_for: bool, print: impl FnOnce(&str)) -> bool {
        let mut last = self.last.lock();
        let is_soon = last.printed.is_some_and(|at| at.elapsed() < LINK_INTERVAL);
        if is_asked_for && is_soon {
            return self.valid(&last).is_some();
        }
        let now = Instant::now();
        if self.valid(&last).is_none() {
            (last.secret, last.made) = (self.new_secret(), Some(now));
        }
        last.printed = Some(now);
        if let Some(secret) = &last.secret {
            print(secret);
        }
        true
    }

    /// Uses a link. Returns the name of the sign-in.
    ///
    /// # Errors
    /// The reason for the person.
    pub(super) async fn sign_in(&self, given: &str) -> Result<Option<String>, &'static str> {
        let Some(replicas) = &self.replicas else {
            return self.sign_in_alone(given);
        };
        let link = SharedLink::open(&self.signer, &self.purpose, given).ok_or(INVALID)?;
        let now = replicas.time().ok_or(NO_DATABASE)?;
        if link.made.abs_diff(now) >= LINK_AGE {
            return Err(INVALID);
        }
        match replicas.end_session(link.handle).await {
            Some(true) => Ok(key::random().map(|handle| format!("{SHARED}{handle:032x}"))),
            Some(false) => Err(INVALID),
            None => Err(NO_DATABASE),
        }
    }

    fn sign_in_alone(&self, given: &str) -> Result<Option<String>, &'static str> {
        let mut last = self.last.lock();
        // Of their digests, so that the time of the comparison says nothing about a prefix.
        let known = self.valid(&last).map(|known| digest(known.as_bytes()));
        if known != Some(digest(given.as_bytes())) {
            return Err(INVALID);
        }
        last.secret = None;
        Ok(self.round.lock().clone())
    }

    /// Returns true if a sign-in with this name has not ended.
    pub(super) fn has_sign_in(&self, name: &str) -> bool {
        match &self.replicas {
            Some(replicas) => handle(name).is_some_and(|handle| !replicas.has_ended(handle)),
            None => self.round.lock().as_deref() == Some(name),
        }
    }

    /// Ends a sign-in: at all replicas, or with all others of a process alone.
    pub(super) async fn sign_out(&self, name: &str) {
        let Some(replicas) = &self.replicas else {
            *self.round.lock() = random();
            return;
        };
        if let Some(handle) = handle(name) {
            replicas.end_session(handle).await;
        }
    }

    fn new_secret(&self) -> Option<String> {
        let Some(replicas) = &self.replicas else {
            return random();
        };
        let link = SharedLink {
            handle: key::random()?,
            // Only until the database was asked for the first time.
            made: replicas.time().unwrap_or_else(unix_time),
        };
        Some(link.seal(&self.signer, &self.purpose))
    }

    /// The secret of a link that was not used, and is not too old.
    fn valid<'a>(&self, last: &'a LastLink) -> Option<&'a str> {
        let is_new = last.made.is_some_and(|at| at.elapsed() < LINK_AGE);
        let secret = last.secret.as_deref().filter(|_| is_new)?;
        let is_used = |replicas: &Arc<dyn ReplicaSet>| {
            let link = SharedLink::open(&self.signer, &self.purpose, secret);
            link.is_none_or(|link| replicas.has_ended(link.handle))
        };
        let is_used = self.replicas.as_ref().is_some_and(is_used);
        (!is_used).then_some(secret)
    }
}

impl SharedLink {
    fn seal(&self, signer: &Signer, purpose: &str) -> String {
        let mut bytes = self.handle.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.made.as_secs().to_be_bytes());
        signer.seal(purpose, &bytes)
    }

    fn open(signer: &Signer, purpose: &str, sealed: &str) -> Option<Self> {
        let bytes = signer.open(purpose, sealed)?;
        let (handle, made) = bytes.split_at_checked(size_of::<u128>())?;
        Some(Self {
            handle: u128::from_be_bytes(handle.try_into().ok()?),
            made: Duration::from_secs(u64::from_be_bytes(made.try_into().ok()?)),
        })
    }
}

/// Returns the handle in the name of a sign-in that all replicas accept.
fn handle(name: &str) -> Option<u128> {
    u128::from_str_radix(name.strip_prefix(SHARED)?, 16).ok()
}

/// 128 random bits; `None` if there are no random numbers.
pub(super) fn random() -> Option<String> {
    key::random().map(|random| format!("{random:032x}"))
}

#[cfg(test)]
impl Links {
    /// The link that was printed last.
    pub(super) fn last(&self) -> String {
        self.last.lock().secret.clone().unwrap_or_default()
    }

    /// The name of the sign-ins of a process alone.
    pub(super) fn round(&self) -> Option<String> {
        self.round.lock().clone()
    }

    /// Makes the last link, and its print, older.
    pub(super) fn age(&self, age: Duration) {
        let mut last = self.last.lock();
        let earlier = |at: Instant| at.checked_sub(age);
        last.made = last.made.and_then(earlier);
        last.printed = last.printed.and_then(earlier);
    }
}
