//! A resource or a template of a backend, as the gateway offers it.

use std::pin::Pin;
use std::sync::Arc;

use mcp_core::jsonrpc::{Json, Members, quoted};
use mcp_core::method::Answering;
use mcp_core::resource::{BoundResource, Contents, Reading, ResourceDefinition};
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use serde_json::value::RawValue;

use super::exchange::Exchange;
use super::{Relay, params_of, trace, whole};
use crate::backend::{Backend, Item, fits};

/// One resource, or one template of resources, of one backend.
pub(crate) struct RelayedResource {
    relay: Relay,
    backend: Arc<Backend>,
    /// A URI, or a URI template.
    uri: String,
}

/// What is listed, and what answers for it.
pub(crate) fn relayed(
    relay: &Relay,
    backend: &Arc<Backend>,
    item: &Item,
) -> (ResourceDefinition, Arc<dyn BoundResource>) {
    let text = |name: &str| {
        let members = Members::read(item.definition.get())?;
        mcp_core::jsonrpc::string(members.get(name)?).map(|text| text.into_owned())
    };
    let definition = ResourceDefinition {
        uri: item.id.clone().into(),
        name: text("name").unwrap_or_default().into(),
        description: text("description").unwrap_or_default(),
        mime_type: text("mimeType").unwrap_or_default().into(),
        imported: Some(item.definition.clone()),
    };
    let resource = RelayedResource {
        relay: relay.clone(),
        backend: Arc::clone(backend),
        uri: item.id.clone(),
    };
    (definition, Arc::new(resource))
}

impl BoundResource for RelayedResource {
    fn read<'a>(&'a self, uri: &str, call: &'a Call) -> Option<Reading<'a>> {
        // A template may be allowed and one of its resources denied.
        let is_denied = self.backend.config.filter.denies(uri);
        let uri = uri.to_owned();
        (!is_denied && fits(&self.uri, &uri)).then(|| -> Reading<'a> {
            Box::pin(async move {
                let params = params_of(call);
                let result = self.exchange("resources/read", &uri, params, call).await;
                let result = result.map_err(missing)?;
                Ok(Contents::Imported(whole(&result)?))
            })
        })
    }

    fn completion<'a>(&'a self, params: &RawValue, call: &'a Call) -> Option<Answering<'a>> {
        let params = Members::read(params.get())?;
        Some(Box::pin(async move {
            let result = self
                .exchange("completion/complete", &self.uri, params, call)
                .await?;
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

impl RelayedResource {
    async fn exchange(
        &self,
        method: &'static str,
        uri: &str,
        mut params: Members,
        call: &Call,
    ) -> Result<Members, ToolError> {
        if method == "resources/read" {
            params.set("uri", &quoted(uri));
        }
        let exchange = Exchange {
            relay: &self.relay,
            backend: &self.backend,
            method,
            item: uri,
            may_repeat: true,
            trace: trace::of(call),
            call,
        };
        let mut result = exchange.run(params).await?;
        result.remove("resultType");
        Ok(result)
    }
}

/// The two numbers by which servers say that there is no such resource are one in every era.
fn missing(error: ToolError) -> ToolError {
    if error.code() == Some(-32002) {
        return ToolError::new(ToolErrorKind::NotFound, "There is no such resource.");
    }
    error
}
