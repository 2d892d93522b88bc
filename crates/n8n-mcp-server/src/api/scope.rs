//! The scope of an API key that a request needs. n8n itself replies only "Forbidden".

use upstream::http::Method;

/// n8n's name of the scope, for example `workflow:read`; `None` if it is not known.
pub(super) fn scope(method: &Method, path: &[&str]) -> Option<String> {
    let resource = match *path.first()? {
        "audit" => return Some("securityAudit:generate".to_owned()),
        "source-control" => "sourceControl",
        "data-tables" if path.get(2) == Some(&"rows") => "dataTableRow",
        "data-tables" => "dataTable",
        "community-packages" => "communityPackage",
        "projects" if path.get(2) == Some(&"folders") => "folder",
        "workflows" if path.get(2) == Some(&"tags") => "workflowTags",
        plural => plural.strip_suffix('s')?,
    };
    let action = match (method, path) {
        (_, ["source-control", "status"]) => "read",
        (_, ["source-control", action]) => action,
        (_, ["users", _, "role"]) => "changeRole",
        (_, ["credentials", _, "test"]) => "read",
        (_, ["data-tables", _, "rows", "upsert"]) => "upsert",
        (&Method::PUT, [_, _, "transfer"]) => "move",
        (&Method::GET, [_] | [_, _, "tags" | "folders"]) => "list",
        (&Method::GET, _) => "read",
        (&Method::POST, ["community-packages"]) => "install",
        (&Method::DELETE, ["community-packages", _]) => "uninstall",
        (&Method::POST, [_] | [_, _, "rows" | "columns" | "users" | "folders"]) => "create",
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
            ("GET", "workflows", "workflow:list"),
            ("GET", "workflows/1", "workflow:read"),
            ("POST", "workflows", "workflow:create"),
            ("POST", "workflows/1/activate", "workflow:activate"),
            ("PUT", "workflows/1", "workflow:update"),
            ("PUT", "workflows/1/tags", "workflowTags:update"),
            ("GET", "executions/1", "execution:read"),
            ("POST", "executions/1/retry", "execution:retry"),
            ("DELETE", "executions/1", "execution:delete"),
            ("POST", "audit", "securityAudit:generate"),
            ("POST", "source-control/pull", "sourceControl:pull"),
            ("PUT", "workflows/1/transfer", "workflow:move"),
            ("GET", "workflows/1/history", "workflow:read"),
            ("GET", "projects/1/folders", "folder:list"),
            ("POST", "projects/1/folders", "folder:create"),
            ("DELETE", "projects/1/folders/2", "folder:delete"),
            ("POST", "data-tables/1/rows", "dataTableRow:create"),
            ("POST", "community-packages", "communityPackage:install"),
        ] {
            let path: Vec<_> = path.split('/').collect();
            let found = scope(&method.parse().unwrap(), &path);
            assert_eq!(found.as_deref(), Some(expected));
        }
    }
}
