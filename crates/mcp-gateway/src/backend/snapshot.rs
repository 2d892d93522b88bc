//! A snapshot of the lists of a backend.

use std::collections::BTreeMap;

use gateway_approvals::pins::HoldReason;
use mcp_client::{Client, Error};
use mcp_core::era::Era;
use mcp_core::jsonrpc::{METHOD_NOT_FOUND, Members, member, string};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::owners::fits;

/// One item of a list.
#[derive(Clone)]
pub(crate) struct ListedItem {
    /// Its name, URI or URI template.
    pub(crate) id: String,
    /// Its definition, with the backend's bytes.
    pub(crate) definition: Box<RawValue>,
}

/// The name under which the instructions of a backend are compared with those that were approved, as if they were a tool.
pub(crate) const INSTRUCTIONS: &str = "(instructions)";

/// The lists of a backend at one time, in the backend's order.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) tools: Vec<ListedItem>,
    pub(crate) resources: Vec<ListedItem>,
    pub(crate) templates: Vec<ListedItem>,
    pub(crate) prompts: Vec<ListedItem>,
    /// Its instructions for the model, as an item with the name [`INSTRUCTIONS`].
    pub(crate) instructions: Option<ListedItem>,
    /// The hashes of the pinned items; none if they are not compared.
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
        let instructions = client
            .server()
            .and_then(|server| server.instructions.clone());
        let instructions = instructions.filter(|text| !text.trim().is_empty());
        snapshot.instructions = instructions.and_then(|text| {
            let definition = json!({"name": INSTRUCTIONS, "instructions": text});
            Some(ListedItem {
                id: INSTRUCTIONS.to_owned(),
                definition: RawValue::from_string(definition.to_string()).ok()?,
            })
        });
        Ok(snapshot)
    }

    /// True if a tool is shown by an app (`_meta.ui`).
    pub(crate) fn has_apps(&self) -> bool {
        let names_app = |tool: &ListedItem| {
            let meta = member(tool.definition.get(), "_meta").unwrap_or_default();
            ["ui", "ui/resourceUri"]
                .iter()
                .any(|name| member(meta, name).is_some())
        };
        self.tools.iter().any(names_app)
    }

    /// The items whose definitions are compared with those that were approved.
    pub(super) fn pinned(&self) -> impl Iterator<Item = &ListedItem> {
        self.tools.iter().chain(&self.instructions)
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

    /// The definition of a tool.
    pub(crate) fn tool(&self, name: &str) -> Option<&RawValue> {
        let tool = self.tools.iter().find(|tool| tool.id == name)?;
        Some(&tool.definition)
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
        // Some servers say so with an HTTP status only.
        Error::Http {
            status: 400 | 404 | 405 | 501,
            ..
        } => true,
        error => says_unknown_method(error),
    };
    match list {
        Err(error) if is_refused(&error) => {
            tracing::debug!(backend = client.peer(), %error, "refused to send a list");
            Ok(Vec::new())
        }
        list => list,
    }
}

/// Returns true if the backend says in JSON-RPC that it does not know the method.
fn says_unknown_method(error: &Error) -> bool {
    let error = error.rpc();
    error.is_some_and(|error| error.code == i64::from(METHOD_NOT_FOUND))
}
