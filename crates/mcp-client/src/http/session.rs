//! What a handshake leaves behind: the headers that every later request carries.

use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The state of the handshake; empty in the plain dialect.
#[derive(Default)]
pub(super) struct Session(Mutex<Headers>);

/// A snapshot of it, taken for one request.
#[derive(Clone, Default)]
pub(super) struct Headers {
    /// `Mcp-Session-Id`, if the server issued one.
    pub(super) id: Option<HeaderValue>,
    /// `MCP-Protocol-Version`, once it is agreed.
    revision: Option<HeaderValue>,
}

impl Session {
    pub(super) fn headers(&self) -> Headers {
        self.lock().clone()
    }

    pub(super) fn forget(&self) {
        *self.lock() = Headers::default();
    }

    /// Keeps the id from the answer to `initialize`.
    pub(super) fn open(&self, answer: &HeaderMap) {
        if let Some(id) = answer.get(SESSION_ID) {
            let mut id = id.clone();
            id.set_sensitive(true);
            self.lock().id = Some(id);
        }
    }

    pub(super) fn agree_on(&self, revision: &'static str) {
        self.lock().revision = Some(HeaderValue::from_static(revision));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Headers> {
        // Nothing that panics runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Headers {
    /// True once there was a handshake.
    pub(super) fn agreed(&self) -> bool {
        self.revision.is_some()
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(revision) = &self.revision {
            headers.insert(PROTOCOL_VERSION, revision.clone());
        }
    }
}
