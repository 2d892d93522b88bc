//! Policy for new containers.
//!
//! A privileged container has full control of the host. So options that reach out of a container are
//! refused, unless the policy file makes an exception.

use mcp_core::tool::ToolError;
use serde::Deserialize;

use super::allow_if;

/// Exceptions of the policy file: options that are allowed although they reach out of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CreateExceptions {
    /// `--privileged`.
    privileged: bool,
    /// The host's network, process and IPC namespaces, and those of other containers.
    host_namespaces: bool,
    /// Capabilities that may be added, as `NET_ADMIN`.
    capabilities: Vec<String>,
    /// Paths of the host that may be mounted, and everything below them. A socket and `/` only if
    /// they are named themselves.
    binds: Vec<String>,
}

/// The options of a new container that reach out of it.
#[derive(Debug, Default)]
pub(crate) struct PrivilegeRequest<'a> {
    pub(crate) privileged: bool,
    pub(crate) network: Option<&'a str>,
    /// Process and IPC namespace.
    pub(crate) namespaces: Vec<&'a str>,
    pub(crate) capabilities: &'a [String],
    /// Paths of the host.
    pub(crate) binds: Vec<&'a str>,
}

impl CreateExceptions {
    /// Errors when a requested option is not an exception; names the first one.
    pub(super) fn check(&self, request: &PrivilegeRequest<'_>) -> Result<(), ToolError> {
        let is_foreign = |mode: &&str| *mode == "host" || mode.starts_with("container:");
        let mut modes = request.network.iter().chain(&request.namespaces);
        let has_capability = |wanted: &String| {
            let mut allowed = self.capabilities.iter();
            allowed.any(|allowed| capability(allowed) == capability(wanted))
        };
        let may_bind = |path: &&str| self.binds.iter().any(|root| covers(root, path));
        let checks = [
            (self.privileged || !request.privileged, "privileged: true"),
            (
                self.host_namespaces || !modes.any(is_foreign),
                "a namespace of the host or of another container",
            ),
            (
                request.capabilities.iter().all(has_capability),
                "an added capability",
            ),
            (
                request.binds.iter().all(may_bind),
                "this path of the host as a mount",
            ),
        ];
        checks.iter().try_for_each(|(allowed, option)| {
            allow_if(*allowed, || {
                format!(
                    "This server does not create containers with {option}: that would give access \
                     outside of the container. Leave it out, or ask the operator of this server \
                     to allow it in the policy file (--policy)."
                )
            })
        })
    }
}

/// The name of a capability without its optional prefix.
fn capability(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    name.trim_start_matches("CAP_").to_owned()
}

/// Whether the permission to mount `root` covers a mount of `path`.
fn covers(root: &str, path: &str) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.map(str::to_owned).collect()
    };
    let (root, asked) = (parts(root), parts(path));
    if !path.starts_with('/') || asked.iter().any(|part| part == "..") {
        return false;
    }
    let is_delicate = asked.is_empty() || asked.last().is_some_and(|name| name.ends_with(".sock"));
    if is_delicate || root.is_empty() {
        return root == asked;
    }
    asked.starts_with(&root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_below_an_allowed_path() {
        for (root, path, expected) in [
            ("/srv", "/srv", true),
            ("/srv", "/srv/data/", true),
            ("/srv/", "/srv/./data", true),
            ("/srv", "/srvx", false),
            ("/srv", "/srv/../etc", false),
            ("/srv", "/", false),
            ("/", "/etc", false),
            ("/", "//", true),
            ("/var/run", "/var/run/docker.sock", false),
            ("/var/run/docker.sock", "/var/run/docker.sock", true),
            ("/srv", "srv", false),
        ] {
            assert_eq!(covers(root, path), expected, "{root} {path}");
        }
    }

    #[test]
    fn privileges_are_refused_unless_allowed() {
        let capabilities = ["cap_net_admin".to_owned()];
        let open: CreateExceptions = serde_json::from_str(
            r#"{"privileged":true,"host_namespaces":true,"capabilities":["NET_ADMIN"],"binds":["/srv"]}"#,
        )
        .unwrap();
        let mut requests: [PrivilegeRequest<'_>; 6] = Default::default();
        requests[1].privileged = true;
        requests[2].network = Some("host");
        requests[3].namespaces = vec!["container:x"];
        requests[4].capabilities = &capabilities;
        requests[5].binds = vec!["/srv/x"];
        for (at, request) in requests.iter().enumerate() {
            let closed = CreateExceptions::default().check(request);
            assert_eq!(closed.is_err(), at > 0, "{request:?}");
            assert!(open.check(request).is_ok(), "{request:?}");
        }
    }
}
