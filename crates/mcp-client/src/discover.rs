//! Finds out by `server/discover` whether a server supports the modern era.

use mcp_core::era::Era;
use mcp_core::revision::{MODERN, Revision};
use serde::Deserialize;

use crate::client::Negotiated;
use crate::info::HandshakeResult;
use crate::meta::{Envelope, Params};
use crate::{Client, ClientInfo, Error, Options, ServerInfo};

/// Error codes that only a server of the modern era uses (2026-07-28, "Error Codes").
pub(crate) const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

impl Client {
    /// Sends `server/discover`. Returns `None` if the server knows the method, but supports only
    /// older revisions.
    pub(crate) async fn discover(&self, client: &ClientInfo) -> Result<Option<ServerInfo>, Error> {
        const METHOD: &str = "server/discover";
        let negotiated = Negotiated {
            envelope: Some(Envelope::new(client)?),
            ..Negotiated::default()
        };
        let options = Options::default();
        let send = || self.send_once(&negotiated, METHOD, Params::Text(None), &options);
        let result = match send().await {
            Err(error) => match supported_versions(&error) {
                // It names the version that we have just used: perhaps it was still starting.
                Some(versions) if versions.iter().any(|v| v == MODERN) => send().await?,
                Some(versions) if versions.iter().any(|v| Revision::parse(v).is_some()) => {
                    return Ok(None);
                }
                _ => return Err(error),
            },
            Ok(result) => result,
        };
        let result: HandshakeResult = self.read(METHOD, result.get())?;
        let is_modern = result.supported_versions.iter().any(|v| v == MODERN);
        Ok(is_modern.then(|| result.into_server_info(Era::Modern)))
    }
}

/// Returns true if the error only means that the server does not know the method.
pub(crate) fn suggests_older_server(error: &Error) -> bool {
    if code(error).is_some_and(|code| (UNSUPPORTED_VERSION..=HEADER_MISMATCH).contains(&code)) {
        return false;
    }
    match error {
        Error::Rpc(_) | Error::Protocol { .. } | Error::InvalidAnswer { .. } => true,
        // Excluded: wrong key, rate limit, or a proxy without a server behind it.
        Error::Http { status, .. } => !matches!(status, 401 | 403 | 407 | 429 | 502..),
        _ => false,
    }
}

pub(crate) fn code(error: &Error) -> Option<i64> {
    error.rpc().map(|error| error.code)
}

/// The versions that a server names when it refuses ours.
fn supported_versions(error: &Error) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let error = error
        .rpc()
        .filter(|error| error.code == UNSUPPORTED_VERSION)?;
    let data: Data = serde_json::from_str(error.data.as_ref()?.get()).ok()?;
    Some(data.supported)
}
