//! Paginated lists, tools and their calls, and the stream of notifications.

use std::collections::HashSet;

use futures_util::future::BoxFuture;
use mcp_core::era::Era;
use mcp_core::jsonrpc::Members;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::connect::{HEADER_MISMATCH, code};
use super::request::Params;
use super::{Client, Negotiated, Transport};
use crate::inbound::ResponseRoutes;
use crate::{Error, Options};

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
    /// Of a list without an end, or of more than 20,000 items or 64 MiB, it returns what was read until then, each item
    /// once.
    ///
    /// # Errors
    /// The errors of [`Client::request`].
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
        let mut items: Vec<Box<RawValue>> = Vec::new();
        let (mut bytes, mut seen, mut known) = (0, HashSet::new(), HashSet::new());
        let mut params = json!({});
        for _ in 0..MAX_PAGES {
            let options = Options::default().timeout(self.timeout());
            let page = self.request_with(method, &params, options).await?;
            let members = Members::read(page.get()).unwrap_or_default();
            let next = members.get("nextCursor").unwrap_or("null");
            let next: Option<String> = self.read(method, next)?;
            let found = members.get(member);
            let found =
                found.ok_or_else(|| self.protocol_error(format!("{method} has no {member}")))?;
            let found: Vec<Box<RawValue>> = self.read(method, found)?;
            bytes += page.get().len();
            let Some(cursor) = next else {
                items.extend(found);
                return Ok(items);
            };
            // The same page again and again: its cursor does not advance.
            let (was_empty, before) = (found.is_empty(), items.len());
            let new = found.into_iter();
            items.extend(new.filter(|item| known.insert(item.get().to_owned())));
            let brings_nothing = !was_empty && items.len() == before;
            let is_full = items.len() > MAX_ITEMS || bytes > MAX_TOTAL_BYTES;
            params = json!({"cursor": cursor});
            if is_full || brings_nothing || !seen.insert(cursor) {
                break;
            }
        }
        let (peer, count) = (self.peer(), items.len());
        tracing::warn!(
            peer,
            method,
            count,
            "its list does not end; what was read is used"
        );
        Ok(items)
    }

    /// Reads the tools again if a call was refused for missing parameter headers; returns true if so.
    /// Boxed, because reading a list is a request too.
    pub(crate) fn refresh_header_params<'a>(
        &'a self,
        negotiated: &Negotiated,
        method: &str,
        error: &Error,
    ) -> BoxFuture<'a, bool> {
        if !negotiated.is_modern || method != "tools/call" || code(error) != Some(HEADER_MISMATCH) {
            return Box::pin(std::future::ready(false));
        }
        Box::pin(async { self.list("tools/list", "tools").await.is_ok() })
    }
}

/// The definition of a tool.
#[derive(Clone, Debug, Deserialize)]
pub struct Tool {
    /// The name to call it by.
    pub name: String,
    /// A description for the model.
    pub description: Option<String>,
    /// Hints about its effects, such as `readOnlyHint`.
    pub annotations: Option<Value>,
    /// The whole definition as the server wrote it.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}

/// The result of a tool call. A tool that failed has one too: see [`CallToolResult::is_error`].
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// The items for the model, in order.
    #[serde(default)]
    pub content: Vec<ContentItem>,
    /// The result as data.
    pub structured_content: Option<Box<RawValue>>,
    /// True if the tool failed; the content gives the reason.
    #[serde(default)]
    pub is_error: bool,
    /// The whole result as the server wrote it.
    #[serde(skip)]
    pub raw: Box<RawValue>,
}

/// One item of content.
#[derive(Clone, Debug, Deserialize)]
pub struct ContentItem {
    /// Its `type`: `text`, `image`, `audio`, `resource`, `resource_link` or something newer.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text of a text item.
    pub text: Option<String>,
}

impl CallToolResult {
    /// The text items, joined by newlines.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|item| item.text.as_deref());
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Client {
    /// All tools of the server; see [`Client::list`].
    ///
    /// # Errors
    /// The errors of [`Client::list`], and [`Error::Protocol`] for a tool without a name.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        let tools = self.list("tools/list", "tools").await?;
        let read = |raw: Box<RawValue>| {
            let tool: Tool = self.read("tools/list", raw.get())?;
            Ok(Tool { raw, ..tool })
        };
        tools.into_iter().map(read).collect()
    }

