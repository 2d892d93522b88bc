//! A snapshot of the lists of a backend.

use std::collections::BTreeMap;

use gateway_approvals::pins::HoldReason;
use mcp_client::{Client, Error};
use mcp_core::era::Era;
use mcp_core::jsonrpc::{METHOD_NOT_FOUND, Members, string};
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
    /// The hashes of the tools; none if they are not compared.
    pub(super) hashes: Vec<String>,
    /// The tools that are held back.
    pub(crate) held: BTreeMap<String, HoldReason>,
}

impl Snapshot {
    /// Reads the lists that the backend has declared; all of them if it declares nothing, since it has no
    /// handshake. A list whose method it does not know is empty; of the tools only if it says so itself, since
    /// whatever else answers at a wrong URL would look like a server without tools.
    pub(super) async fn read(client: &Client) -> Result<Self, Error> {
        let server = client.server();
        let declared =
            server.and_then(|server| serde_json::from_str(server.capabilities.get()).ok());
        let declared: Value = declared.unwrap_or_default();
        let declares_nothing = client.era() == Era::Unversioned;
        let has = |capability| {
            let value = declared.get(capability);
            declares_nothing || value.is_some_and(|value| !value.is_null())
        };
        let mut snapshot = Self::default();
        if has("tools") {
            let tools = list(client, "tools/list", "tools", "name").await;
            snapshot.tools = match tools {
                Err(error) if declares_nothing && says_unknown_method(&error) => Vec::new(),
                tools => tools?,
            };
        }
        if has("resources") {
            let resources = list(client, "resources/list", "resources", "uri");
            snapshot.resources = optional(client, resources.await)?;
            let method = "resources/templates/list";
            let templates = list(client, method, "resourceTemplates", "uriTemplate");
            snapshot.templates = optional(client, templates.await)?;
            snapshot.move_templates();
        }
        if has("prompts") {
            let prompts = list(client, "prompts/list", "prompts", "name");
            snapshot.prompts = optional(client, prompts.await)?;
        }
        Ok(snapshot)
    }

    /// Moves templates from the list of resources, where seed 000 has them, to their own. Braces are not
    /// allowed in a URI.
    fn move_templates(&mut self) {
        let resources = std::mem::take(&mut self.resources);
        for resource in resources {
            if !resource.id.contains(['{', '}']) {
                self.resources.push(resource);
            } else if let Some(template) = resource.into_template()
                && self.templates.iter().all(|known| known.id != template.id)
            {
                self.templates.push(template);
            }
        }
    }

    /// Returns true if the backend lists this URI or a template that fits it.
    pub(crate) fn has(&self, uri: &str) -> bool {
        self.resources.iter().any(|item| item.id == uri)
            || self.templates.iter().any(|item| fits(&item.id, uri))
    }
}

impl ListedItem {
    /// Renames `uri` to `uriTemplate`.
    fn into_template(self) -> Option<Self> {
        let mut members = Members::read(self.definition.get())?;
        let uri = members.get("uri")?.to_owned();
        members.remove("uri");
        members.set("uriTemplate", &uri);
        let definition = RawValue::from_string(members.encode()).ok()?;
        Some(Self { definition, ..self })
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
        let members = Members::read(definition.get())?;
        let id = string(members.get(id)?)?.into_owned();
        let definition = crate::sanitise::without_hidden_characters(definition);
        Some(ListedItem { id, definition })
    });
    Ok(named.collect())
}

/// Returns an empty list if the backend refused it; other errors stay errors. After a rate limit or a rejected
/// token the list is unknown, not empty.
fn optional(
    client: &Client,
    list: Result<Vec<ListedItem>, Error>,
) -> Result<Vec<ListedItem>, Error> {
    let is_refused = |error: &Error| match error {
        Error::Rpc(_) => true,
        // A server without a handshake may give any answer to a method that it does not know.
        Error::Protocol { .. } => client.era() == Era::Unversioned,
        error => is_unknown_method(error),
    };
    match list {
        Err(error) if is_refused(&error) => {
            tracing::debug!(backend = client.peer(), %error, "refused to send a list");
            Ok(Vec::new())
        }
        list => list,
    }
}

/// Returns true if the backend does not know the method. Some servers say so with an HTTP status only.
fn is_unknown_method(error: &Error) -> bool {
    let is_status = matches!(
        error,
        Error::Http {
            status: 400 | 404 | 405 | 501,
            ..
        }
    );
    is_status || says_unknown_method(error)
}

/// Returns true if the backend says in JSON-RPC that it does not know the method.
fn says_unknown_method(error: &Error) -> bool {
    let error = error.rpc();
    error.is_some_and(|error| error.code == i64::from(METHOD_NOT_FOUND))
}
