//! The toolset `credentials`. No tool returns a secret: n8n's API returns none, and
//! `create_credential` does not repeat its input.

use std::collections::{BTreeSet, HashMap};

use n8n_workflow::Workflow;

use crate::api::Rest;
use crate::tools::collection::{DEFAULT_LIMIT, filtered_page};
use crate::tools::prelude::*;

const CREDENTIALS: Collection = Collection {
    kind: "Credential",
    path: "credentials",
    missing: "n8n has no such credential. list_credentials shows the credentials of n8n.",
};
const TRANSFERS: Collection = Collection {
    missing: "n8n has no such credential or project, or the user of the API key may not use it.",
    ..CREDENTIALS
};
/// The start of n8n's message for a type of credential without a test.
const NO_TEST: &str = "No testing function found";
const MISSING_TYPE: &str = "This n8n knows no such type of credential. Its nodes name the types that they take (get_node), \
     for example slackApi or httpHeaderAuth.";

pub(crate) fn credentials() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListCredentials>()
        .with::<GetCredentialSchema>()
        .with::<CreateCredential>()
        .with::<UpdateCredential>()
        .with::<TestCredential>()
        .with::<TransferCredential>()
        .with::<DeleteCredential>()
}

/// Lists credentials, without their secrets.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListCredentials {
    /// Show only credentials of this type, for example slackApi.
    r#type: Option<String>,
    /// Name the workflows that use each credential.
    #[serde(default)]
    uses: bool,
    /// The page size is 100 by default.
    limit: Option<Limit>,
    /// The previous page returns it as `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Credentials {
    credentials: Vec<Credential>,
    #[serde(flatten)]
    rest: Rest,
}

/// It is shown without its secret.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Credential {
    id: String,
    name: String,
    r#type: String,
    /// The workflows are named if they were asked for.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    used_by: Option<Vec<String>>,
}

/// The workflows that use each credential, by its id: the workflows that the policy allows.
async fn uses(n8n: &N8n) -> Result<HashMap<String, Vec<String>>, ToolError> {
    let mut uses: HashMap<String, Vec<String>> = HashMap::new();
    let workflows = n8n.api.all_workflows(&[]).await?;
    let open = |workflow: &&Workflow| n8n.api.policy.admits(workflow);
    for workflow in workflows.iter().filter(open) {
        let nodes = workflow.nodes.iter().chain(workflow.live_nodes());
        let used = nodes.flat_map(|node| node.credentials());
        let ids: BTreeSet<_> = used.filter_map(|one| one.id).collect();
        for id in ids {
            let named = format!("{} ({})", workflow.name, workflow.id);
            uses.entry(id).or_default().push(named);
        }
    }
    Ok(uses)
}

impl Tool for ListCredentials {
    const NAME: &'static str = "list_credentials";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Credentials;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Credentials, ToolError> {
        let kind = self.r#type.as_ref();
        // n8n does not filter.
        let size = kind.map_or(self.limit, |_| Limit::new(250));
        let is_it = |one: &Credential| kind.is_none_or(|kind| one.r#type == *kind);
        let fetch = async |cursor| {
            let page = CREDENTIALS.page(n8n, &[], &[], size, cursor).await?;
            Ok(page.map(|row| Some(row).filter(is_it)))
        };
        let limit = self.limit.map_or(DEFAULT_LIMIT, Bounded::get) as usize;
        let listed = filtered_page(limit, self.cursor.as_deref(), fetch);
        let mut page = listed.await?;
        if self.uses {
            let mut uses = uses(n8n).await?;
            for one in &mut page.data {
                one.used_by = Some(uses.remove(&one.id).unwrap_or_default());
            }
        }
        Ok(Credentials {
            credentials: page.data,
            rest: page.rest,
        })
    }
}

/// Shows the fields that a type of credential has, as JSON Schema.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetCredentialSchema {
    /// The type is, for example, slackApi.
    r#type: Id,
}

#[derive(Serialize, JsonSchema)]
struct CredentialSchema {
    schema: Map<String, Value>,
}

impl Tool for GetCredentialSchema {
    const NAME: &'static str = "get_credential_schema";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = CredentialSchema;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<CredentialSchema, ToolError> {
        let path = ["credentials", "schema", self.r#type.as_str()];
        let schema = n8n.api.get(&path, &[]).await;
        let schema = schema.map_err(|failure| refusal(failure, MISSING_TYPE))?;
        Ok(CredentialSchema { schema })
    }
}

/// Creates a credential. Ask the user for secrets only if there is no other way: what is passed
/// here stays in the conversation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateCredential {
    /// The name is shown in n8n.
    name: Name,
    /// The type is, for example, slackApi.
    r#type: Id,
    /// get_credential_schema describes the fields.
    data: Map<String, Value>,
    /// It goes to this project, and to your own by default.
    project_id: Option<Id>,
}

