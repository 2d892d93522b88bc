//! What both sides have agreed on.

use std::sync::Arc;

use crate::meta::Envelope;
use crate::{ClientInfo, ServerInfo};

/// The state of a connection; empty before there was anything to agree on, which is the plain
/// dialect.
#[derive(Default)]
pub(crate) struct Agreed {
    /// Who we said we are, to say it again.
    pub(crate) who: Option<ClientInfo>,
    /// What the server said it is.
    pub(crate) server: Option<Arc<ServerInfo>>,
    /// What every request says in the modern era; `None` in the others.
    pub(crate) envelope: Option<Envelope>,
}

impl Agreed {
    pub(crate) fn is_modern(&self) -> bool {
        self.envelope.is_some()
    }
}
