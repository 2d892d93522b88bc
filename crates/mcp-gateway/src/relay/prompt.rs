//! A relayed prompt.

use std::sync::Arc;

use mcp_core::completion::Completes;
use mcp_core::jsonrpc::{Members, quoted};
use mcp_core::method::MethodFuture;
use mcp_core::prompt::{BoundPrompt, PromptDefinition, PromptFuture, PromptOutput};
use mcp_core::tool::{ArgumentError, Call};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Relay, RelayedItem, encoded};
use crate::backend::{Backend, ListedItem};
use crate::names::PublishedItem;

/// One prompt of one backend.
struct RelayedPrompt(RelayedItem);

/// Returns the definition for the list, and the handler of its requests.
pub(crate) fn relayed(
    relay: &Relay,
    backend: &Arc<Backend>,
    published: &PublishedItem,
    item: &ListedItem,
) -> Option<(PromptDefinition, Arc<dyn BoundPrompt>)> {
    let members = Members::read(item.definition.get())?;
    let name = quoted(&published.name);
    let definition = PromptDefinition {
        name: published.name.to_string().into(),
        description: String::new(),
        arguments: Vec::new(),
        relayed: RawValue::from_string(members.encode_with("name", Some(&name))).ok(),
    };
    let (id, name) = (Arc::clone(&published.item), Arc::clone(&published.name));
    let item = RelayedItem::new(relay, backend, id, name);
    Some((definition, Arc::new(RelayedPrompt(item))))
}

impl BoundPrompt for RelayedPrompt {
    fn write<'a>(
        &'a self,
        _: &RawValue,
        call: &'a Call,
    ) -> Result<PromptFuture<'a>, ArgumentError> {
        Ok(Box::pin(async move {
            let (item, name) = (&self.0.published, quoted(&self.0.id));
            let parameter = ("name", name.as_str());
            let result = self.0.forward("prompts/get", item, parameter, call).await?;
            Ok(PromptOutput::Relayed(encoded(&result)?))
        }))
    }
}

impl Completes for RelayedPrompt {
    fn completion<'a>(&'a self, _: &RawValue, call: &'a Call) -> Option<MethodFuture<'a>> {
        let reference = json!({"type": "ref/prompt", "name": &*self.0.id});
        self.0.complete(reference.to_string(), call)
    }
}
