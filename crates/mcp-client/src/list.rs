//! Reads paginated lists.

use std::collections::HashSet;
use std::pin::Pin;

use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::Negotiated;
use crate::connect::{HEADER_MISMATCH, code};
use crate::transport::Transport;
use crate::{Client, Error, Options};

/// Limits of a list: more than any correct server sends and any host can use.
const MAX_PAGES: usize = 1_000;
const MAX_ITEMS: usize = 20_000;
const MAX_TOTAL_BYTES: usize = 64 << 20;

impl Client {
    /// Reads all pages of a list and returns the items as the server wrote them: `member` of the
    /// results of `method`, for example `tools` of `tools/list`. The client's timeout is that of all
    /// pages together.
    ///
    /// Over HTTP in the modern era, tools with invalid `x-mcp-header` annotations are left out, as the
    /// specification demands; those of the others are stored for later calls.
    ///
    /// # Errors
    /// The errors of [`Client::request`], and [`Error::Protocol`] for a list without an end or of more than
    /// 20,000 items or 64 MiB.
    pub async fn list(&self, method: &str, member: &str) -> Result<Vec<Box<RawValue>>, Error> {
        let mut items = self
            .with_timeout(self.timeout(), self.pages(method, member))
            .await?;
        if method == "tools/list"
            && self.era() == Era::Modern
            && matches!(self.0.transport, Transport::Http(_))
        {
            items.retain(|tool| self.0.header_params.register(self.peer(), tool));
        }
        Ok(items)
    }

    async fn pages(&self, method: &str, member: &str) -> Result<Vec<Box<RawValue>>, Error> {
        #[derive(Serialize)]
        struct Params<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'a str>,
        }
        #[derive(Deserialize)]
        struct Next {
            #[serde(default, rename = "nextCursor")]
            cursor: Option<String>,
        }

        let mut items: Vec<Box<RawValue>> = Vec::new();
        let (mut bytes, mut seen) = (0, HashSet::new());
        let mut next: Next = Next { cursor: None };
        for _ in 0..MAX_PAGES {
            let params = Params {
                cursor: next.cursor.as_deref(),
            };
            let options = Options::default().timeout(self.timeout());
            let page = self.request_with(method, &params, options).await?;
            next = self.read(method, page.get())?;
            let members = Members::read(page.get()).unwrap_or_default();
            let found = members.get(member);
            let found =
                found.ok_or_else(|| self.protocol_error(format!("{method} has no {member}")))?;
            let found: Vec<Box<RawValue>> = self.read(method, found)?;
            bytes += page.get().len();
            items.extend(found);
            let Some(cursor) = &next.cursor else {
                return Ok(items);
            };
            if items.len() > MAX_ITEMS || bytes > MAX_TOTAL_BYTES || !seen.insert(cursor.clone()) {
                break;
            }
        }
        Err(self.protocol_error(format!("{method} does not end")))
    }

    /// Reads the tools again if a call was refused for missing parameter headers; returns true if so.
    /// Boxed, because reading a list is a request too.
    pub(crate) fn refresh_header_params<'a>(
        &'a self,
        negotiated: &Negotiated,
        method: &str,
        error: &Error,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        if !negotiated.is_modern() || method != "tools/call" || code(error) != Some(HEADER_MISMATCH)
        {
            return Box::pin(std::future::ready(false));
        }
        Box::pin(async { self.list("tools/list", "tools").await.is_ok() })
    }
}
