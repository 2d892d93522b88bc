//! The modern era (2026-07-28): no handshake and no session, every request describes itself.

mod envelope;
mod headers;
mod multi_round_trip;
mod subscriptions;

use std::sync::Arc;

use serde_json::json;

use super::catalog::CatalogView;
use super::context::Context;
use super::mcp_method::McpMethod;
use super::modern_client::ModernClient;
use super::outcome::{MethodResult, Outcome, ResultKind};
use super::params::Params;
use super::source::Source;
use super::{Caller, Server, tasks};
use crate::era::Era;
use crate::error::{Error, supported_versions};
use crate::jsonrpc::{Json, Request, string};
use crate::meta::Meta;
use crate::tool::{Client as _, ClientCapabilities};

/// Cache hints of a list that cannot change while the server runs: 5 minutes bound how long a client
/// misses an upgrade. Private, as a cache that is shared would answer callers without a token.
const CONSTANT: &str = r#""ttlMs":300000,"cacheScope":"private","#;

/// Cache hints of resources, and of lists that can change: stale at once. A client that caches for longer
/// would not ask again when it is told of a change.
const CHANGEABLE: &str = r#""ttlMs":0,"cacheScope":"private","#;

impl Server {
    /// Reads and checks the facts about a request and its client.
    pub(super) fn modern_client<'a>(
        &self,
        request: &Request<'_>,
        method: McpMethod,
        params: &Params<'a>,
        source: &Source<'_>,
    ) -> Result<(Arc<ModernClient>, Meta<'a>), Error> {
        let meta = envelope::check(params, source.hints)?;
        let mut info = envelope::client_info(&meta, source.caller.info())?;
        headers::check(&request.method, params, source.hints)?;
        if method == McpMethod::CallTool && source.hints.has_headers {
            let catalog = self.catalog_of(source.caller);
            let name = params.name.and_then(|name| string(name.get()));
            let declared = name.map(|name| catalog.header_params(&name));
            headers::check_arguments(declared.unwrap_or_default(), params, source.hints)?;
        }
        let round = match method.has_rounds() {
            true => Some(self.open_round(&request.method, params, source.caller)?),
            false => {
                if !method.resumes_tasks() {
                    // There is no way to ask it.
                    info.capabilities = ClientCapabilities::default();
                }
                None
            }
        };
        let client = ModernClient::new(source.caller, info, round);
        Ok((Arc::new(client), meta))
    }

    /// The result of a request in the form of this era.
    pub(super) fn decorate(
        &self,
        method: McpMethod,
        name: &str,
        context: &Context<'_>,
        outcome: Outcome,
    ) -> MethodResult {
        let result = match outcome {
            Outcome::Done(result) => result,
            Outcome::NeedsInput(questions) => {
                let asked = self.input_required(name, context, questions);
                return self
                    .with_type("input_required", "", &asked.into(), context.caller)
                    .into();
            }
        };
        let kind = match result.kind {
            ResultKind::Whole => return result,
            ResultKind::Task => "task",
            ResultKind::Complete => "complete",
        };
        let cache = match method {
            McpMethod::ReadResource => CHANGEABLE,
            McpMethod::Discover
            | McpMethod::ListTools
            | McpMethod::ListResources
            | McpMethod::ListTemplates
            | McpMethod::ListPrompts => match self.features.changes {
                Some(_) => CHANGEABLE,
                None => CONSTANT,
            },
            _ => "",
        };
        MethodResult {
            json: self.with_type(kind, cache, &result, context.caller),
            ..result
        }
    }

    /// `server/discover` (2026-07-28, "Discovery").
    pub(super) fn discover(&self, caller: &Caller) -> Json {
        let mut capabilities = self.capabilities();
        if self.has_tasks(Era::Modern) {
            capabilities["extensions"] = json!({tasks::EXTENSION: {}});
        }
        let versions = supported_versions();
        let mut result = json!({"supportedVersions": versions, "capabilities": capabilities});
        self.add_instructions(caller, &mut result);
        result.into()
    }

    /// The result with its `resultType`, `members` and this server's `serverInfo`.
    fn with_type(&self, kind: &str, members: &str, result: &MethodResult, caller: &Caller) -> Json {
        let view = caller.view().map(|_| self.catalog_of(caller));
        let info = view.as_ref().and_then(CatalogView::modern_meta);
        let rest = result.json.as_str().strip_prefix('{').unwrap_or("}");
        let comma = if rest == "}" { "" } else { "," };
        let (info, meta) = (info.unwrap_or(&self.modern_meta), &*result.meta);
        let also = if meta.is_empty() { "" } else { "," };
        let parts = [
            r#"{"resultType":""#,
            kind,
            "\",",
            members,
            r#""_meta":{"#,
            info,
            also,
            meta,
            "}",
            comma,
            rest,
        ];
        Json::Owned(parts.concat())
    }
}
