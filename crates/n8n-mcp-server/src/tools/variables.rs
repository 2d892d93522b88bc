//! The toolset `variables`: values that workflows read as `$vars`. Needs a licence.

use crate::tools::prelude::*;

const VARIABLES: Collection = Collection {
    path: "variables",
    missing: "n8n has no such variable. list_variables shows those that it has.",
};

pub(crate) fn variables() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListVariables>()
        .with::<SetVariable>()
        .with::<DeleteVariable>()
}

/// Lists the variables of n8n.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListVariables {
    /// Only those of this project.
    project_id: Option<Id>,
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Variables {
    variables: Vec<Variable>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Variable {
    id: String,
    key: String,
    /// Hidden if the key looks like a secret.
    value: String,
}

impl Tool for ListVariables {
    const NAME: &'static str = "list_variables";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Variables;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Variables, ToolError> {
        let project = self
            .project_id
            .as_ref()
            .map(|id| ("projectId", id.as_str()));
        let (limit, cursor) = (self.limit, self.cursor);
        let page = VARIABLES.page_of(n8n, &[], project.as_slice(), limit, cursor);
        let (mut variables, next_cursor): (Vec<Variable>, _) = page.await?;
        let redactor = n8n.redactor();
        for one in &mut variables {
            let mut shown = json!({ one.key.clone(): one.value });
            redactor.json(&mut shown);
            one.value = shown[&one.key].as_str().unwrap_or_default().to_owned();
        }
        Ok(Variables {
            variables,
            next_cursor,
        })
    }
}

/// Creates a variable or changes its value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetVariable {
    /// Letters, digits and `_`.
    key: String,
    /// A text; replaces the one before.
    value: String,
}

#[derive(Serialize, JsonSchema)]
struct VariableSet {
    key: String,
    /// False if it existed before.
    created: bool,
}

impl Tool for SetVariable {
    const NAME: &'static str = "set_variable";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = VariableSet;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<VariableSet, ToolError> {
        refuse_placeholder("value", &self.value)?;
        let all: Vec<Variable> = VARIABLES.all(n8n).await?;
        let known = all.into_iter().find(|one| one.key == self.key);
        let body = json!({"key": self.key, "value": self.value});
        let IgnoredAny = match &known {
            Some(one) => VARIABLES.send(n8n, Method::PUT, &[&one.id], &body).await?,
            None => VARIABLES.send(n8n, Method::POST, &[], &body).await?,
        };
        let created = known.is_none();
        Ok(VariableSet {
            key: self.key,
            created,
        })
    }
}

/// Deletes a variable; workflows that read it get nothing from then on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteVariable {
    /// From list_variables.
    variable_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteVariable {
    const NAME: &'static str = "delete_variable";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        let loss = "Deletes variable {id} of n8n.";
        VARIABLES
            .delete(n8n, call, &self.variable_id, self.confirm, loss)
            .await
    }
}
