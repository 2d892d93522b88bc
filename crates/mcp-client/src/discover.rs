//! `server/discover`: whether a server speaks the modern era.

use mcp_core::era::Era;
use mcp_core::revision::{MODERN, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::agreed::Agreed;
use crate::info::empty_object;
use crate::meta::{Envelope, Params};
use crate::{Client, ClientInfo, Error, Options, ServerInfo};

/// Errors that only a server of the modern era answers with (2026-07-28, "Error Codes").
pub(crate) const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

impl Client {
    /// `None`: the server knows the modern era's manners, but speaks only older revisions.
    pub(crate) async fn discover(&self, who: &ClientInfo) -> Result<Option<ServerInfo>, NotModern> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            supported_versions: Vec<String>,
            capabilities: Option<Box<RawValue>>,
            instructions: Option<String>,
            server_info: Option<Box<RawValue>>,
            #[serde(default, rename = "_meta")]
            meta: Meta,
        }
        #[derive(Default, Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/serverInfo")]
            server_info: Option<Box<RawValue>>,
        }
        let agreed = Agreed {
            envelope: Some(Envelope::new(who).map_err(NotModern)?),
            ..Agreed::default()
        };
        let options = Options::default();
        let ask = || self.attempt(&agreed, "server/discover", Params::Text(None), &options);
        let answer = match ask().await {
            Err(error) => match supported(&error) {
                // It names what we have just said: perhaps it has only now learnt it.
                Some(versions) if versions.iter().any(|v| v == MODERN) => ask().await,
                Some(versions) if versions.iter().any(|v| Revision::parse(v).is_some()) => {
                    return Ok(None);
                }
                _ => Err(error),
            },
            answer => answer,
        };
        let answer = answer.map_err(NotModern)?;
        let answer: Answer = self
            .read("server/discover", answer.get())
            .map_err(NotModern)?;
        if !answer.supported_versions.iter().any(|v| v == MODERN) {
            return Ok(None);
        }
        Ok(Some(ServerInfo {
            era: Era::Modern,
            protocol_version: MODERN.to_owned(),
            capabilities: answer.capabilities.unwrap_or_else(empty_object),
            server_info: answer
                .meta
                .server_info
                .or(answer.server_info)
                .unwrap_or_default(),
            instructions: answer.instructions,
        }))
    }
}

/// Why a server could not be discovered.
pub(crate) struct NotModern(pub(crate) Error);

/// True if the error says no more than that the server does not know what it was asked.
pub(crate) fn says_nothing(error: &Error) -> bool {
    if code(error).is_some_and(|code| (UNSUPPORTED_VERSION..=HEADER_MISMATCH).contains(&code)) {
        return false;
    }
    match error {
        Error::Rpc(_) | Error::Protocol { .. } => true,
        // Those are about the key, the rate, or a proxy without a server behind it.
        Error::Http { status, .. } => !matches!(status, 401 | 403 | 407 | 429 | 502..),
        _ => false,
    }
}

pub(crate) fn code(error: &Error) -> Option<i64> {
    error.rpc().map(|error| error.code)
}

/// The versions that a server names where it refuses ours.
fn supported(error: &Error) -> Option<Vec<String>> {
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
