//! A prompt of a backend, as the gateway offers it.

use std::pin::Pin;
use std::sync::Arc;

use mcp_core::jsonrpc::{Json, Members, quoted};
use mcp_core::method::Answering;
use mcp_core::prompt::{BoundPrompt, PromptDefinition, Writing, Written};
use mcp_core::tool::{ArgumentError, Call, ToolError};
use serde_json::json;
use serde_json::value::RawValue;

use super::exchange::Exchange;
use super::{Relay, params_of, trace, whole};
use crate::backend::{Backend, Item};
use crate::names::Published;

/// One prompt of one backend.
pub(crate) struct RelayedPrompt {
    relay: Relay,
    backend: Arc<Backend>,
    /// Its name at the backend.
    item: Arc<str>,
}

/// What is listed, and what answers for it.
pub(crate) fn relayed(
    relay: &Relay,
    backend: &Arc<Backend>,
    published: &Published,
    item: &Item,
) -> Option<(PromptDefinition, Arc<dyn BoundPrompt>)> {
    let members = Members::read(item.definition.get())?;
    let name = quoted(&published.name);
    let definition = PromptDefinition {
        name: published.name.to_string().into(),
        description: String::new(),
        arguments: Vec::new(),
        imported: RawValue::from_string(members.encode_with("name", Some(&name))).ok(),
    };
    let prompt = RelayedPrompt {
        relay: relay.clone(),
        backend: Arc::clone(backend),
        item: Arc::clone(&published.item),
    };
    Some((definition, Arc::new(prompt)))
}

impl BoundPrompt for RelayedPrompt {
    fn write<'a>(&'a self, _: &RawValue, call: &'a Call) -> Result<Writing<'a>, ArgumentError> {
        Ok(Box::pin(async move {
            let mut params = params_of(call);
            params.set("name", &quoted(&self.item));
            let result = self.exchange("prompts/get", params, call).await?;
            Ok(Written::Imported(whole(&result)?))
        }))
    }

    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<Answering<'a>> {
        let mut params = Members::read(params.get())?;
        let reference = json!({"type": "ref/prompt", "name": &*self.item});
        params.set("ref", &reference.to_string());
        Some(Box::pin(async move {
            let result = self.exchange("completion/complete", params, call).await?;
            Ok(Json::Owned(result.encode()))
        }))
    }

    fn complete<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Vec<String>> + Send + 'a>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

impl RelayedPrompt {
    async fn exchange(
        &self,
        method: &'static str,
        params: Members,
        call: &Call,
    ) -> Result<Members, ToolError> {
        let exchange = Exchange {
            relay: &self.relay,
            backend: &self.backend,
            method,
            item: &self.item,
            may_repeat: true,
            trace: trace::of(call),
            call,
        };
        let mut result = exchange.run(params).await?;
        result.remove("resultType");
        Ok(result)
    }
}
