//! The toolset `users`.

use crate::tools::prelude::*;

const USERS: Collection = Collection {
    path: "users",
    missing: "n8n has no such user. list_users shows those that it has.",
};

pub(crate) fn users() -> Toolset<N8n> {
    Toolset::new()
        .with::<ListUsers>()
        .with::<InviteUser>()
        .with::<SetUserRole>()
        .with::<DeleteUser>()
}

/// Lists the users of n8n.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListUsers {
    /// Page size; default 100.
    limit: Option<Limit>,
    /// Previous page's `next_cursor`.
    cursor: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Users {
    users: Vec<User>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct User {
    id: String,
    email: String,
    #[serde(default, alias = "firstName", skip_serializing_if = "Option::is_none")]
    first_name: Option<String>,
    #[serde(default, alias = "lastName", skip_serializing_if = "Option::is_none")]
    last_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    /// Was invited and has not accepted.
    #[serde(default, alias = "isPending")]
    pending: bool,
}

impl Tool for ListUsers {
    const NAME: &'static str = "list_users";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = N8n;
    type Output = Users;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Users, ToolError> {
        let role = [("includeRole", "true")];
        let (limit, cursor) = (self.limit, self.cursor);
        let (users, next_cursor) = USERS.page_of(n8n, &[], &role, limit, cursor).await?;
        Ok(Users { users, next_cursor })
    }
}

/// Invites a user. n8n mails the invitation where it can send mail; its link is not shown here.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InviteUser {
    /// Address that the invitation goes to.
    email: String,
    /// global:member (the default) or global:admin.
    role: Option<String>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Invited {
    id: String,
    email: String,
    /// False: an administrator copies the link of the invitation in n8n (Settings > Users).
    #[serde(alias = "emailSent")]
    email_sent: bool,
}

impl Tool for InviteUser {
    const NAME: &'static str = "invite_user";
    const EFFECT: Effect = Effect::Additive;
    type Service = N8n;
    type Output = Invited;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<Invited, ToolError> {
        #[derive(Deserialize)]
        struct Answer {
            user: Option<Invited>,
        }
        let role = self.role.as_deref().unwrap_or("global:member");
        let body = json!([{"email": self.email, "role": role}]);
        let answers: Vec<Answer> = USERS.send(n8n, Method::POST, &[], &body).await?;
        let user = answers.into_iter().find_map(|answer| answer.user);
        user.ok_or_else(|| {
            ToolError::conflict("n8n sent no invitation: the address may have an account already.")
        })
    }
}

/// Changes the role of a user on the whole instance.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetUserRole {
    /// From list_users.
    user_id: Id,
    /// global:member or global:admin.
    role: String,
}

#[derive(Serialize, JsonSchema)]
struct UserRole {
    user_id: String,
    role: String,
}

impl Tool for SetUserRole {
    const NAME: &'static str = "set_user_role";
    const EFFECT: Effect = Effect::Idempotent;
    type Service = N8n;
    type Output = UserRole;

    async fn call(self, n8n: &N8n, _: &Call) -> Result<UserRole, ToolError> {
        let path = [self.user_id.as_str(), "role"];
        let body = json!({"newRoleName": self.role});
        let IgnoredAny = USERS.send(n8n, Method::PATCH, &path, &body).await?;
        Ok(UserRole {
            user_id: self.user_id.to_string(),
            role: self.role,
        })
    }
}

/// Deletes a user with the personal workflows and credentials.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteUser {
    /// From list_users.
    user_id: Id,
    /// The id again, once the user has agreed.
    confirm: Option<String>,
}

impl Tool for DeleteUser {
    const NAME: &'static str = "delete_user";
    const EFFECT: Effect = Effect::Destructive;
    type Service = N8n;
    type Output = Deleted;

    async fn call(self, n8n: &N8n, call: &Call) -> Result<Deleted, ToolError> {
        n8n.api.policy.check_all_open(Self::NAME)?;
        let loss = "Deletes user {id} of n8n with all personal workflows and credentials.";
        USERS
            .delete(n8n, call, &self.user_id, self.confirm, loss)
            .await
    }
}
