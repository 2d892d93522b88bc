//! Workflows, executions and their ids as n8n returns them.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::node::Node;

/// The versions of an active workflow whose draft, which the editor and the tools show, is not what is
/// live.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(description = "")]
#[expect(missing_docs, reason = "it would become a part of a tool's schema")]
pub struct UnpublishedDraft {
    pub draft_version: String,
    pub live_version: String,
    /// This user wrote the draft.
    pub changed_by: Option<String>,
    pub changed_at: Option<String>,
}

/// A workflow with its nodes. A part that does not have the form of n8n counts as absent: n8n keeps some that
/// other programs and its earlier versions wrote.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    /// The id in n8n.
    #[serde(deserialize_with = "id")]
    pub id: Id,
    /// Not unique.
    #[serde(default, deserialize_with = "text")]
    pub name: String,
    /// Written by a person.
    #[serde(default, deserialize_with = "or_default")]
    pub description: Option<String>,
    /// Its triggers start it.
    #[serde(default, deserialize_with = "or_default")]
    pub active: bool,
    /// Hidden in the editor; it cannot be activated.
    #[serde(default, deserialize_with = "or_default")]
    pub is_archived: bool,
    /// Names of its tags.
    #[serde(default, deserialize_with = "tag_names")]
    pub tags: Vec<String>,
    /// As they are in the editor.
    #[serde(default, deserialize_with = "all_readable")]
    pub nodes: Vec<Node>,
    /// [`crate::connections`] reads them.
    #[serde(default, deserialize_with = "or_default")]
    pub connections: Map<String, Value>,
    /// By name.
    #[serde(default, deserialize_with = "or_default")]
    pub settings: Map<String, Value>,
    /// The frames that people draw around nodes.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) node_groups: Option<Vec<Value>>,
    /// Output that was pinned to nodes in the editor, by the name of the node.
    #[serde(default, deserialize_with = "or_default")]
    pub pin_data: Option<Map<String, Value>>,
    /// The version in production; `nodes` may hold later changes.
    #[serde(default, deserialize_with = "or_default")]
    active_version: Option<PublishedVersion>,
    /// The id of the definition in the editor.
    #[serde(default, deserialize_with = "or_default")]
    pub version_id: Option<String>,
    /// The id of the definition in production.
    #[serde(default, deserialize_with = "or_default")]
    pub active_version_id: Option<String>,
    /// n8n counts the changes of nodes and settings.
    #[serde(default, deserialize_with = "or_default")]
    pub version_counter: Option<u64>,
    /// Ids of the projects that it is shared with; the first is its own.
    #[serde(default, rename = "shared", deserialize_with = "project_ids")]
    pub projects: Vec<String>,
    /// By n8n's clock.
    #[serde(default, deserialize_with = "or_default")]
    pub created_at: String,
    /// Changes with the definition and the name, not with activation or tags.
    #[serde(default, deserialize_with = "or_default")]
    pub updated_at: String,
}

#[derive(Deserialize)]
struct PublishedVersion {
    #[serde(default, deserialize_with = "all_readable")]
    nodes: Vec<Node>,
}

/// A part of n8n's JSON, or the default if it does not have the expected form.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// A text; a number as text; empty for all else.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
    Id::try_from(text(deserializer)?).map_err(D::Error::custom)
}

fn all_readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all = match Value::deserialize(deserializer)? {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    let read = all.into_iter().map(serde_json::from_value);
    Ok(read.filter_map(Result::ok).collect())
}

fn tag_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    struct Tag {
        name: String,
    }
    let tags: Vec<Tag> = all_readable(deserializer)?;
    Ok(tags.into_iter().map(|tag| tag.name).collect())
}

fn project_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Share {
        project_id: String,
        #[serde(default)]
        role: String,
    }
    let mut shares: Vec<Share> = all_readable(deserializer)?;
    shares.sort_by_key(|share| share.role != "workflow:owner");
    Ok(shares.into_iter().map(|share| share.project_id).collect())
}

impl UnpublishedDraft {
    /// The draft with who has written it and when, as far as that is known.
    pub fn named(&self) -> String {
        let by = self.changed_by.as_deref().map(|by| format!(" by {by}"));
        let at = self.changed_at.as_deref().map(|at| format!(" of {at}"));
        let parts = [Some(format!("version {}", self.draft_version)), by, at];
        parts.into_iter().flatten().collect()
    }
}

impl Workflow {
    /// The nodes that run in production.
    pub fn live_nodes(&self) -> &[Node] {
        match &self.active_version {
            Some(version) if self.active => &version.nodes,
            _ => &self.nodes,
        }
    }

