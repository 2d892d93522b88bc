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
    /// Cancelled when it is not valid any more.
    pub(crate) revoked: Arc<CancellationToken>,
}

impl Credential {
    pub(crate) fn new(principal: Arc<Principal>, expires: Option<u64>) -> Self {
        Self {
            principal,
            expires,
            revoked: Arc::default(),
        }
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
