//! What containers may be created with.
//!
//! Whoever creates a privileged container owns the host. So what reaches out of a container is
//! refused, unless the policy file makes an exception.

use mcp_core::tool::ToolError;
use serde::Deserialize;

use super::refusal::forbidden;

/// What the policy file allows of what is refused otherwise.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Exceptions {
    /// `--privileged`.
    privileged: bool,
    /// The host's network, process and IPC namespaces, and those of other containers.
    host_namespaces: bool,
    /// Capabilities that may be added, as `NET_ADMIN`.
    capabilities: Vec<String>,
    /// Paths of the host that may be mounted, and what is below them. A socket and `/` only where
    /// they are named themselves.
    binds: Vec<String>,
}

/// What is asked for of what reaches out of a container.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    pub(crate) privileged: bool,
    pub(crate) network: Option<&'a str>,
    /// Process and IPC namespace.
    pub(crate) namespaces: Vec<&'a str>,
    pub(crate) capabilities: &'a [String],
    /// Paths of the host.
    pub(crate) binds: Vec<&'a str>,
}

impl Exceptions {
    /// Refuses what is not among them.
    /// Errors names the first thing that is not allowed.
    pub(super) fn check(&self, wanted: &Wanted<'_>) -> Result<(), ToolError> {
        if wanted.privileged && !self.privileged {
            return Err(refused("privileged: true"));
        }
        let of_others = |mode: &str| mode == "host" || mode.starts_with("container:");
        let modes = wanted.network.iter().chain(&wanted.namespaces);
        for mode in modes {
            if of_others(mode) && !self.host_namespaces {
                return Err(refused("a namespace of the host or of another container"));
            }
        }
        for capability in wanted.capabilities {
            let name = |text: &str| {
                text.to_ascii_uppercase()
                    .trim_start_matches("CAP_")
                    .to_owned()
            };
            if !self
                .capabilities
                .iter()
                .any(|known| name(known) == name(capability))
            {
                return Err(refused("an added capability"));
            }
        }
        for path in &wanted.binds {
            if !self.binds.iter().any(|root| covers(root, path)) {
                return Err(refused("this path of the host as a mount"));
            }
        }
        Ok(())
    }
}

/// Whether a mount of `path` is covered by leave to mount `root`.
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

fn refused(what: &str) -> ToolError {
    forbidden(format!(
        "This server does not create containers with {what}: it would reach out of the container. \
         Leave it out; or who runs this server allows it in the policy file (--policy)."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_below_what_is_allowed() {
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
    fn nothing_reaches_out_unless_allowed() {
        let capabilities = ["cap_net_admin".to_owned()];
        let all = [
            Wanted {
                privileged: true,
                ..Wanted::default()
            },
            Wanted {
                network: Some("host"),
                ..Wanted::default()
            },
            Wanted {
                namespaces: vec!["container:x"],
                ..Wanted::default()
            },
            Wanted {
                capabilities: &capabilities,
                ..Wanted::default()
            },
            Wanted {
                binds: vec!["/srv/x"],
                ..Wanted::default()
            },
        ];
        let open: Exceptions = serde_json::from_str(
            r#"{"privileged":true,"host_namespaces":true,"capabilities":["NET_ADMIN"],"binds":["/srv"]}"#,
        )
        .unwrap();
        for wanted in &all {
            assert!(Exceptions::default().check(wanted).is_err(), "{wanted:?}");
            assert!(open.check(wanted).is_ok(), "{wanted:?}");
        }
        assert!(Exceptions::default().check(&Wanted::default()).is_ok());
    }
}
