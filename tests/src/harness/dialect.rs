//! The forms of one request in each era.

use super::{Reply, Server};

/// An era, with the revision in the header for the legacy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Unversioned,
    Legacy(&'static str),
    Modern,
}

const MODERN: &str = "2026-07-28";
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

impl Dialect {
    pub(crate) const ALL: [Self; 6] = [
        Self::Unversioned,
        Self::Legacy("2024-11-05"),
        Self::Legacy("2025-03-26"),
        Self::Legacy("2025-06-18"),
        Self::Legacy("2025-11-25"),
        Self::Modern,
    ];

    /// Returns true if it has the features of `revision`.
    pub(crate) fn supports(self, revision: &str) -> bool {
        match self {
            Self::Unversioned => "2025-03-26" >= revision,
            Self::Legacy(own) => own >= revision,
            Self::Modern => true,
        }
    }

    /// The HTTP status of the response to an invalid message.
    pub(crate) fn malformed_status(self) -> u16 {
        if self == Self::Unversioned { 200 } else { 400 }
    }

    /// The headers of every request.
    pub(crate) fn headers(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Unversioned => Vec::new(),
            Self::Legacy(revision) => vec![("mcp-protocol-version", revision)],
            Self::Modern => vec![("mcp-protocol-version", MODERN)],
        }
    }

    /// The headers of a request, which repeat its method and its name in the modern era.
    pub(crate) fn headers_of<'a>(self, method: &'a str, name: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut headers = self.headers();
        if self == Self::Modern {
            headers.push(("mcp-method", method));
            headers.extend((!name.is_empty()).then_some(("mcp-name", name)));
        }
        headers
    }

    /// The request as JSON text; `members` are those of its `params`, as JSON.
    pub(crate) fn request(self, id: &str, method: &str, members: &str) -> String {
        let params = match (self, members) {
            (Self::Modern, "") => META.to_owned(),
            (Self::Modern, members) => format!("{META},{members}"),
            (_, members) => members.to_owned(),
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
    }
}

impl Server {
    /// Sends a well-formed request; `name` is the tool's, or empty.
    pub(crate) async fn request_as(
        &self,
        dialect: Dialect,
        method: &str,
        name: &str,
        members: &str,
    ) -> Reply {
        self.request_with(&[], dialect, method, name, members).await
    }

    /// As `request_as`, with more headers.
    pub(crate) async fn request_with(
        &self,
        more: &[(&str, &str)],
        dialect: Dialect,
        method: &str,
        name: &str,
        members: &str,
    ) -> Reply {
        let headers = [&dialect.headers_of(method, name)[..], more].concat();
        let body = dialect.request("1", method, members);
        self.post_with(&headers, body).await
    }

    /// Sends `tools/call` with these arguments, as JSON.
    pub(crate) async fn call_as(&self, dialect: Dialect, tool: &str, arguments: &str) -> Reply {
        let members = format!(r#""name":"{tool}","arguments":{arguments}"#);
        self.request_as(dialect, "tools/call", tool, &members).await
    }

    /// Sends any body with the headers of the dialect.
    pub(crate) async fn post_as(&self, dialect: Dialect, body: impl Into<reqwest::Body>) -> Reply {
        self.post_with(&dialect.headers(), body).await
    }
}
