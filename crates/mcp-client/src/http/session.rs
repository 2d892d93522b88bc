//! The session of the legacy era: the headers that follow from its handshake.

use std::sync::Mutex;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::sync::lock;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The current session; empty in other eras.
#[derive(Default)]
pub(super) struct Session(Mutex<SessionHeaders>);

/// A snapshot of the session's headers for one request.
#[derive(Clone, Default)]
pub(super) struct SessionHeaders {
    /// `Mcp-Session-Id`, if the server issued one.
    pub(super) id: Option<HeaderValue>,
    /// `MCP-Protocol-Version`, after the handshake.
    revision: Option<HeaderValue>,
}

impl Session {
    pub(super) fn headers(&self) -> SessionHeaders {
        lock(&self.0).clone()
    }

    pub(super) fn clear(&self) {
        *lock(&self.0) = SessionHeaders::default();
    }

    /// Stores the id from the response to `initialize`.
    pub(super) fn open(&self, response: &HeaderMap) {
        if let Some(id) = response.get(SESSION_ID) {
            let mut id = id.clone();
            id.set_sensitive(true);
            lock(&self.0).id = Some(id);
        }
    }

    pub(super) fn set_revision(&self, revision: &'static str) {
        lock(&self.0).revision = Some(HeaderValue::from_static(revision));
    }
}

impl SessionHeaders {
    /// Returns true after a handshake.
    pub(super) fn has_revision(&self) -> bool {
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
