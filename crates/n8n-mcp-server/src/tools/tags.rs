//! The toolset `tags`.

use crate::api::{Rest, Tag};
use crate::tools::prelude::*;

const TAGS: Collection = Collection {
    kind: "Tag",
    path: "tags",
    missing: "n8n has no such tag. list_tags shows the tags of n8n.",
};

pub(crate) fn tags() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListTags>()
        .with::<CreateTag>()
        .with::<RenameTag>()
        .with::<DeleteTag>()
}

/// Lists the tags that workflows can have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTags {
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Tags {
    tags: Vec<Tag>,
    #[serde(flatten)]
    rest: Rest,
}

impl Tool for ListTags {
    const NAME: &'static str = "list_tags";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Tags;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Tags, ToolError> {
        let page = TAGS.page(n8n, &[], &[], self.limit, self.cursor).await?;
        Ok(Tags {
            tags: page.data,
            rest: page.rest,
        })
    }
}

/// Creates a tag.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateTag {
    /// A name has at most 24 characters.
    name: Name,
}

impl Tool for CreateTag {
    const NAME: &'static str = "create_tag";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Tag;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Tag, ToolError> {
        check_name(n8n, &self.name)?;
        let body = json!({"name": self.name});
        TAGS.send(n8n, Method::POST, &[], &body).await
    }
}

/// Renames a tag, on all workflows that have it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameTag {
    /// list_tags shows the id.
    tag_id: Id,
    /// The new name has at most 24 characters.
    name: Name,
}

impl Tool for RenameTag {
    const NAME: &'static str = "rename_tag";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Tag;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Tag, ToolError> {
        changeable(n8n, &self.tag_id).await?;
        check_name(n8n, &self.name)?;
        let (path, body) = ([self.tag_id.as_str()], json!({"name": self.name}));
        TAGS.send(n8n, Method::PUT, &path, &body).await
    }
}

/// Deletes a tag, also from all workflows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteTag {
    /// list_tags shows the id.
    tag_id: Id,
    /// Repeat the id once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteTag {
    const NAME: &'static str = "delete_tag";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let tag = changeable(n8n, &self.tag_id).await?;
        let name = tag.name;
        let loss =
            format!("Deletes tag {name:?} ({{id}}) of n8n and removes it from all workflows.");
        TAGS.delete(n8n, call, &self.tag_id, self.confirm, &loss)
            .await
    }
}

/// The tag, unless it decides what this server may do.
async fn changeable(n8n: &N8n, id: &Id) -> Result<Tag, ToolError> {
    let tag: Result<Tag, _> = n8n.api.get(&["tags", id.as_str()], &[]).await;
    let tag = tag.map_err(|failure| refusal(failure, TAGS.missing))?;
    n8n.api.policy.check_tag(&tag.name)?;
    Ok(tag)
}

/// The limit of n8n for the name of a tag.
const MAX_CHARS: usize = 24;

/// Rejects a name that n8n does not take, of which it says that there is such a tag, or that decides what this server
/// may do.
fn check_name(n8n: &N8n, name: &Name) -> Result<(), ToolError> {
    is_name(name.trimmed()).then_some(()).ok_or_else(|| {
        ToolError::invalid_argument(format!("`name` is longer than {MAX_CHARS} characters."))
    })?;
    n8n.api.policy.check_tag(name.trimmed())
}

/// True for a name of a tag that n8n takes, without the blanks around it.
pub(super) fn is_name(name: &str) -> bool {
    (1..=MAX_CHARS).contains(&name.chars().count())
}
