//! The client of a request, once its token is known.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use mcp_core::server::Principal;
use tokio_util::sync::CancellationToken;

use crate::http::headers::HeaderFacts;
use crate::http::stream_slots::Revocation;
use crate::tokens::Credential;

/// An authenticated request.
pub(in crate::http) struct Authenticated {
    /// `None` where no token is required.
    pub(in crate::http) credential: Option<Arc<Credential>>,
    pub(in crate::http) address: IpAddr,
    pub(in crate::http) headers: HeaderFacts,
    /// The view that its path names.
    pub(in crate::http) view: Option<ViewOwner>,
}

/// A view, and the owner of the sessions of one client there.
#[derive(Clone)]
pub(in crate::http) struct ViewOwner {
    pub(in crate::http) name: Arc<str>,
    owner: String,
}

impl ViewOwner {
    /// The view of this name, used by the owner of a token.
    pub(in crate::http) fn new(name: Arc<str>, principal: Option<&Principal>) -> Self {
        let principal = principal.map_or("", |principal| &principal.name);
        // No name has a line end.
        let owner = format!("{principal}\n{name}");
        Self { name, owner }
    }
}

impl Authenticated {
    /// The owner of its token; `None` where no token is required.
    pub(in crate::http) fn principal(&self) -> Option<&Arc<Principal>> {
        self.credential
            .as_ref()
            .map(|credential| &credential.principal)
    }

    /// The owner of its sessions: its principal, which is empty where no token is required, in its view.
    pub(in crate::http) fn owner(&self) -> &str {
        match &self.view {
            Some(view) => &view.owner,
            None => self.principal().map_or("", |principal| &principal.name),
        }
    }

    /// The name of its view.
    pub(in crate::http) fn view(&self) -> Option<&Arc<str>> {
        self.view.as_ref().map(|view| &view.name)
    }

    /// The name by which limits are counted: that of its principal if tokens are required, else its address. A client
    /// with IPv6 has a whole network of 64 bits.
    pub(in crate::http) fn share(&self) -> String {
        if let Some(principal) = self.principal() {
            return principal.name.to_string();
        }
        match self.address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                format!("{}/64", Ipv6Addr::from_bits(network))
            }
        }
    }

    /// Cancelled when its token is not valid any more; `None` where no token is required.
    pub(super) fn revoked(&self) -> Option<&Arc<CancellationToken>> {
        let credential = self.credential.as_ref();
        credential.map(|credential| &credential.revoked)
    }

    /// Returns the revocation of its token, which ends its streams.
    pub(in crate::http) fn revocation(&self) -> Revocation {
        Revocation::new(self.revoked().map(|revoked| (**revoked).clone()))
    }
}
