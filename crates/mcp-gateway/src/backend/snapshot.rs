//! A snapshot of the lists of a backend.

use std::collections::BTreeSet;

use mcp_client::{Client, Error};
use mcp_core::era::Era;
use serde_json::Value;
use serde_json::value::RawValue;

/// One item of a list.
#[derive(Clone)]
pub(crate) struct ListedItem {
    /// Its name, URI or URI template.
    pub(crate) id: String,
    /// Its definition, with the backend's bytes.
    pub(crate) definition: Box<RawValue>,
}

/// The lists of a backend at one time, in the backend's order.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) tools: Vec<ListedItem>,
    pub(crate) resources: Vec<ListedItem>,
    pub(crate) templates: Vec<ListedItem>,
    pub(crate) prompts: Vec<ListedItem>,
    /// Tools that differ from their first definition.
    pub(crate) changed: BTreeSet<String>,
}

impl Snapshot {
    /// Reads the lists that the backend has declared. The tools are required; any other list that it
    /// refuses is taken as empty.
    pub(super) async fn read(client: &Client) -> Result<Self, Error> {
        let server = client.server();
        let declared =
            server.and_then(|server| serde_json::from_str(server.capabilities.get()).ok());
        let declared: Value = declared.unwrap_or_default();
        let has = |capability| {
            declared
                .get(capability)
                .is_some_and(|value| !value.is_null())
        };
        let mut snapshot = Self::default();
        // A server without a handshake declares no capabilities.
        if client.era() == Era::Unversioned || has("tools") {
            snapshot.tools = list(client, "tools/list", "tools", "name").await?;
        }
        if has("resources") {
            let resources = list(client, "resources/list", "resources", "uri");
            snapshot.resources = optional(client, resources.await)?;
            let method = "resources/templates/list";
            let templates = list(client, method, "resourceTemplates", "uriTemplate");
            snapshot.templates = optional(client, templates.await)?;
        }
        if has("prompts") {
            let prompts = list(client, "prompts/list", "prompts", "name");
            snapshot.prompts = optional(client, prompts.await)?;
        }
        Ok(snapshot)
    }

    /// Returns true if the backend lists this URI or a template that fits it.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.resources.iter().any(|item| item.id == uri)
            || self.templates.iter().any(|item| fits(&item.id, uri))
    }
}

/// Returns true if `uri` starts and ends like `template`. The part between is left to the backend:
/// RFC 6570 has more levels than are worth parsing here.
pub(crate) fn fits(template: &str, uri: &str) -> bool {
    let Some((start, rest)) = template.split_once('{') else {
        return template == uri;
    };
    let end = rest.rsplit_once('}').map_or("", |(_, end)| end);
    let inner = uri
        .strip_prefix(start)
        .and_then(|uri| uri.strip_suffix(end));
    !start.is_empty() && inner.is_some_and(|inner| !inner.is_empty())
}

async fn list(
    client: &Client,
    method: &str,
    member: &str,
    id: &str,
) -> Result<Vec<ListedItem>, Error> {
    // Boxed, since futures of requests are large and would be copied by each caller.
    let items = Box::pin(client.list(method, member)).await?;
    let named = items.into_iter().filter_map(|definition| {
        let members = mcp_core::jsonrpc::Members::read(definition.get())?;
        let id = mcp_core::jsonrpc::string(members.get(id)?)?.into_owned();
        let definition = crate::sanitise::without_hidden_characters(definition);
        Some(ListedItem { id, definition })
    });
    Ok(named.collect())
}

/// Returns an empty list if the backend refused it; other errors stay errors.
fn optional(
    client: &Client,
    list: Result<Vec<ListedItem>, Error>,
) -> Result<Vec<ListedItem>, Error> {
    match list {
        Err(error) if error.rpc().is_some() => {
            tracing::debug!(backend = client.peer(), %error, "refused to send a list");
            Ok(Vec::new())
        }
        list => list,
    }
}
