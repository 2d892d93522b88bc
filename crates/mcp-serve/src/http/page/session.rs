//! The sign-in of the page: a token or a one-time link is exchanged for a signed cookie and a key, which together
//! are valid for 8 h, on the paths of the page only. Tokens of the file are found again by their fingerprint, so that
//! replicas with one key share these sign-ins. Those by access tokens of OAuth issuers and by the link are of one
//! process: the first are remembered here, the second end with it.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::header::{COOKIE, ORIGIN};
use http::request::Parts;
use mcp_core::sign::Signer;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::guard::Guard;
use super::{FOLDER, KEY, host};
use crate::clock::unix_time;
use crate::key;
use crate::tokens::{Credential, Digest, LastToken, digest};

/// Seconds for which a sign-in is valid.
const MAX_AGE: u64 = 8 * 60 * 60;

/// Interval between two links that are printed on request.
const LINK_INTERVAL: Duration = Duration::from_secs(10);

/// Age at which a link is not valid any more: it stays in logs.
const LINK_AGE: Duration = Duration::from_secs(10 * 60);

/// Signed-in access tokens of OAuth issuers that are remembered.
const MAX_REMEMBERED: usize = 1000;

/// Characters of a fingerprint: those of the signature alone, 126 bits.
const FINGERPRINT_LEN: usize = 21;

/// The secret that a person signs in with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    token: Option<String>,
    link: Option<String>,
}

/// The content of the cookie.
#[derive(Serialize, Deserialize)]
struct Ticket {
    expires: u64,
    /// That of the token; `None` for the one-time link.
    token: Option<String>,
    /// The owner of the token.
    name: Option<String>,
    /// [`PageSessions::round`] for the one-time link.
    round: Option<String>,
}

/// A person who has signed in.
pub(super) struct SignedIn {
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) is_operator: bool,
    /// Seconds since 1970.
    pub(super) expires: u64,
}

impl SignedIn {
    pub(super) fn remaining(&self) -> Duration {
        Duration::from_secs(self.expires.saturating_sub(unix_time().as_secs()))
    }
}

pub(super) struct PageSessions {
    signer: Signer,
    name: String,
    /// `None` if no browser opens the page at the address of the server.
    url: Option<String>,
    link: Mutex<Link>,
    /// A random value of all sign-ins by a link: those of another process or before a sign-out have another one.
    round: Mutex<Option<String>>,
    /// The access tokens of OAuth issuers, by fingerprint: these are not in a file.
    remembered: Mutex<HashMap<String, Arc<Credential>>>,
}

/// A link that works once: the last that was printed.
#[derive(Default)]
struct Link {
    secret: Option<String>,
    made: Option<Instant>,
    printed: Option<Instant>,
}

impl Link {
    /// Its secret, if it is not too old.
    fn valid(&self) -> Option<&str> {
        let is_new = self.made.is_some_and(|at| at.elapsed() < LINK_AGE);
        self.secret.as_deref().filter(|_| is_new)
    }
}

impl PageSessions {
    pub(super) fn new(name: &str, url: Option<String>, signer: Signer) -> Self {
        Self {
            signer,
            name: name.to_owned(),
            url,
            link: Mutex::default(),
            round: Mutex::new(random()),
            remembered: Mutex::default(),
        }
    }

    pub(super) fn announce(&self, guard: &Guard) {
        if guard.needs_token() {
            let place = self.url.as_deref().unwrap_or("/, by HTTPS or localhost");
            tracing::info!("the page is at {place}; sign in with a token");
        } else {
            self.print(&mut self.link.lock());
        }
    }

    /// Prints a link that works: the last one as long as it does, so that other processes cannot take it away.
    pub(super) fn new_link(&self, guard: &Guard) -> bool {
        if guard.needs_token() {
            return false;
        }
        let mut link = self.link.lock();
        let is_soon = link.printed.is_some_and(|at| at.elapsed() < LINK_INTERVAL);
        if is_soon {
            return link.valid().is_some();
        }
        self.print(&mut link);
        true
    }

