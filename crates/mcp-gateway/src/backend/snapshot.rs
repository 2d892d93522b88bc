//! What a backend offers: its lists, read as a whole.

use std::collections::BTreeSet;

use mcp_client::{Client, Error};
use mcp_core::era::Era;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One item of a list.
#[derive(Clone)]
pub(crate) struct Item {
    /// What it is called by: a name, a URI or a URI template.
    pub(crate) id: String,
    /// Its definition, as the backend wrote it.
    pub(crate) definition: Box<RawValue>,
}

/// The lists of a backend at one time, each in the backend's order.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) tools: Vec<Item>,
    pub(crate) resources: Vec<Item>,
    pub(crate) templates: Vec<Item>,
    pub(crate) prompts: Vec<Item>,
    /// Tools that are not what they were when they were first seen.
    pub(crate) changed: BTreeSet<String>,
}

/// What a backend says that it has.
#[derive(Default, Deserialize)]
struct Capabilities {
    tools: Option<Box<RawValue>>,
    resources: Option<Box<RawValue>>,
    prompts: Option<Box<RawValue>>,
}

impl Snapshot {
    /// Asks for all that the backend says it has. A list that it cannot give after all is empty; the
    /// tools are what it is there for.
    pub(super) async fn read(client: &Client) -> Result<Self, Error> {
        let said = client.server();
        let has: Capabilities = said
            .as_ref()
            .and_then(|server| serde_json::from_str(server.capabilities.get()).ok())
            .unwrap_or_default();
        // A server without a handshake says nothing about itself.
        let silent = client.era() == Era::Unversioned;
        let mut snapshot = Self::default();
        if silent || has.tools.is_some() {
            snapshot.tools = list(client, "tools/list", "tools", "name").await?;
        }
        if has.resources.is_some() {
            let resources = list(client, "resources/list", "resources", "uri");
            snapshot.resources = optional(client, resources.await)?;
            let templates = list(
                client,
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
            );
            snapshot.templates = optional(client, templates.await)?;
        }
        if has.prompts.is_some() {
            let prompts = list(client, "prompts/list", "prompts", "name");
            snapshot.prompts = optional(client, prompts.await)?;
        }
        Ok(snapshot)
    }
}

impl Snapshot {
    /// True if the resource with this URI is the backend's, as far as its lists tell.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.resources.iter().any(|item| item.id == uri)
            || self.templates.iter().any(|item| fits(&item.id, uri))
    }
}

/// True if `uri` can be made of `template`: it begins and ends like it. What stands between is for
/// the backend to judge; templates have more levels than are worth to be understood here.
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

async fn list(client: &Client, method: &str, member: &str, id: &str) -> Result<Vec<Item>, Error> {
    // Requests are large futures; boxed, they are not copied from frame to frame.
    let items = Box::pin(client.list(method, member)).await?;
    let named = items.into_iter().filter_map(|definition| {
        let members = mcp_core::jsonrpc::Members::read(definition.get())?;
        let id = mcp_core::jsonrpc::string(members.get(id)?)?.into_owned();
        let definition = crate::sanitise::visible(definition);
        Some(Item { id, definition })
    });
    Ok(named.collect())
}

/// A list that was refused is empty; without an answer nothing is known.
fn optional(client: &Client, list: Result<Vec<Item>, Error>) -> Result<Vec<Item>, Error> {
    match list {
        Err(error) if error.rpc().is_some() => {
            tracing::debug!(backend = client.peer(), %error, "a list was refused");
            Ok(Vec::new())
        }
        list => list,
    }
}
