//! The era of 2026-07-28: no handshake and no session, every request describes itself.

mod envelope;
mod headers;
mod params;
mod rounds;
mod subscriptions;

use std::borrow::Cow;

use serde_json::json;

use super::{Outcome, Server, tasks};
use crate::era::{Era, Hints};
use crate::error::{Error, supported_versions};
use crate::jsonrpc::{Json, Request};
use crate::tool::Call;

/// How long a list may be cached, in milliseconds, where changes are announced or never happen. It
/// bounds what a client sees late after an upgrade.
const LIST_TTL: u32 = 300_000;

impl Server {
    /// One request. What is wrong with the envelope is told before anything is done.
    pub(super) async fn modern(
        &self,
        request: &Request<'_>,
        hints: &Hints<'_>,
        call: Call,
    ) -> Result<Outcome, Error> {
        let envelope = envelope::read(request.params, hints)?;
        headers::check(request, hints)?;
        self.check_mirrored(request, hints)?;
        let call = call
            .with_log_level(envelope.log_level)
            .with_tasks(envelope.knows_tasks);
        let params = request.params;
        match &*request.method {
            "server/discover" => Ok(self.discover().into()),
            "tools/list" => {
                self.check_cursor(params)?;
                let offered = self.offered();
                Ok(self
                    .cacheable(offered.catalogue.tools_member.as_str())
                    .into())
            }
            "tools/call" | "resources/read" | "prompts/get" => {
                let round = self.round(request, envelope.capabilities)?;
                let call = round.of(call);
                let outcome = match &*request.method {
                    "tools/call" => self.call_tool(params, Era::Modern, &call).await,
                    "resources/read" => self.read_resource(params, Era::Modern, &call).await,
                    _ => self.get_prompt(params, Era::Modern, &call).await,
                }?;
                Ok(match outcome.questions {
                    Some(questions) => self.input_required(&round, questions).into(),
                    // What a resource holds changes without notice, so it is stale at once.
                    None if &*request.method == "resources/read" => self
                        .decorate("complete", r#""ttlMs":0,"cacheScope":"private","#, &outcome)
                        .into(),
                    None if outcome.is_task => self.decorate("task", "", &outcome).into(),
                    None => Outcome {
                        json: self.decorate("complete", "", &outcome),
                        ..outcome
                    },
                })
            }
            "resources/list" if self.has_resources() => {
                self.check_cursor(params)?;
                Ok(self.cacheable_list(&self.offered().resource_list).into())
            }
            "resources/templates/list" if self.has_resources() => {
                self.check_cursor(params)?;
                Ok(self.cacheable_list(&self.offered().template_list).into())
            }
            "prompts/list" if self.has_prompts() => {
                self.check_cursor(params)?;
                Ok(self.cacheable_list(&self.offered().prompt_list).into())
            }
            "completion/complete" => {
                let outcome = self.completion(params, &call).await?;
                Ok(self.decorate("complete", "", &outcome).into())
            }
            method @ ("tasks/get" | "tasks/update" | "tasks/cancel")
                if self.has_tasks(Era::Modern) =>
            {
                let outcome = self.task_method(method, params, &call)?;
                Ok(self.decorate("complete", "", &outcome).into())
            }
            "subscriptions/listen" => self.listen(request, &call).await,
            custom => {
                let outcome = self.custom(custom, params, &call).await?;
                Ok(self.decorate("complete", "", &outcome).into())
            }
        }
    }

    /// `server/discover` (2026-07-28, "Discovery").
    fn discover(&self) -> Json {
        let versions = json!(supported_versions());
        let mut capabilities = self.capabilities();
        if self.has_tasks(Era::Modern) {
            capabilities["extensions"] = json!({tasks::EXTENSION: {}});
        }
        self.cacheable(&format!(
            r#""supportedVersions":{versions},"capabilities":{capabilities}"#
        ))
    }

    fn cacheable_list(&self, list: &Json) -> Json {
        let members = list.as_str().trim_start_matches('{');
        self.cacheable(members.strip_suffix('}').unwrap_or(members))
    }

    /// A complete result out of `members`, with the hints for caches.
    fn cacheable(&self, members: &str) -> Json {
        let meta = &self.modern_meta;
        Json::Owned(format!(
            r#"{{"resultType":"complete","ttlMs":{LIST_TTL},"cacheScope":"public",{meta},{members}}}"#
        ))
    }

    /// The result of `outcome`, of the type `kind`, with `members`.
    fn decorate(&self, kind: &str, members: &str, outcome: &Outcome) -> Json {
        let rest = outcome.json.as_str().strip_prefix('{').unwrap_or("}");
        let comma = if rest == "}" { "" } else { "," };
        let meta = if outcome.meta.is_empty() {
            Cow::Borrowed(self.modern_meta.as_str())
        } else {
            let ours = self.modern_meta.trim_end_matches('}');
            let closing = &self.modern_meta[ours.len()..];
            let closing = closing.strip_suffix('}').unwrap_or(closing);
            Cow::Owned(format!("{ours}{closing},{}}}", outcome.meta))
        };
        Json::Owned(format!(
            r#"{{"resultType":"{kind}",{members}{meta}{comma}{rest}"#
        ))
    }
}
