//! The content of a service on the page, beside its tools.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_core::server::Principal;

use crate::config::SetOption;

/// Content of the page of a server, beside the tools.
#[derive(Default)]
pub(crate) struct PageContent {
    pub(crate) data: Option<Arc<dyn PageData>>,
    /// The options of the server that are set.
    pub(crate) options: Vec<SetOption>,
}

/// The content of a service on the page, beside its tools. The service decides what each caller may see and do. A caller
/// is the owner of a token; `None` where no token is required.
pub trait PageData: Send + Sync {
    /// Two numbers that change with what happens and may be known to this caller, and with the lists of the server. The
    /// page then asks again.
    fn revision(&self, caller: Option<&Arc<Principal>>) -> (u64, u64);

    /// Answers a request about `topic` with a status and JSON.
    fn answer<'a>(
        &'a self,
        topic: &'a str,
        caller: Option<&'a Arc<Principal>>,
        body: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)>;
}