    /// Not in the log, whose level may hide it. `secret=` marks a secret for those who redact logs.
    fn print(&self, link: &mut Link) {
        let now = Instant::now();
        if link.valid().is_none() {
            (link.secret, link.made) = (random(), Some(now));
        }
        link.printed = Some(now);
        let Some(secret) = &link.secret else {
            return;
        };
        let how = match &self.url {
            Some(url) => format!("open {url}#secret={secret} to see the page"),
            None => format!(
                "to see the page, open / of this server by HTTPS or as localhost, with #secret={secret}"
            ),
        };
        let text = format!("{}: {how} (works once, for 10 min)", self.name);
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Ends all sign-ins by a link.
    pub(super) fn end_links(&self) {
        *self.round.lock() = random();
    }

    /// Returns the cookie and the answer for the page.
    ///
    /// # Errors
    /// The reason for the person.
    pub(super) async fn sign_in(
        &self,
        guard: &Guard,
        head: &Parts,
        given: SignIn,
    ) -> Result<(Option<HeaderValue>, String), &'static str> {
        let mut expires = unix_time().as_secs() + MAX_AGE;
        let (token, name, round) = match (guard.needs_token(), given) {
            (
                true,
                SignIn {
                    token: Some(token), ..
                },
            ) => {
                let token = token.trim().as_bytes();
                let credential = guard.credential(token, None, &LastToken::default()).await;
                let credential = credential.map_err(|_| "this token is not valid here")?;
                expires = expires.min(credential.expires().unwrap_or(expires));
                let fingerprint = self.fingerprint(&digest(token));
                let name = credential.principal.name.to_string();
                if guard
                    .tokens()
                    .find(|digest| self.fingerprint(digest) == fingerprint)
                    .is_none()
                {
                    self.remember(fingerprint.clone(), credential)?;
                }
                (Some(fingerprint), Some(name), None)
            }
            (true, _) => return Err("this server needs a token"),
            (
                false,
                SignIn {
                    link: Some(given), ..
                },
            ) => {
                let mut link = self.link.lock();
                // Of their digests, so that the time of the comparison says nothing about a prefix.
                let (given, known) = (
                    digest(given.as_bytes()),
                    link.valid().map(|known| digest(known.as_bytes())),
                );
                if known != Some(given) {
                    return Err(
                        "this link was used already, is older than 10 min, or there is a newer one",
                    );
                }
                link.secret = None;
                (None, None, self.round.lock().clone())
            }
            (false, _) => return Err("open the link that the server has printed"),
        };
        let page_key = random().ok_or("there are no random numbers")?;
        let ticket = Ticket {
            expires,
            token,
            name,
            round,
        };
        let ticket = serde_json::to_vec(&ticket).map_err(|_| "the cookie cannot be made")?;
        let sealed = self.signer.seal(&self.purpose(&page_key), &ticket);
        let age = expires.saturating_sub(unix_time().as_secs());
        let answer = json!({"key": page_key, "expires": expires}).to_string();
        Ok((self.cookie(head, &sealed, age), answer))
    }

