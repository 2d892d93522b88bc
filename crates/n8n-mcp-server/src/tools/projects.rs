//! The toolset `projects`: projects and their folders. Needs a licence.

use super::folders::{CreateFolder, DeleteFolder, ListFolders};
use crate::tools::prelude::*;

const PROJECTS: Collection = Collection {
    path: "projects",
    missing: "n8n has no such project. list_projects shows those that it has.",
};

pub(crate) fn projects() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListProjects>()
        .with::<CreateProject>()
        .with::<AddProjectMember>()
        .with::<DeleteProject>()
        .with::<ListFolders>()
        .with::<CreateFolder>()
        .with::<DeleteFolder>()
}

/// Lists the projects of n8n.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListProjects {
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Projects {
    projects: Vec<Project>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Project {
    id: String,
    name: String,
    /// personal or team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
}

impl Tool for ListProjects {
    const NAME: &'static str = "list_projects";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Projects;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Projects, ToolError> {
        let (projects, next_cursor) = PROJECTS.page(n8n, self.limit, self.cursor).await?;
        Ok(Projects {
            projects,
            next_cursor,
        })
    }
}

/// Creates a project.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateProject {
    /// Display name.
    name: String,
}

impl Tool for CreateProject {
    const NAME: &'static str = "create_project";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Project;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Project, ToolError> {
        let body = json!({"name": self.name});
        PROJECTS.send(n8n, Method::POST, &[], &body).await
    }
}

/// Adds a user to a project, or changes the role there.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddProjectMember {
    /// From list_projects.
    project_id: Id,
    /// From list_users.
    user_id: Id,
    /// For example project:editor or project:viewer.
    role: String,
}

#[derive(Serialize, JsonSchema)]
struct Member {
    project_id: String,
    user_id: String,
    role: String,
}

impl Tool for AddProjectMember {
    const NAME: &'static str = "add_project_member";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = Member;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Member, ToolError> {
        let path = [self.project_id.as_str(), "users"];
        let relation = json!({"userId": self.user_id.as_str(), "role": self.role});
        let body = json!({ "relations": [relation] });
        let IgnoredAny = PROJECTS.send(n8n, Method::POST, &path, &body).await?;
        Ok(Member {
            project_id: self.project_id.to_string(),
            user_id: self.user_id.to_string(),
            role: self.role,
        })
    }
}

/// Deletes a project with the workflows and credentials in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteProject {
    /// From list_projects.
    project_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteProject {
    const NAME: &'static str = "delete_project";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let loss = "Deletes project {id} of n8n with all workflows and credentials in it.";
        PROJECTS
            .delete(n8n, call, &self.project_id, self.confirm, loss)
            .await
    }
}
