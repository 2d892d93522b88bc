//! Links of the page, where no token is needed: each works once. And the sign-ins by them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::key;
use crate::tokens::digest;

/// Interval between two links that are printed on request.
const LINK_INTERVAL: Duration = Duration::from_secs(10);

/// Age at which a link is not valid any more: it stays in logs.
const LINK_AGE: Duration = Duration::from_secs(10 * 60);

const INVALID: &str = "this link was used already, is older than 10 min, or there is a newer one";

/// The links of this process.
pub(super) struct Links {
    last: Mutex<LastLink>,
    /// The name of all sign-ins: those of another process or before a sign-out have another one.
    round: Mutex<Option<String>>,
}

/// A link that works once: the last that was printed.
#[derive(Default)]
struct LastLink {
    secret: Option<String>,
    made: Option<Instant>,
    printed: Option<Instant>,
}

impl Links {
    pub(super) fn new() -> Self {
        Self {
            last: Mutex::default(),
            round: Mutex::new(random()),
        }
    }

    /// Prints a link that works: the last one as long as it does, so that other programs cannot take it away. One that
    /// is asked for too soon is not printed. Returns false if there is none then.
    pub(super) fn print(&self, is_asked_for: bool, print: impl FnOnce(&str)) -> bool {
        let mut last = self.last.lock();
        let is_soon = last.printed.is_some_and(|at| at.elapsed() < LINK_INTERVAL);
        if is_asked_for && is_soon {
            return last.valid().is_some();
        }
        let now = Instant::now();
        if last.valid().is_none() {
            (last.secret, last.made) = (random(), Some(now));
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
    pub(super) fn sign_in(&self, given: &str) -> Result<Option<String>, &'static str> {
        let mut last = self.last.lock();
        // Of their digests, so that the time of the comparison says nothing about a prefix.
        let known = last.valid().map(|known| digest(known.as_bytes()));
        if known != Some(digest(given.as_bytes())) {
            return Err(INVALID);
        }
        last.secret = None;
        Ok(self.round.lock().clone())
    }

    /// Returns true if a sign-in with this name has not ended.
    pub(super) fn has_sign_in(&self, name: &str) -> bool {
        self.round.lock().as_deref() == Some(name)
    }

    /// Ends all sign-ins.
    pub(super) fn sign_out(&self) {
        *self.round.lock() = random();
    }
}

impl LastLink {
    /// The secret of a link that was not used, and is not too old.
    fn valid(&self) -> Option<&str> {
        let is_new = self.made.is_some_and(|at| at.elapsed() < LINK_AGE);
        self.secret.as_deref().filter(|_| is_new)
    }
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

    /// The name of the sign-ins.
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