impl Tool for CreateCredential {
    const NAME: &'static str = "create_credential";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Credential;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Credential, ToolError> {
        refuse_placeholder("data", &self.data)?;
        let mut body = json!({"name": self.name, "type": self.r#type.as_str(), "data": self.data});
        if let Some(project) = self.project_id {
            body["projectId"] = project.as_str().into();
        }
        let created = n8n.api.send(Method::POST, &["credentials"], &body).await;
        created.map_err(|failure| refusal(failure, MISSING_TYPE))
    }
}

/// Changes the name or fields of a credential; fields that are left out stay. Workflows that use it take the new
/// ones at once. What is passed here stays in the conversation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateCredential {
    /// list_credentials shows the id.
    credential_id: Id,
    /// The credential gets this name.
    #[schemars(with = "Option<Name>")]
    name: Option<String>,
    /// The credential gets these values in its fields.
    #[serde(default)]
    data: Map<String, Value>,
}

impl Tool for UpdateCredential {
    const NAME: &'static str = "update_credential";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Credential;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Credential, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        refuse_placeholder("data", &self.data)?;
        let mut body = Map::new();
        if let Some(name) = self.name {
            // An empty argument would count as left out, and the data alone would be written.
            refuse_blank("name", &name)?;
            body.insert("name".to_owned(), name.into());
        }
        if !self.data.is_empty() {
            body.insert("data".to_owned(), self.data.into());
            body.insert("isPartialData".to_owned(), true.into());
        }
        if body.is_empty() {
            return Err(ToolError::invalid_argument("Pass `name`, `data` or both."));
        }
        let path = [self.credential_id.as_str()];
        CREDENTIALS
            .send(n8n, Method::PATCH, &path, &body.into())
            .await
    }
}

/// Tests a credential against its service.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TestCredential {
    /// list_credentials shows the id.
    credential_id: Id,
}

#[derive(Serialize, JsonSchema)]
struct CredentialTest {
    /// It is absent if n8n has no test for this type.
    #[serde(skip_serializing_if = "Option::is_none")]
    works: Option<bool>,
    message: String,
}

impl Tool for TestCredential {
    const NAME: &'static str = "test_credential";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = CredentialTest;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<CredentialTest, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
            #[serde(default)]
            message: String,
        }
        let path = ["credentials", self.credential_id.as_str(), "test"];
        let answer: Result<Answer, _> = n8n.api.request(Method::POST, &path).json().await;
        let answer =
            answer.map_err(|failure| refusal(failure.without_effect(), CREDENTIALS.missing))?;
        if answer.message.starts_with(NO_TEST) {
            return Ok(CredentialTest {
                works: None,
                message:
                    "n8n has no test for this type of credential: a run shows whether it works."
                        .to_owned(),
            });
        }
        Ok(CredentialTest {
            works: Some(answer.status == "OK"),
            message: n8n.redactor().text(&answer.message),
        })
    }
}

/// Moves a credential to another project; workflows of its old project lose it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TransferCredential {
    /// list_credentials shows the id.
    credential_id: Id,
    /// read_n8n_api shows the id, at `projects`.
    project_id: Id,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct TransferredCredential {
    transferred: String,
    project_id: String,
}

impl Tool for TransferCredential {
    const NAME: &'static str = "transfer_credential";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = TransferredCredential;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<TransferredCredential, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let (id, project) = (self.credential_id.as_str(), self.project_id.to_string());
        let loss = format!(
            "Moves credential {id} of n8n to project {project}; workflows of its own project that use it \
             will fail."
        );
        let confirm = self.confirm.as_deref();
        call.confirm_facts(&loss, id, &project, confirm).await?;
        let body = json!({"destinationProjectId": project});
        let path = [id, "transfer"];
        let IgnoredAny = TRANSFERS.send(n8n, Method::PUT, &path, &body).await?;
        Ok(TransferredCredential {
            transferred: id.to_owned(),
            project_id: project,
        })
    }
}

/// Deletes a credential; workflows that use it fail from then on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteCredential {
    /// list_credentials shows the id.
    credential_id: Id,
    /// Repeat the id once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteCredential {
    const NAME: &'static str = "delete_credential";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let id = &self.credential_id;
        let rows = n8n
            .api
            .all::<Credential>("Credential", &["credentials"], &[]);
        let (rows, _) = rows.await?;
        let name = rows.iter().find(|row| row.id == id.as_str());
        let name = name.map_or(String::new(), |row| format!(" {:?}", row.name));
        let used_by = uses(n8n).await?.remove(id.as_str()).unwrap_or_default();
        let used_by = match used_by.as_slice() {
            [] => "no workflow uses it".to_owned(),
            some => format!("these workflows use it and will fail: {}", some.join(", ")),
        };
        let loss = format!("Deletes credential{name} ({{id}}) of n8n; {used_by}.");
        CREDENTIALS.delete(n8n, call, id, self.confirm, &loss).await
    }
}
