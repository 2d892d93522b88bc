//! Policy for new containers.
//!
//! A privileged container has full control of the host. So options that reach out of a container are
//! refused, unless the policy file makes an exception.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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
    /// Network modes, and the modes of the other namespaces.
    pub(crate) namespaces: Vec<&'a str>,
    pub(crate) capabilities: &'a [String],
    /// Paths of the host.
    pub(crate) binds: Vec<&'a str>,
    /// Whether links in these paths can be seen from here: the engine is on this machine.
    pub(crate) sees_host: bool,
    /// Further options that reach out of the container, by their names; only with `privileged`,
    /// which includes them.
    pub(crate) others: Vec<String>,
}

impl CreateExceptions {
    /// Errors when a requested option is not an exception; names the first one.
    pub(super) fn check(&self, request: &PrivilegeRequest<'_>) -> Result<(), ToolError> {
        // `container:x`, and `ns:/path` of Podman.
        let is_foreign = |mode: &&str| *mode == "host" || mode.contains(':');
        let has_capability = |wanted: &String| {
            let mut allowed = self.capabilities.iter();
            allowed.any(|allowed| capability(allowed) == capability(wanted))
        };
        let may_bind = |path: &&str| {
            let mut roots = self.binds.iter().filter(|root| covers(root, path));
            roots.any(|root| !request.sees_host || !has_link(root, path))
        };
        let foreign = "a namespace of the host or of another container";
        let checks = [
            (self.privileged || !request.privileged, "privileged: true"),
            (
                self.host_namespaces || !request.namespaces.iter().any(is_foreign),
                foreign,
            ),
            (
                request.capabilities.iter().all(has_capability),
                "an added capability",
            ),
            (
                request.binds.iter().all(may_bind),
                "this path of the host as a mount",
            ),
            (
                self.privileged || request.others.is_empty(),
                request.others.first().map_or("", String::as_str),
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

impl CreateExceptions {
    /// Whether a container may be started that mounts `path`, which was checked when it was created if that
    /// `is_own`. A part of it may have become a link since.
    pub(super) fn may_start(&self, path: &str, is_own: bool) -> bool {
        let mut roots = self.binds.iter().filter(|root| covers(root, path));
        let mut roots = roots.by_ref().peekable();
        match roots.peek() {
            None => !is_own,
            Some(_) => roots.any(|root| !has_link(root, path)),
        }
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

/// Whether a part of `path` below the allowed `root` is a link, which a container with a writable mount
/// can make: it may lead anywhere.
fn has_link(root: &str, path: &str) -> bool {
    let path: PathBuf = Path::new(path).components().collect();
    let below = path.components().count() - Path::new(root).components().count();
    path.ancestors().take(below).any(may_be_link)
}

/// Whether the file at `path` is a link, or cannot be seen. One that does not exist cannot be a link.
pub(super) fn may_be_link(path: &Path) -> bool {
    // A `/` or `/.` at the end would mean what the link leads to.
    let path: PathBuf = path.components().collect();
    match path.symlink_metadata() {
        Ok(found) => found.is_symlink(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
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

    fn exceptions(json: &str) -> CreateExceptions {
        serde_json::from_str(json).unwrap()
    }

    /// Each exception allows only what it names; `privileged` includes the further options.
    #[test]
    fn privileges_are_refused_unless_allowed() {
        let namespace = "a namespace of the host or of another container";
        let capability = "an added capability";
        let mount = "this path of the host as a mount";
        let names = ["privileged", "host_namespaces", "capabilities", "binds", ""];
        let all = [
            r#"{"privileged":true}"#,
            r#"{"host_namespaces":true}"#,
            r#"{"capabilities":["NET_ADMIN"]}"#,
            r#"{"binds":["/srv","/data"]}"#,
            "{}",
        ]
        .map(exceptions);
        for (kind, words, needed, option) in [
            ("", "", None, ""),
            ("namespaces", "bridge private none", None, ""),
            (
                "namespaces",
                "private host",
                Some("host_namespaces"),
                namespace,
            ),
            (
                "namespaces",
                "container:x",
                Some("host_namespaces"),
                namespace,
            ),
            (
                "namespaces",
                "ns:/run/netns/x",
                Some("host_namespaces"),
                namespace,
            ),
            ("privileged", "", Some("privileged"), "privileged: true"),
            (
                "capabilities",
                "cap_net_admin",
                Some("capabilities"),
                capability,
            ),
            (
                "capabilities",
                "NET_ADMIN CAP_SYS_ADMIN",
                Some("none"),
                capability,
            ),
            ("binds", "/srv/x /data", Some("binds"), mount),
            ("binds", "/srv/x /etc", Some("none"), mount),
            ("others", "Devices", Some("privileged"), "Devices"),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let texts: Vec<String> = words.iter().map(ToString::to_string).collect();
            let mut request = PrivilegeRequest::default();
            match kind {
                "namespaces" => request.namespaces = words,
                "capabilities" => request.capabilities = &texts,
                "binds" => request.binds = words,
                "others" => request.others.clone_from(&texts),
                kind => request.privileged = !kind.is_empty(),
            }
            for (name, exceptions) in names.iter().zip(&all) {
                let is_allowed = needed.is_none_or(|needed| needed == *name);
                let checked = exceptions.check(&request);
                assert_eq!(checked.is_ok(), is_allowed, "{name}: {request:?}");
                let start = format!("This server does not create containers with {option}:");
                let text = checked.err().map(|error| error.message().to_owned());
                assert!(text.is_none_or(|text| text.starts_with(&start)), "{name}");
            }
        }
    }

    /// A container that may write to an allowed folder can make a link in it that leads anywhere.
    #[cfg(unix)]
    #[test]
    fn links_below_an_allowed_folder_are_refused() {
        use std::os::unix::fs::symlink;

        let dir = std::env::temp_dir().join(format!("docker-mcp-links-{}", std::process::id()));
        let inner = dir.join("inner");
        std::fs::create_dir_all(inner.join("folder")).unwrap();
        symlink("/etc", inner.join("link")).unwrap();
        symlink(&inner, dir.join("root")).unwrap();
        let [inner, root] = [inner, dir.join("root")].map(|path| path.to_str().unwrap().to_owned());
        // The operator may allow a link.
        for (allowed, plain, linked) in [
            (
                &inner,
                ",/folder,/folder/new/deep",
                "/link,/link/a/b/c,/link/,/link/.,/link//,/./link/,//link/./",
            ),
            (&root, ",/folder,/folder/,//folder/.", "/link/a"),
        ] {
            let exceptions = exceptions(&format!(r#"{{"binds":["{allowed}"]}}"#));
            let plain = plain.split(',').map(|below| (below, false));
            for (below, has_link) in plain.chain(linked.split(',').map(|below| (below, true))) {
                let path = format!("{allowed}{below}");
                for sees_host in [true, false] {
                    let request = PrivilegeRequest {
                        binds: vec![&path],
                        sees_host,
                        ..PrivilegeRequest::default()
                    };
                    let is_refused = exceptions.check(&request).is_err();
                    assert_eq!(is_refused, has_link && sees_host, "{path}");
                }
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// A folder may exist that this server may not search.
    #[test]
    fn only_what_does_not_exist_is_no_link() {
        let dir = std::env::temp_dir().join(format!("docker-mcp-unseen-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        // An error other than that it does not exist, also for root.
        for (path, expected) in [("file", false), ("missing/x", false), ("file/x", true)] {
            assert_eq!(may_be_link(&dir.join(path)), expected, "{path}");
        }
        let long = dir.join("x".repeat(300));
        assert!(may_be_link(&long));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Only a container that this server has created was checked before.
    #[cfg(unix)]
    #[test]
    fn paths_are_checked_again_at_a_start() {
        let dir = std::env::temp_dir().join(format!("docker-mcp-start-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("data")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.join("link")).unwrap();
        let text = dir.to_str().unwrap();
        let allowed = exceptions(&format!(r#"{{"binds":["{text}"]}}"#));
        for (path, theirs, ours) in [
            (&*format!("{text}/data"), true, true),
            (&format!("{text}/link"), false, false),
            (&format!("{text}/link/x"), false, false),
            (&format!("{text}/link/."), false, false),
            ("/etc", true, false),
        ] {
            let started = [false, true].map(|is_own| allowed.may_start(path, is_own));
            assert_eq!(started, [theirs, ours], "{path}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