    /// Calls a tool; `arguments` must serialise to an object.
    ///
    /// # Errors
    /// The errors of [`Client::request`]. A tool that failed is not an error but a result.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &(impl Serialize + Sync + ?Sized),
    ) -> Result<CallToolResult, Error> {
        self.call_tool_with(name, arguments, Options::default())
            .await
    }

    /// Calls a tool with options: its own timeout, or progress reports.
    ///
    /// # Errors
    /// The errors of [`Client::call_tool`].
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: &(impl Serialize + Sync + ?Sized),
        options: Options,
    ) -> Result<CallToolResult, Error> {
        #[derive(Serialize)]
        struct Params<'a, A: ?Sized> {
            name: &'a str,
            arguments: &'a A,
        }
        let params = Params { name, arguments };
        let raw = self.request_with("tools/call", &params, options).await?;
        let result: CallToolResult = self.read("tools/call", raw.get())?;
        Ok(CallToolResult { raw, ..result })
    }
}

/// An open stream of notifications. They reach the client's [handler](crate::Builder::handler) while
/// [`NotificationStream::closed`] is awaited. It keeps the connection open; dropping it closes the
/// stream.
#[must_use]
pub struct NotificationStream(BoxFuture<'static, Result<(), Error>>);

impl NotificationStream {
    /// Reads the stream until the server ends it.
    ///
    /// # Errors
    /// When it breaks and cannot be resumed. Reopening it is left to the caller.
    pub async fn closed(self) -> Result<(), Error> {
        self.0.await
    }
}

impl Client {
    /// Opens the stream of notifications and waits until it is open: later changes are reported.
    ///
    /// In the modern era this is `subscriptions/listen` with `notifications` as its filter (an
    /// object such as `{"toolsListChanged": true}`). In the legacy era it is a GET stream without a
    /// filter, which servers may refuse with HTTP 405. On stdio before the modern era there is
    /// nothing to open, and the stream closes with the child.
    ///
    /// # Errors
    /// The errors of [`Client::request`]; [`Error::Invalid`] over HTTP in the unversioned era, which has
    /// no such stream.
    pub async fn listen(
        &self,
        notifications: &(impl Serialize + Sync + ?Sized),
    ) -> Result<NotificationStream, Error> {
        match (self.era(), &self.0.transport) {
            (Era::Modern, _) => {
                self.subscribe(&json!({"notifications": notifications}))
                    .await
            }
            (Era::Legacy(_), Transport::Http(http)) => {
                let negotiated = self.negotiated();
                let open = || self.with_timeout(self.timeout(), http.open_server_stream());
                let opened = match open().await {
                    Err(Error::SessionLost { .. }) => {
                        self.renew_session(&negotiated).await?;
                        open().await?
                    }
                    opened => opened?,
                };
                Ok(NotificationStream(Box::pin(opened)))
            }
            (Era::Unversioned, Transport::Http(_)) => {
                let why = "a server without a handshake has no notifications to listen to";
                Err(Error::Invalid(why.to_owned()))
            }
            (Era::Legacy(_) | Era::Unversioned, Transport::Stdio(_)) => {
                let client = self.clone();
                Ok(NotificationStream(Box::pin(async move {
                    client.closed().await;
                    Ok(())
                })))
            }
        }
    }

    async fn subscribe(&self, params: &serde_json::Value) -> Result<NotificationStream, Error> {
        let (params, options) = (params.to_string(), Options::default());
        let params = Params::Text(Some(&params));
        let negotiated = self.negotiated();
        let (request, _) =
            self.compose(&negotiated, "subscriptions/listen", params, &options, None)?;
        let (sender, mut acknowledged) = mpsc::channel(1);
        let client = self.clone();
        let mut stream = Box::pin(async move {
            let routes = ResponseRoutes::subscription(sender);
            client.exchange(request, routes).await.map(drop)
        });
        let opening = async {
            tokio::select! {
                biased;
                _ = acknowledged.recv() => Ok(()),
                ended = &mut stream => {
                    ended?;
                    Err(self.protocol_error("it ended a subscription before it began"))
                }
            }
        };
        self.with_timeout(self.timeout(), opening).await?;
        Ok(NotificationStream(stream))
    }
}
