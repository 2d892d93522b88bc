//! The era of 2026-07-28: no handshake and no session, every request describes itself.

mod envelope;
mod headers;
mod subscriptions;

use serde_json::json;

use super::{Outcome, Server};
use crate::era::{Era, Hints};
use crate::error::{Error, supported_versions};
use crate::jsonrpc::{Json, Request};
use crate::tool::Call;

/// How long a list may be cached, in milliseconds. Lists are fixed while the server runs; the bound
/// is what a client sees late after an upgrade.
const LIST_TTL: u32 = 300_000;

impl Server {
    /// One request. What is wrong with the envelope is told before anything is done.
    pub(super) async fn modern(
        &self,
        request: &Request<'_>,
        hints: &Hints<'_>,
        call: &Call,
    ) -> Result<Outcome, Error> {
        envelope::check(request.params, hints)?;
        headers::check(request, hints)?;
        match &*request.method {
            "server/discover" => Ok(self.discover().into()),
            "tools/list" => {
                self.check_cursor(request.params)?;
                Ok(self.cacheable(self.catalogue.tools_member.as_str()).into())
            }
            "tools/call" => {
                let outcome = self.call_tool(request.params, Era::Modern, call).await?;
                Ok(Outcome {
                    json: self.complete(&outcome.json),
                    ..outcome
                })
            }
            "subscriptions/listen" => self.listen(request, call).await,
            unknown => Err(Error::MethodNotFound(unknown.to_owned())),
        }
    }

    /// `server/discover` (2026-07-28, "Discovery").
    fn discover(&self) -> Json {
        let versions = json!(supported_versions());
        self.cacheable(&format!(
            r#""supportedVersions":{versions},"capabilities":{{"tools":{{}}}}"#
        ))
    }

    /// A complete result out of `members`, with the hints for caches.
    fn cacheable(&self, members: &str) -> Json {
        let meta = &self.modern_meta;
        Json::Owned(format!(
            r#"{{"resultType":"complete","ttlMs":{LIST_TTL},"cacheScope":"public",{meta},{members}}}"#
        ))
    }

    /// The result `json`, said to be complete.
    fn complete(&self, json: &Json) -> Json {
        let members = json.as_str().strip_prefix('{').unwrap_or_default();
        let comma = if members == "}" { "" } else { "," };
        Json::Owned(format!(
            r#"{{"resultType":"complete",{}{comma}{members}"#,
            self.modern_meta
        ))
    }
}
