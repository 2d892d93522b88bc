//! The signed header of a hop: which request it is, and who the client is.
//!
//! It covers all that the receiver acts on: method, path with query, forwarded headers and body. It is valid for one
//! replica, once, and for some seconds by the clock of the database.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hmac_sha256::Hash;
use http::header::HeaderMap;
use mcp_core::server::{Principal, ReplicaId};
use mcp_core::sign::Signer;
use serde::{Deserialize, Serialize};

use super::super::super::headers::is_forwarded;
use super::HopRequest;
use super::refusal::HopRefusal;
use crate::http::mcp::authenticated::Authenticated;
use crate::tokens::Digest;

/// The form of a ticket, with which its header begins. A replica takes no other: another one is of another version.
const VERSION: &str = "2";
/// The purpose of the signature.
const PURPOSE: &str = "hop 2";
/// The time for which a ticket is valid, before and after its time: replicas know the time of the database to within the
/// duration of a query.
pub(super) const LIFETIME: Duration = Duration::from_secs(10);
/// The longest ticket. One of a client whose access token has the most claims fits.
const MAX_TICKET_BYTES: usize = 24 * 1024;

/// A ticket for one request at one replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::http) struct HopTicket {
    /// The id of the replica that accepts it.
    to: String,
    /// The time since 1970 by the clock of the database.
    time: Duration,
    nonce: u64,
    method: String,
    /// The path with its query.
    target: String,
    /// The hash of the forwarded headers.
    headers: [u8; 32],
    /// The SHA-256 hash of the body.
    pub(in crate::http) body: [u8; 32],
    pub(in crate::http) client: TicketClient,
}

/// The client of a hop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::http) struct TicketClient {
    principal: Option<TicketPrincipal>,
    /// The name of its token; `None` for one of an issuer.
    token: Option<String>,
    /// The end of its token, in seconds since 1970.
    pub(in crate::http) expires: Option<u64>,
    pub(in crate::http) view: Option<String>,
    pub(in crate::http) address: IpAddr,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TicketPrincipal {
    name: String,
    is_named: bool,
    claims: Vec<String>,
}

/// The receiver of a ticket, and what it knows of the request.
pub(super) struct Receiver<'a> {
    pub(super) replica: ReplicaId,
    /// By the clock of the database.
    pub(super) now: Duration,
    pub(super) method: &'a str,
    pub(super) target: &'a str,
    pub(super) headers: &'a HeaderMap,
}

impl HopTicket {
    /// A ticket that is made at `time`, for a request to `target`.
    pub(super) fn new(
        (to, time, nonce): (ReplicaId, Duration, u64),
        request: &HopRequest<'_>,
        target: &str,
        signer: &Signer,
    ) -> Self {
        Self {
            to: to.to_string(),
            time,
            nonce,
            method: request.method.to_string(),
            target: target.to_owned(),
            headers: hash(&request.headers),
            body: Hash::hash(&request.body),
            client: TicketClient::new(request.client, signer),
        }
    }

    /// Returns the value of the header; `None` if no replica would take it, since it is too long.
    pub(super) fn seal(&self, signer: &Signer) -> Option<String> {
        let json = serde_json::to_vec(self).ok()?;
        let sealed = format!("{VERSION}.{}", signer.seal(PURPOSE, &json));
        (sealed.len() <= MAX_TICKET_BYTES).then_some(sealed)
    }

    /// Returns the ticket of a header that a replica has sealed.
    pub(super) fn open(signer: &Signer, header: &[u8]) -> Result<Self, HopRefusal> {
        if header.len() > MAX_TICKET_BYTES {
            return Err(HopRefusal::Signature);
        }
        let header = str::from_utf8(header).map_err(|_| HopRefusal::Signature)?;
        let (version, sealed) = header.split_once('.').ok_or(HopRefusal::Version)?;
        if version != VERSION {
            return Err(HopRefusal::Version);
        }
        let json = signer.open(PURPOSE, sealed).ok_or(HopRefusal::Signature)?;
        serde_json::from_slice(&json).map_err(|_| HopRefusal::Version)
    }

    /// Checks that it is valid now, for this request at this replica. Whether it was used before is another question.
    pub(super) fn check(&self, receiver: &Receiver<'_>) -> Result<(), HopRefusal> {
        if self.to != receiver.replica.to_string() {
            return Err(HopRefusal::Replica);
        }
        let is_same = self.method == receiver.method
            && self.target == receiver.target
            && self.headers == hash(receiver.headers);
        if !is_same {
            return Err(HopRefusal::Request);
        }
        match self.time.abs_diff(receiver.now) <= LIFETIME {
            true => Ok(()),
            false => Err(HopRefusal::Time),
        }
    }

    /// Its time and number, which no other ticket has.
    pub(super) fn nonce(&self) -> (Duration, u64) {
        (self.time, self.nonce)
    }
}

impl TicketClient {
    fn new(client: &Authenticated, signer: &Signer) -> Self {
        let credential = client.credential.as_deref();
        let principal = client.principal().map(|principal| TicketPrincipal {
            name: principal.name.to_string(),
            is_named: principal.is_named,
            claims: principal.claims.iter().map(ToString::to_string).collect(),
        });
        let digest = credential.and_then(|credential| credential.digest());
        Self {
            principal,
            token: digest.map(|digest| token_name(signer, digest)),
            expires: credential.and_then(|credential| credential.expires()),
            view: client.view().map(ToString::to_string),
            address: client.address,
        }
    }

    /// The owner of its token.
    pub(in crate::http) fn principal(&self) -> Option<Principal> {
        let principal = self.principal.as_ref()?;
        Some(Principal {
            is_named: principal.is_named,
            claims: principal
                .claims
                .iter()
                .map(|claim| Arc::from(&**claim))
                .collect(),
            ..Principal::new(&*principal.name)
        })
    }

    /// Returns true if its token is one of an issuer.
    pub(in crate::http) fn is_of_issuer(&self) -> bool {
        self.token.is_none()
    }

    /// Returns true if its token is the one with this digest.
    pub(in crate::http) fn has_token(&self, signer: &Signer, digest: &Digest) -> bool {
        self.token.as_ref() == Some(&token_name(signer, digest))
    }
}

/// Names a token without saying anything about it to those without the key.
fn token_name(signer: &Signer, digest: &Digest) -> String {
    let mac = signer.seal("token of a hop", digest);
    // The hash of the signature: what it signs is at its end.
    let hash = Hash::hash(mac.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The hash of the forwarded headers, in an order that does not depend on the way.
fn hash(headers: &HeaderMap) -> [u8; 32] {
    let forwarded = headers.iter().filter(|(name, _)| is_forwarded(name));
    let mut fields: Vec<_> = forwarded
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    // Stable: the order of the values of one name has a meaning.
    fields.sort_by_key(|(name, _)| *name);
    let mut hash = Hash::new();
    for part in fields
        .into_iter()
        .flat_map(|(name, value)| [name.as_bytes(), value])
    {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()
}

#[cfg(test)]
mod tests;
