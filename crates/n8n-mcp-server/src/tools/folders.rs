//! Folders of workflows in a project. Need a licence.

use crate::tools::prelude::*;

const FOLDERS: Collection = Collection {
    path: "projects",
    missing: "n8n has no such project or folder. list_projects and list_folders show those that it has.",
};
const DEFAULT_LIMIT: u32 = 100;

/// Lists the folders of a project.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFolders {
    /// From list_projects.
    project_id: Id,
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Folders to skip.
    #[serde(default)]
    offset: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(super) struct Folders {
    #[serde(rename(deserialize = "data"))]
    folders: Vec<Folder>,
    /// Of all pages.
    count: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all(deserialize = "camelCase"))]
pub(super) struct Folder {
    id: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_folder_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_count: Option<u64>,
}

impl Tool for ListFolders {
    const NAME: &'static str = "list_folders";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Folders;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Folders, ToolError> {
        let path = ["projects", self.project_id.as_str(), "folders"];
        let take = self.limit.map_or(DEFAULT_LIMIT, Bounded::get).to_string();
        let query = [("skip", &*self.offset.to_string()), ("take", &take)];
        let listed = n8n.api.get(&path, &query).await;
        listed.map_err(|failure| refusal(failure, FOLDERS.missing))
    }
}

/// Creates a folder in a project.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateFolder {
    /// From list_projects.
    project_id: Id,
    /// Display name.
    name: String,
    /// Folder that it goes to; default: the project's root.
    parent_folder_id: Option<Id>,
}

impl Tool for CreateFolder {
    const NAME: &'static str = "create_folder";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Folder;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Folder, ToolError> {
        let mut body = json!({"name": self.name});
        if let Some(parent) = &self.parent_folder_id {
            body["parentFolderId"] = parent.as_str().into();
        }
        let below = [self.project_id.as_str(), "folders"];
        FOLDERS.send(n8n, Method::POST, &below, &body).await
    }
}

/// Deletes a folder with its folders; archives the workflows in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteFolder {
    /// From list_projects.
    project_id: Id,
    /// From list_folders.
    folder_id: Id,
    /// The folder's id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteFolder {
    const NAME: &'static str = "delete_folder";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let id = self.folder_id.as_str();
        let loss = format!(
            "Deletes folder {id} of n8n with the folders in it, and archives all workflows in them."
        );
        call.confirm(&loss, id, self.confirm.as_deref()).await?;
        let path = ["projects", self.project_id.as_str(), "folders", id];
        let deleted = n8n.api.request(Method::DELETE, &path).json().await;
        let IgnoredAny = deleted.map_err(|failure| refusal(failure, FOLDERS.missing))?;
        let deleted = id.to_owned();
        Ok(Deleted { deleted })
    }
}
