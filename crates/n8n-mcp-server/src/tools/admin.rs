//! The toolset `admin`: the parts of n8n's API that have no tools of their own, as n8n's OpenAPI file
//! (`/api/v1/openapi.yml`) describes them. Workflows, executions, credentials, tags and the rows of data tables are not
//! among them: their tools have rules that these two would go around.

use std::time::Duration;

use upstream::redact::HIDDEN;

use crate::api::scope;
use crate::tools::prelude::*;

/// Long, because npm downloads a package, git goes over the network, and an audit reads every workflow.
const TIMEOUT: Duration = Duration::from_secs(28);
const MISSING: &str =
    "n8n has nothing at this path: check the ids in it. read_n8n_api shows the ids.";
/// Bytes of a question with what is sent: a person must see all that is agreed to.
const MAX_SHOWN: usize = 4_000;
/// The member with the link of an invitation: whoever has it becomes that user.
const INVITATION: &str = "inviteAcceptUrl";

pub(crate) fn admin() -> Toolset<N8n> {
    Toolset::new().with::<ReadN8nApi>().with::<CallN8nApi>()
}

struct Operation {
    method: &'static str,
    path: &'static str,
    reaches_all: bool,
    effect: &'static str,
}

impl Operation {
    /// The operations with this method.
    fn all(method: &Method) -> impl Iterator<Item = Self> {
        let rows = OPERATIONS.lines().filter_map(|row| {
            let mut columns = row.split(" | ");
            let (method, path) = columns.next()?.split_once(' ')?;
            Some(Self {
                method,
                path,
                reaches_all: columns.next() == Some("all"),
                effect: columns.next().unwrap_or("Changes {} of n8n."),
            })
        });
        rows.filter(move |one| method == one.method)
    }

    /// True if a person must agree: for all scopes of n8n but reading and adding. Whoever adds a user gives rights.
    fn needs_consent(&self, method: &Method) -> bool {
        let path: Vec<&str> = self.path.split('/').collect();
        let scope = scope(method, &path).unwrap_or_default();
        *method != Method::GET
            && match scope.split_once(':') {
                Some((_, "generate")) => false,
                Some((resource, "create")) => resource == "user",
                _ => true,
            }
    }
}

/// The operations: method and path; `all` if one shows or changes workflows without naming each; its effect, in which `{}`
/// stands for what it is about.
const OPERATIONS: &str = "\
GET users
POST users | - | Invites users to n8n.
GET users/{id}
PATCH users/{id}/role | - | Changes what user {} may do in n8n.
DELETE users/{id} | all | Deletes user {} of n8n with all personal workflows and credentials.
GET projects
POST projects
PUT projects/{id} | - | Renames project {} of n8n.
DELETE projects/{id} | all | Deletes project {} of n8n with all workflows and credentials in it.
GET projects/{id}/users
POST projects/{id}/users | - | Gives users access to project {} of n8n, with its workflows and credentials.
PATCH projects/{id}/users/{user} | - | Changes what user {} may do in the project.
DELETE projects/{id}/users/{user} | - | Takes the access to the project from user {}.
GET projects/{id}/folders
POST projects/{id}/folders
GET projects/{id}/folders/{folder}
PATCH projects/{id}/folders/{folder} | - | Renames or moves folder {} of n8n.
DELETE projects/{id}/folders/{folder} | all | Deletes folder {} of n8n with the folders in it, and archives all workflows in them.
GET variables
POST variables
PUT variables/{id} | - | Replaces the key and the value of variable {} of n8n.
DELETE variables/{id} | - | Deletes variable {} of n8n.
GET data-tables/{id}/columns
POST data-tables/{id}/columns
PATCH data-tables/{id}/columns/{column} | - | Renames or moves column {} of a data table of n8n.
DELETE data-tables/{id}/columns/{column} | - | Deletes column {} of a data table of n8n with all values in it.
GET source-control/status | all
POST source-control/push | all | Pushes workflows, tags and variables of n8n to its repository.
POST source-control/pull | all | Overwrites workflows, tags and variables of n8n with what is in its repository.
POST audit | all
GET community-packages
POST community-packages | - | Installs {} into n8n: its code runs with all that n8n may do.
PATCH community-packages/{name} | - | Updates {} in n8n: its code runs with all that n8n may do.
DELETE community-packages/{name} | - | Uninstalls {} from n8n; workflows that use its nodes will fail.
GET discover
";

