//! Lists that come in pages.

use std::collections::HashSet;
use std::pin::Pin;

use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agreed::Agreed;
use crate::discover::HEADER_MISMATCH;
use crate::transport::Transport;
use crate::{Client, Error, Options};

/// More pages than any honest server has.
const MAX_PAGES: usize = 1_000;
/// More items than any host can make use of.
const MAX_ITEMS: usize = 20_000;
/// More than anybody wants to keep of them.
const MAX_BYTES: usize = 64 << 20;

impl Client {
    /// All items of a list, page by page, as the server wrote them: `member` of the results of
    /// `method`, for example `tools` of `tools/list`. All pages together may take the client's
    /// timeout.
    ///
    /// Over HTTP in the modern era, tools whose `x-mcp-header` annotations are not valid are left
    /// out, as the specification wants it; those of the others are kept for later calls.
    ///
    /// # Errors
    /// Those of [`Client::request`], and [`Error::Protocol`] for a list that does not end or is
    /// larger than 20,000 items or 64 MiB.
    pub async fn list(&self, method: &str, member: &str) -> Result<Vec<Box<RawValue>>, Error> {
        let mut items = self
            .in_time(self.timeout(), self.pages(method, member))
            .await?;
        if method == "tools/list"
            && self.era() == Era::Modern
            && matches!(self.0.transport, Transport::Http(_))
        {
            items.retain(|tool| self.0.annotations.learn(self.peer(), tool));
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
            let found = found.ok_or_else(|| self.broken(format!("{method} has no {member}")))?;
            let found: Vec<Box<RawValue>> = self.read(method, found)?;
            bytes += page.get().len();
            items.extend(found);
            let Some(cursor) = &next.cursor else {
                return Ok(items);
            };
            if items.len() > MAX_ITEMS || bytes > MAX_BYTES || !seen.insert(cursor.clone()) {
                break;
            }
        }
        Err(self.broken(format!("{method} does not end")))
    }

    /// Reads the tools again if a call was refused for headers that we did not know of; true if that
    /// was so. Boxed, because reading a list is a request too.
    pub(crate) fn learns_headers<'a>(
        &'a self,
        agreed: &Agreed,
        method: &str,
        error: &Error,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        let code = error.rpc().map(|error| error.code);
        if !agreed.is_modern() || method != "tools/call" || code != Some(HEADER_MISMATCH) {
            return Box::pin(std::future::ready(false));
        }
        Box::pin(async { self.list("tools/list", "tools").await.is_ok() })
    }
}
