//! The credential of a request: its owner, and the end of its validity.

use std::sync::Arc;

use mcp_core::server::Principal;
use tokio_util::sync::CancellationToken;

use crate::clock::unix_time;

/// The credential of a request.
pub(crate) struct Credential {
    /// Its owner.
    pub(crate) principal: Arc<Principal>,
    /// The time at which it ends, in seconds since 1970.
    expires: Option<u64>,
    /// The hash of a token of the token file; `None` for one of an issuer.
    digest: Option<[u8; 32]>,
    /// Cancelled when it is not valid any more.
    pub(crate) revoked: Arc<CancellationToken>,
}

impl Credential {
    pub(crate) fn new(principal: Arc<Principal>, expires: Option<u64>) -> Self {
        Self {
            principal,
            expires,
            digest: None,
            revoked: Arc::default(),
        }
    }

    /// The same for a token of the token file.
    pub(super) fn with_digest(self, digest: [u8; 32]) -> Self {
        let digest = Some(digest);
        Self { digest, ..self }
    }

    /// The hash of its token, if that is in the token file.
    pub(crate) fn digest(&self) -> Option<&[u8; 32]> {
        self.digest.as_ref()
    }

    /// Returns true until it is revoked or has expired. Ends its streams when it has expired.
    pub(crate) fn is_valid(&self) -> bool {
        let has_expired = || {
            self.expires
                .is_some_and(|expires| unix_time().as_secs() >= expires)
        };
        if has_expired() {
            self.revoked.cancel();
        }
        !self.revoked.is_cancelled()
    }

    /// The time at which it ends, in seconds since 1970.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// Returns true if both have the same owner and the same end.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.principal == other.principal && self.expires == other.expires
    }
}