/// Reads from n8n's own API what other tools do not: `users`, `users/ID`, `projects`,
/// `projects/ID/users`, `projects/ID/folders`, `variables`, `data-tables/ID/columns`, `source-control/status`,
/// `community-packages`, and `discover` for the scopes of the key.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadN8nApi {
    /// Give the path below /api/v1, for example `users`.
    path: String,
    /// It becomes the query of the request, for example {"limit": 50, "cursor": "…"}.
    #[serde(default)]
    query: Map<String, Value>,
}

/// n8n's answer, in which secrets are hidden.
#[derive(Serialize, JsonSchema)]
struct ApiAnswer {
    #[schemars(extend("not" = {"type": "null"}))]
    answer: Value,
}

impl Tool for ReadN8nApi {
    const NAME: &'static str = "read_n8n_api";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = ApiAnswer;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<ApiAnswer, ToolError> {
        let request = CallN8nApi {
            method: Change::Get,
            path: self.path,
            query: self.query,
            body: None,
            confirm: None,
        };
        request.send(n8n, call).await
    }
}

/// Changes what other tools do not with n8n's own API, in n8n's names: users, projects, folders, variables,
/// columns of data tables, source control, packages of custom nodes; it also runs the security audit. All
/// that gives rights, replaces, sends or deletes something needs the agreement of the user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallN8nApi {
    /// The operation has this method, as `path` lists them.
    method: Change,
    /// POST `users`, `projects`, `projects/ID/users`, `projects/ID/folders`, `variables`, `data-tables/ID/columns`,
    /// `source-control/push`, `source-control/pull`, `audit`, `community-packages`. PUT `projects/ID`,
    /// `variables/ID`. PATCH `users/ID/role`, `projects/ID/users/ID`, `projects/ID/folders/ID`,
    /// `data-tables/ID/columns/ID`, `community-packages/NAME`. DELETE a path that ends with an id or a name.
    path: String,
    /// It becomes the query of the request, for example {"transferToFolderId": "…"}.
    #[serde(default)]
    query: Map<String, Value>,
    /// `users` [{email, role}], `users/ID/role` {newRoleName}, `projects` {name}, `projects/ID/users` {relations:
    /// [{userId, role}]}, its PATCH {role}, `folders` {name, parentFolderId}, `variables` {key, value, projectId},
    /// `columns` {name, type}, its PATCH {name, index}, `source-control/push` {commitMessage, fileNames: [{id,
    /// type}], force}, its pull {force}, `audit` {additionalOptions: {categories, daysAbandonedWorkflow}},
    /// `community-packages` {name, version}.
    #[schemars(extend("not" = {"type": "null"}))]
    body: Option<Value>,
    /// Pass the value that the refused call names, once the user has agreed.
    confirm: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Change {
    // Of read_n8n_api.
    #[serde(skip)]
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Tool for CallN8nApi {
    const NAME: &'static str = "call_n8n_api";
    const EFFECT: Effect = Effect::PartlyDestructive;
    type Service = N8n;
    type Output = ApiAnswer;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<ApiAnswer, ToolError> {
        refuse_placeholder("body", &self.body)?;
        for part in ["name", "key"] {
            let given = self.body.as_ref().and_then(|body| body[part].as_str());
            given.map_or(Ok(()), |name| refuse_blank(&format!("body.{part}"), name))?;
        }
        self.send(n8n, call).await
    }
}

impl CallN8nApi {
    async fn send(self, n8n: &N8n, call: &Call) -> Result<ApiAnswer, ToolError> {
        let method = match self.method {
            Change::Get => Method::GET,
            Change::Post => Method::POST,
            Change::Put => Method::PUT,
            Change::Patch => Method::PATCH,
            Change::Delete => Method::DELETE,
        };
        let (operation, path) = find(&method, &self.path)?;
        if operation.reaches_all {
            n8n.api
                .policy
                .check_all_open(&format!("{method} {}", operation.path))?;
        }
        if operation.needs_consent(&method) {
            let target = self.target(&operation, &path);
            let question = self.question(&operation, target, n8n)?;
            let facts = (method.as_str(), &path, &self.query, &self.body);
            let confirm = self.confirm.as_deref();
            call.confirm_facts(&question, target, &facts, confirm)
                .await?;
        }
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query: Vec<_> = self
            .query
            .iter()
            .map(|(name, value)| (name, text(value)))
            .collect();
        let mut request = n8n.api.request(method, &path).query(&query);
        if let Some(body) = &self.body {
            request = request.body(body);
        }
        let answer = request.timeout(TIMEOUT).json().await;
        let mut answer = answer.map_err(|failure| refusal(failure, MISSING))?;
        hide_invitations(&mut answer);
        n8n.redactor().json(&mut answer);
        Ok(ApiAnswer { answer })
    }

    /// The id or name that a confirmation begins with: the last of the path, else that in the body, else the path.
    fn target<'a>(&'a self, operation: &Operation, path: &'a [String]) -> &'a str {
        let segments = operation.path.split('/').zip(path);
        let of_path = segments.filter(|(template, _)| template.starts_with('{'));
        let of_body = || self.body.as_ref()?["name"].as_str();
        of_path
            .last()
            .map(|(_, given)| given.as_str())
            .or_else(of_body)
            .unwrap_or(operation.path)
    }

    /// The effect of the operation with what is sent, for a person to decide on.
    fn question(
        &self,
        operation: &Operation,
        target: &str,
        n8n: &N8n,
    ) -> Result<String, ToolError> {
        let mut question = operation.effect.replace("{}", target);
        let query = (!self.query.is_empty()).then(|| Value::Object(self.query.clone()));
        for mut sent in query.into_iter().chain(self.body.clone()) {
            n8n.redactor().json(&mut sent);
            question += &format!(" {sent}");
        }
        if question.len() > MAX_SHOWN {
            return Err(ToolError::invalid_argument(
                "`query` and `body` are too long to be shown to the user, who must agree to them: send them in parts.",
            ));
        }
        Ok(question)
    }
}

/// A value of a query; n8n takes conditions as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The operation with this method and path, and the segments of the path.
fn find(method: &Method, path: &str) -> Result<(Operation, Vec<String>), ToolError> {
    let path = path.trim().trim_start_matches("/api/v1").trim_matches('/');
    let mut found = Operation::all(method).filter_map(|one| {
        let segments = segments(one.path, path)?;
        Some((one, segments))
    });
    found.next().ok_or_else(|| {
        let offered: Vec<_> = Operation::all(method).map(|one| one.path).collect();
        ToolError::invalid_argument(format!(
            "{method} {path} is not offered here. {method} takes: {}. Workflows, executions, credentials, tags \
             and data tables have tools of their own.",
            offered.join(", ")
        ))
    })
}

/// The segments of a path that has the form of `template`; `None` if it has another one. The name of a package has
/// a slash if it has a scope.
fn segments(template: &str, path: &str) -> Option<Vec<String>> {
    let template: Vec<_> = template.split('/').collect();
    let path: Vec<_> = match template.last() {
        Some(&"{name}") => path.splitn(template.len(), '/').collect(),
        _ => path.split('/').collect(),
    };
    let fits = |(wanted, given): (&&str, &&str)| match *wanted {
        "{name}" => is_package(given),
        // Users may be named by their address.
        id if id.starts_with('{') => {
            let is_legal = |c: u8| c.is_ascii_alphanumeric() || b"-_@.+".contains(&c);
            given.bytes().all(is_legal) && given.bytes().any(|c| c.is_ascii_alphanumeric())
        }
        fixed => fixed == *given,
    };
    let has_form = template.len() == path.len() && template.iter().zip(&path).all(fits);
    has_form.then(|| path.into_iter().map(str::to_owned).collect())
}

/// True for a name that a package of nodes can have in npm, with or without a scope.
fn is_package(name: &str) -> bool {
    let is_legal = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    let (scope, bare) = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').unwrap_or_default(),
        None => ("", name),
    };
    [scope, bare].iter().all(|part| part.bytes().all(is_legal)) && bare.starts_with("n8n-nodes-")
}

/// Hides the links of invitations, which n8n returns for those who may invite.
fn hide_invitations(answer: &mut Value) {
    match answer {
        Value::Array(all) => all.iter_mut().for_each(hide_invitations),
        Value::Object(all) => {
            if let Some(link) = all.get_mut(INVITATION) {
                *link = HIDDEN.into();
            }
            all.values_mut().for_each(hide_invitations);
        }
        _ => {}
    }
}
