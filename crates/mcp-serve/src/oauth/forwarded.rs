//! Tokens of issuers that other replicas have verified, for the requests that they forward.

use std::collections::HashMap;
use std::sync::Arc;

use mcp_core::server::Principal;
use parking_lot::Mutex;

use super::MAX_REMEMBERED;
use crate::tokens::Credential;

/// The owner of a token, and its end.
type TokenKey = (Arc<str>, u64);

/// Their credentials, by owner and end, so that all streams of a token end with it.
#[derive(Default)]
pub(super) struct ForwardedTokens(Mutex<HashMap<TokenKey, Arc<Credential>>>);

impl ForwardedTokens {
    /// Returns the credential of a token that ends at `expires`; `None` if that is over.
    pub(super) fn credential(&self, owner: Principal, expires: u64) -> Option<Arc<Credential>> {
        let mut known = self.0.lock();
        let key = (Arc::clone(&owner.name), expires);
        if let Some(found) = known.get(&key)
            && *found.principal == owner
        {
            return found.is_valid().then(|| Arc::clone(found));
        }
        let credential = Arc::new(Credential::new(Arc::new(owner), Some(expires)));
        if !credential.is_valid() {
            return None;
        }
        if known.len() >= MAX_REMEMBERED {
            let first = known.keys().min_by_key(|(_, end)| *end).cloned();
            if let Some(ended) = first.and_then(|first| known.remove(&first)) {
                ended.revoked.cancel();
            }
        }
        if let Some(other) = known.insert(key, Arc::clone(&credential)) {
            // Other claims, by a token that ends at the same second: whose streams these are is not known.
            other.revoked.cancel();
        }
        Some(credential)
    }

    /// Ends the streams of tokens that have ended.
    pub(super) fn sweep(&self) {
        self.0.lock().retain(|_, known| known.is_valid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::unix_time;

    #[test]
    fn forwarded_token_is_shared_and_ends_in_time() {
        let (tokens, now) = (ForwardedTokens::default(), unix_time().as_secs());
        let owner = || Principal {
            claims: vec!["group:a".into()],
            ..Principal::new("https://a b")
        };
        let credential = tokens.credential(owner(), now + 60).unwrap();
        let again = tokens.credential(owner(), now + 60).unwrap();
        assert!(Arc::ptr_eq(&credential, &again));
        let other = tokens.credential(owner(), now + 61).unwrap();
        assert!(!Arc::ptr_eq(&credential, &other));
        assert!(tokens.credential(owner(), now).is_none());
        // The same second, and other rights.
        let less = tokens.credential(Principal::new("https://a b"), now + 60);
        assert!(less.unwrap().principal.claims.is_empty());
        assert!(credential.revoked.is_cancelled() && !other.revoked.is_cancelled());
        other.revoked.cancel();
        tokens.sweep();
        assert_eq!(tokens.0.lock().len(), 1);
    }
}
