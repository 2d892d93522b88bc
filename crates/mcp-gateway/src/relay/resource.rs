//! A relayed resource or resource template.

use std::sync::Arc;

use mcp_core::completion::Completes;
use mcp_core::jsonrpc::{Members, quoted, string};
use mcp_core::method::MethodFuture;
use mcp_core::resource::{BoundResource, ReadFuture, ResourceContents, ResourceDefinition};
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::value::RawValue;

use super::{Relay, RelayedItem, encoded};
use crate::backend::{Backend, ListedItem, fits};
use crate::catalog::ResourceOwners;

/// One resource, or one template of resources, of one backend.
struct RelayedResource(RelayedItem, Arc<ResourceOwners>);

/// Returns the definition for the list, and the handler of its requests.
pub(crate) fn relayed(
    relay: &Relay,
    backend: &Arc<Backend>,
    item: &ListedItem,
    owners: &Arc<ResourceOwners>,
) -> (ResourceDefinition, Arc<dyn BoundResource>) {
    let members = Members::read(item.definition.get()).unwrap_or_default();
    let text = |name: &str| string(members.get(name)?).map(|text| text.into_owned());
    let definition = ResourceDefinition {
        uri: item.id.clone().into(),
        name: text("name").unwrap_or_default().into(),
        description: text("description").unwrap_or_default(),
        mime_type: text("mimeType").unwrap_or_default().into(),
        relayed: Some(item.definition.clone()),
    };
    let id: Arc<str> = item.id.as_str().into();
    let item = RelayedItem::new(relay, backend, Arc::clone(&id), id);
    (
        definition,
        Arc::new(RelayedResource(item, Arc::clone(owners))),
    )
}

impl BoundResource for RelayedResource {
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<ReadFuture<'a>> {
        // A deny pattern may match one resource of an allowed template.
        let is_denied = self.0.backend.config.filter.denies_uri(uri);
        let uri = uri.to_owned();
        let is_own = || self.1.owner(&uri) == Some(&self.0.backend.key);
        (!is_denied && fits(&self.0.id, &uri) && is_own()).then(|| -> ReadFuture<'a> {
            Box::pin(async move {
                let quoted = quoted(&uri);
                let parameter = ("uri", quoted.as_str());
                let result = self
                    .0
                    .forward("resources/read", &uri, parameter, call)
                    .await;
                Ok(ResourceContents::Relayed(encoded(
                    &result.map_err(missing)?,
                )?))
            })
        })
    }
}

impl Completes for RelayedResource {
    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<MethodFuture<'a>> {
        let reference = Members::read(params.get())?.get("ref")?.to_owned();
        self.0.complete(reference, call)
    }
}

/// Converts both error codes for a missing resource (-32002 and -32602) to the same error.
fn missing(error: ToolError) -> ToolError {
    if error.code() == Some(-32002) {
        return ToolError::new(ToolErrorKind::NotFound, "There is no such resource.");
    }
    error
}
