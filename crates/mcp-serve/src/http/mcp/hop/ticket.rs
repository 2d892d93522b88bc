//! The signed header of a hop: which request it is, and who the client is.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hmac_sha256::Hash;
use mcp_core::server::{Principal, ReplicaId};
use mcp_core::sign::Signer;
use serde::{Deserialize, Serialize};

use super::super::super::headers::HeaderFacts;
use super::HopRequest;
use crate::clock::unix_time;
use crate::http::mcp::authenticated::{Authenticated, ViewOwner};
use crate::tokens::Credential;

/// The purpose of the signature.
const PURPOSE: &str = "hop";
/// The time for which a ticket is valid. The clocks of replicas may differ by as much.
const LIFETIME: Duration = Duration::from_secs(5 * 60);

/// A ticket for one request at one replica.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::http) struct HopTicket {
    /// The id of the replica that accepts it.
    to: String,
    /// Seconds since 1970.
    time: u64,
    method: String,
    path: String,
    /// The SHA-256 hash of the body.
    body: [u8; 32],
    principal: Option<TicketPrincipal>,
    view: Option<String>,
    address: IpAddr,
}

#[derive(Debug, Serialize, Deserialize)]
struct TicketPrincipal {
    name: String,
    is_named: bool,
    claims: Vec<String>,
}

impl HopTicket {
    pub(super) fn new(to: ReplicaId, request: &HopRequest<'_>, path: &str) -> Self {
        let client = request.client;
        let principal = client.principal().map(|principal| TicketPrincipal {
            name: principal.name.to_string(),
            is_named: principal.is_named,
            claims: principal.claims.iter().map(ToString::to_string).collect(),
        });
        Self {
            to: to.to_string(),
            time: unix_time().as_secs(),
            method: request.method.to_string(),
            path: path.to_owned(),
            body: Hash::hash(&request.body),
            principal,
            view: client.view().map(ToString::to_string),
            address: client.address,
        }
    }

    pub(super) fn seal(&self, signer: &Signer) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        signer.seal(PURPOSE, &json)
    }

    /// Returns the ticket, if a replica has sealed it.
    pub(super) fn open(signer: &Signer, sealed: &[u8]) -> Option<Self> {
        let json = signer.open(PURPOSE, str::from_utf8(sealed).ok()?)?;
        serde_json::from_slice(&json).ok()
    }

    /// Returns true if it is valid now, for this request at this replica.
    pub(super) fn is_for(&self, replica: ReplicaId, method: &str, path: &str) -> bool {
        let age = unix_time().as_secs().abs_diff(self.time);
        self.to == replica.to_string()
            && self.method == method
            && self.path == path
            && age <= LIFETIME.as_secs()
    }

    /// Returns the client that the other replica has authenticated.
    pub(super) fn into_client(self, headers: HeaderFacts) -> Authenticated {
        let principal = self.principal.map(|principal| {
            Arc::new(Principal {
                name: principal.name.into(),
                is_named: principal.is_named,
                claims: principal.claims.into_iter().map(Into::into).collect(),
            })
        });
        let view = self
            .view
            .map(|name| ViewOwner::new(name.into(), principal.as_deref()));
        Authenticated {
            credential: principal.map(|principal| Arc::new(Credential::new(principal, None))),
            address: self.address,
            headers,
            view,
            forwarded_body: Some(Box::new(self.body)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket() -> HopTicket {
        HopTicket {
            to: ReplicaId::new(7).to_string(),
            time: unix_time().as_secs(),
            method: "POST".to_owned(),
            path: "/mcp".to_owned(),
            body: Hash::hash(b"{}"),
            principal: None,
            view: None,
            address: [127, 0, 0, 1].into(),
        }
    }

    #[test]
    fn ticket_is_valid_for_one_request_at_one_replica_and_not_for_long() {
        let (to, signer) = (ReplicaId::new(7), Signer::new([1; 32]));
        let sealed = ticket().seal(&signer);
        let opened = HopTicket::open(&signer, sealed.as_bytes()).unwrap();
        assert!(opened.is_for(to, "POST", "/mcp"));
        assert!(!opened.is_for(ReplicaId::new(8), "POST", "/mcp"));
        assert!(!opened.is_for(to, "DELETE", "/mcp"));
        assert!(!opened.is_for(to, "POST", "/mcp/view"));
        let other = Signer::new([2; 32]);
        assert!(HopTicket::open(&other, sealed.as_bytes()).is_none());
        // A session id or a requestState is no ticket.
        let state = signer.seal("requestState", &serde_json::to_vec(&ticket()).unwrap());
        assert!(HopTicket::open(&signer, state.as_bytes()).is_none());
        for skew in [-301_i64, -299, 299, 301] {
            let time = unix_time().as_secs().saturating_add_signed(skew);
            let ticket = HopTicket { time, ..ticket() };
            assert_eq!(
                ticket.is_for(to, "POST", "/mcp"),
                skew.abs() < 300,
                "{skew}"
            );
        }
    }
}