    /// The ids of its draft and of what is live, if they differ.
    pub fn unpublished_draft(&self) -> Option<UnpublishedDraft> {
        let versions = (self.version_id.as_ref()?, self.active_version_id.as_ref()?);
        (self.active && versions.0 != versions.1).then(|| UnpublishedDraft {
            draft_version: versions.0.clone(),
            live_version: versions.1.clone(),
            changed_by: None,
            changed_at: None,
        })
    }

    /// True if n8n's built-in MCP server may act on it.
    pub fn available_in_mcp(&self) -> bool {
        self.settings.get("availableInMCP") == Some(&Value::Bool(true))
    }
}

/// The year that n8n writes for "until it is resumed".
const FOREVER: &str = "3000-";

/// One execution of a workflow. A part that does not have the form of n8n counts as absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// A number in today's n8n.
    #[serde(deserialize_with = "id")]
    pub id: Id,
    /// Its state.
    #[serde(default, deserialize_with = "or_default")]
    pub status: Status,
    /// Absent in answers of some versions.
    #[serde(default, deserialize_with = "or_default")]
    pub workflow_id: Option<Id>,
    /// n8n's word for the kind of its trigger.
    #[serde(default, deserialize_with = "or_default")]
    pub mode: Option<String>,
    /// RFC 3339, as the other times.
    #[serde(default, deserialize_with = "or_default")]
    pub started_at: Option<String>,
    /// Absent before its end.
    #[serde(default, deserialize_with = "or_default")]
    pub stopped_at: Option<String>,
    /// The execution that it retries.
    #[serde(default, deserialize_with = "or_default")]
    pub retry_of: Option<Id>,
    /// Until when it waits.
    #[serde(default, deserialize_with = "or_default")]
    pub wait_till: Option<String>,
    /// This version of the workflow ran.
    #[serde(default, deserialize_with = "or_default")]
    pub workflow_version_id: Option<String>,
    /// The data of its nodes; only if it was requested.
    pub data: Option<Box<RawValue>>,
    /// The workflow as it was.
    pub workflow_data: Option<Box<RawValue>>,
    /// `data` was left out for its size.
    #[serde(default, deserialize_with = "or_default")]
    pub data_too_large_to_display: bool,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not begun.
    New,
    /// Some node runs.
    Running,
    /// Suspended until a time, a request or the answer of a person.
    Waiting,
    /// Ended without an error.
    Success,
    /// Ended by an error.
    Error,
    /// n8n itself was stopped.
    Crashed,
    /// A person or a caller has stopped it.
    Canceled,
    /// `unknown`, or a state that this version does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Status {
    /// True if it does not go on, as far as is known.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::New | Self::Running | Self::Waiting)
    }
}

impl Execution {
    /// The workflow as it was, if n8n has it.
    pub fn workflow(&self) -> Option<Workflow> {
        serde_json::from_str(self.workflow_data.as_deref()?.get()).ok()
    }

    /// True if n8n runs the drafts of the workflows that it calls, as in the editor.
    pub fn runs_drafts(&self) -> bool {
        matches!(self.mode.as_deref(), Some("manual" | "chat"))
    }

    /// True if it waits without a time limit, until a person resumes it.
    pub fn waits_for_person(&self) -> bool {
        let until = self.wait_till.as_deref().unwrap_or_default();
        self.status == Status::Waiting && until.starts_with(FOREVER)
    }
}

/// Longer than any id of n8n.
const MAX_ID_LEN: usize = 64;

/// The id of any object of n8n. It becomes a segment of a URL's path, so everything else is rejected.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
// In schemas of tools the name of the field says it.
#[schemars(inline, description = "", extend("pattern" = "^[A-Za-z0-9_-]{1,64}$"))]
pub struct Id(String);

impl Id {
    /// The id as n8n writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of an execution; n8n counts upwards.
    pub fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let legal = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
        if (1..=MAX_ID_LEN).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text))
        } else {
            Err("not an id: ids have 1 to 64 letters, digits, `_` and `-`")
        }
    }
}

/// The name of an object that is written. n8n takes empty ones, too, and then no list and no person can name the object.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String")]
// In schemas of tools the field says whose name it is.
#[schemars(inline, description = "", extend("pattern" = r"\S"))]
pub struct Name(String);

impl Name {
    /// The name without the blanks around it.
    pub fn trimmed(&self) -> &str {
        self.0.trim()
    }
}

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.trim() {
            "" => Err("a name must not be empty"),
            _ => Ok(Self(text)),
        }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