    /// Returns who has signed in, if cookie and key are valid together, and the token still is.
    pub(super) async fn open(&self, guard: &Guard, head: &Parts) -> Option<SignedIn> {
        let page_key = head.headers.get(KEY)?.to_str().ok()?;
        let name = cookie_name(head);
        let cookies = head.headers.get_all(COOKIE).iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|value| value.split(';'));
        let ticket = cookies.find_map(|cookie| {
            let (found, sealed) = cookie.trim().split_once('=')?;
            let ticket =
                (found == name).then(|| self.signer.open(&self.purpose(page_key), sealed))?;
            serde_json::from_slice::<Ticket>(&ticket?).ok()
        })?;
        if ticket.expires <= unix_time().as_secs() {
            return None;
        }
        let credential = match (&ticket.token, guard.needs_token()) {
            (None, false) if ticket.round.is_some() && ticket.round == *self.round.lock() => None,
            (Some(token), true) => {
                let of_file = guard
                    .tokens()
                    .find(|digest| self.fingerprint(digest) == *token);
                let found = of_file.or_else(|| self.remembered.lock().get(token).cloned());
                let found = found.filter(|credential| credential.is_valid())?;
                // The line of the file may have another owner by now.
                (Some(&*found.principal.name) == ticket.name.as_deref()).then_some(Some(found))?
            }
            // Tokens were added or removed since, or the sign-ins by a link were ended.
            _ => return None,
        };
        Some(SignedIn {
            is_operator: credential.is_none(),
            credential,
            expires: ticket.expires,
        })
    }

    /// A cookie for this page of this port, which scripts cannot read.
    pub(super) fn cookie(&self, head: &Parts, value: &str, age: u64) -> Option<HeaderValue> {
        let origin = head.headers.get(ORIGIN).map(HeaderValue::as_bytes);
        let secure = match origin.is_some_and(|origin| origin.starts_with(b"https:")) {
            true => "; Secure",
            false => "",
        };
        let name = cookie_name(head);
        let cookie = format!(
            "{name}={value}; Path={FOLDER}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::try_from(cookie).ok()
    }

    /// A ticket opens with the key of its page only, and at no other server.
    fn purpose(&self, page_key: &str) -> String {
        format!("page\n{}\n{page_key}", self.name)
    }

    /// Names a token without saying anything about it.
    fn fingerprint(&self, digest: &Digest) -> String {
        let mut sealed = self.signer.seal("page token", digest);
        sealed.truncate(FINGERPRINT_LEN);
        sealed
    }

    /// # Errors
    /// If too many are signed in.
    fn remember(
        &self,
        fingerprint: String,
        credential: Arc<Credential>,
    ) -> Result<(), &'static str> {
        let mut remembered = self.remembered.lock();
        remembered.retain(|_, credential| credential.is_valid());
        if remembered.len() >= MAX_REMEMBERED && !remembered.contains_key(&fingerprint) {
            return Err("too many are signed in; try again later");
        }
        remembered.insert(fingerprint, credential);
        Ok(())
    }
}

/// 128 random bits; `None` if there are no random numbers.
fn random() -> Option<String> {
    key::random().map(|random| format!("{random:032x}"))
}

/// Cookies are shared by all ports of a host, so that the name has the port.
fn cookie_name(head: &Parts) -> String {
    let port = host(head).rsplit_once(':').map_or("", |(_, port)| port);
    let port = port
        .parse::<u16>()
        .map_or(String::new(), |port| format!("-{port}"));
    format!("mcp-page{port}")
}

#[cfg(test)]
impl PageSessions {
    /// The link that was printed last.
    pub(super) fn link(&self) -> String {
        self.link.lock().secret.clone().unwrap_or_default()
    }

    /// Makes the last link, and its print, older.
    pub(super) fn age_link(&self, age: Duration) {
        let mut link = self.link.lock();
        let earlier = |at: Instant| at.checked_sub(age);
        link.made = link.made.and_then(earlier);
        link.printed = link.printed.and_then(earlier);
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::Tokens;

    #[tokio::test]
    async fn sign_in_ends_after_its_time_and_when_tokens_are_needed() {
        let sessions = PageSessions::new("x", None, Signer::new([7; 32]));
        let now = unix_time().as_secs();
        let (open, secured) = (
            Guard::new(Tokens::default(), &[]),
            Tokens::parse("ada s3cret"),
        );
        let secured = Guard::new(secured.unwrap(), &[]);
        let round = sessions.round.lock().clone();
        for (expires, guard, round, expected) in [
            (now + 60, &open, round.clone(), true),
            (now, &open, round.clone(), false),
            (now - 60, &open, round.clone(), false),
            // The link of a server without tokens opens nothing once there are some.
            (now + 60, &secured, round.clone(), false),
            // Another process with the same key, or this one before a sign-out.
            (now + 60, &open, random(), false),
            (now + 60, &open, None, false),
        ] {
            let ticket = Ticket {
                expires,
                token: None,
                name: None,
                round,
            };
            let ticket = serde_json::to_vec(&ticket).unwrap();
            let sealed = sessions.signer.seal(&sessions.purpose("k"), &ticket);
            let request = Request::builder()
                .header("host", "localhost:1")
                .header("x-page-key", "k")
                // A cookie of this name that another port has set changes nothing.
                .header("cookie", format!("mcp-page-1=forged; mcp-page-1={sealed}"));
            let (head, ()) = request.body(()).unwrap().into_parts();
            let found = sessions.open(guard, &head).await;
            assert_eq!(found.is_some(), expected, "{expires}");
        }
    }
}
