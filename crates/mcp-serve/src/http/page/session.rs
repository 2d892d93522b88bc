//! The sign-in of the page: a token or a one-time link is exchanged for a signed cookie and a key, which together
//! are valid for 8 h, on the paths of the page only. Tokens of the file are found again by their fingerprint, so that
//! processes with one key share these sign-ins. Sign-ins by the link ([`super::link`]) and by access tokens of OAuth
//! issuers are of one process, and remembered here.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::{COOKIE, ORIGIN};
use http::request::Parts;
use mcp_core::sign::Signer;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::guard::Guard;
use super::link::{Links, random};
use super::{FOLDER, KEY, host};
use crate::clock::unix_time;
use crate::tokens::{Credential, Digest, LastToken, digest};

/// Seconds for which a sign-in is valid.
const MAX_AGE: u64 = 8 * 60 * 60;

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
    /// The name of a sign-in by the one-time link.
    round: Option<String>,
}

/// A person who has signed in.
pub(super) struct SignedIn {
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) is_operator: bool,
    /// Seconds since 1970.
    pub(super) expires: u64,
    /// The name of a sign-in by a link.
    link: Option<String>,
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
    links: Links,
    /// The access tokens of OAuth issuers, by fingerprint: these are not in a file.
    remembered: Mutex<HashMap<String, Arc<Credential>>>,
}

impl PageSessions {
    pub(super) fn new(name: &str, url: Option<String>, signer: Signer) -> Self {
        Self {
            links: Links::new(),
            signer,
            name: name.to_owned(),
            url,
            remembered: Mutex::default(),
        }
    }

    pub(super) fn announce(&self, guard: &Guard) {
        if guard.needs_token() {
            let place = self.url.as_deref().unwrap_or("/, by HTTPS or localhost");
            tracing::info!("the page is at {place}; sign in with a token");
        } else {
            self.links.print(false, |secret| self.print(secret));
        }
    }

    /// Prints a link that works, unless one was printed a moment ago. Returns false if there is none.
    pub(super) fn new_link(&self, guard: &Guard) -> bool {
        !guard.needs_token() && self.links.print(true, |secret| self.print(secret))
    }

    /// Not in the log, whose level may hide it. `secret=` marks a secret for those who redact logs.
    fn print(&self, secret: &str) {
        let how = match &self.url {
            Some(url) => format!("open {url}#secret={secret} to see the page"),
            None => format!(
                "to see the page, open / of this server by HTTPS or as localhost, with #secret={secret}"
            ),
        };
        let text = format!("{}: {how} (works once, for 10 min)", self.name);
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// Ends a sign-in by a link.
    pub(super) fn end_link(&self, signed_in: &SignedIn) {
        if signed_in.link.is_some() {
            self.links.sign_out();
        }
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
            ) => (None, None, self.links.sign_in(&given)?),
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
            (None, false) => {
                let name = ticket.round.as_deref();
                name.filter(|name| self.links.has_sign_in(name))?;
                None
            }
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
            link: ticket.round,
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
    pub(super) fn links(&self) -> &Links {
        &self.links
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
            Tokens::parse("ada s3cret-of-16-chars"),
        );
        let secured = Guard::new(secured.unwrap(), &[]);
        let round = sessions.links.round();
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
