//! Which scope of an API key a request needs: n8n itself says only "Forbidden".

use upstream::http::Method;

/// The scope in n8n's words, for example `workflow:read`; `None` where it is not known.
pub(super) fn scope(method: &Method, path: &[&str]) -> Option<String> {
    let resource = match *path.first()? {
        "audit" => return Some("securityAudit:generate".to_owned()),
        "source-control" => "sourceControl",
        "data-tables" if path.get(2) == Some(&"rows") => "dataTableRow",
        "data-tables" => "dataTable",
        "community-packages" => "communityPackage",
        "workflows" if path.get(2) == Some(&"tags") => "workflowTags",
        plural => plural.strip_suffix('s')?,
    };
    let action = match (method, path) {
        (_, ["source-control", "status"]) => "read",
        (_, ["source-control", action]) => action,
        (_, ["users", _, "role"]) => "changeRole",
        (_, ["credentials", _, "test"]) => "read",
        (_, ["data-tables", _, "rows", "upsert"]) => "upsert",
        (&Method::GET, [_] | [_, _, "tags"]) => "list",
        (&Method::GET, _) => "read",
        (&Method::POST, ["community-packages"]) => "install",
        (&Method::DELETE, ["community-packages", _]) => "uninstall",
        (&Method::POST, [_] | [_, _, "rows" | "columns" | "users"]) => "create",
        (&Method::POST, [_, _, action]) => action,
        (&Method::DELETE, _) => "delete",
        _ => "update",
    };
    Some(format!("{resource}:{action}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_named_as_n8n_names_them() {
        for (method, path, expected) in [
            (Method::GET, &["workflows"][..], "workflow:list"),
            (Method::GET, &["workflows", "1"], "workflow:read"),
            (Method::POST, &["workflows"], "workflow:create"),
            (
                Method::POST,
                &["workflows", "1", "activate"],
                "workflow:activate",
            ),
            (Method::PUT, &["workflows", "1"], "workflow:update"),
            (
                Method::PUT,
                &["workflows", "1", "tags"],
                "workflowTags:update",
            ),
            (Method::GET, &["executions", "1"], "execution:read"),
            (
                Method::POST,
                &["executions", "1", "retry"],
                "execution:retry",
            ),
            (Method::DELETE, &["executions", "1"], "execution:delete"),
            (Method::POST, &["audit"], "securityAudit:generate"),
            (
                Method::POST,
                &["source-control", "pull"],
                "sourceControl:pull",
            ),
            (
                Method::POST,
                &["data-tables", "1", "rows"],
                "dataTableRow:create",
            ),
            (
                Method::POST,
                &["community-packages"],
                "communityPackage:install",
            ),
        ] {
            assert_eq!(scope(&method, path).as_deref(), Some(expected));
        }
    }
}
