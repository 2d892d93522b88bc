//! The operator's policy: it restricts this server beyond what the engine restricts, which is nothing
//! for a program that can open its socket.
//!
//! The operator sets it on the command line and in a policy file; no client can change it. By default
//! the server may see every container, and create none that could take over the host: options that reach out of a
//! container are refused, unless the policy file makes an exception.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use anyhow::bail;
use mcp_core::tool::ToolError;
use serde::Deserialize;
use wildmatch::WildMatchPattern;

pub(crate) type Labels = BTreeMap<String, String>;

/// The label of what this server has created. In an image its value is the name that the image was built as: images and
/// containers that others make of it inherit its labels, but not its name.
pub(crate) const CREATED: &str = "docker-mcp-server.created";
/// The value of that label in containers, networks and volumes.
pub(crate) const MARK: &str = "true";
/// The label of a container that replaces another: the id of the old one.
pub(crate) const REPLACES: &str = "docker-mcp-server.replaces";
/// The beginning of this server's labels.
const OWN_LABELS: &str = "docker-mcp-server.";
/// Before the id in the name of the old container of a replacement.
pub(crate) const KEPT: &str = ".before-";

/// The policy as the options and the policy file set it; the members of the file mean the same as the options. Every
/// member is optional; an unknown one is an error, since it may be a misspelt restriction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Policy {
    /// An object is visible if one of these matches, or there are none, and none of `deny` does.
    pub(crate) allow: Vec<Rule>,
    pub(crate) deny: Vec<Rule>,
    pub(crate) only_created: bool,
    pub(crate) no_destructive: bool,
    /// As `--allow-exec`.
    pub(crate) exec: bool,
    /// Exceptions for new containers.
    create: CreateExceptions,
    /// The directories that builds and compose projects may be read from, as `--project-dir`.
    pub(crate) directories: Vec<PathBuf>,
}

/// Errors when a caller's name or labels have the marks by which this server knows its own objects.
pub(crate) fn permit_marks<'a>(
    name: &str,
    labels: impl IntoIterator<Item = &'a String>,
) -> Result<(), ToolError> {
    let mut labels = labels.into_iter();
    if labels.any(|label| label.starts_with(OWN_LABELS)) {
        let text = format!("labels: only this server itself sets those with `{OWN_LABELS}`.");
        return Err(ToolError::invalid_argument(text));
    }
    if name.contains(KEPT) {
        let text = format!("The name must not contain `{KEPT}`, which marks replaced containers.");
        return Err(ToolError::invalid_argument(text));
    }
    Ok(())
}

pub(crate) fn excluded(name: &str) -> String {
    if name.is_empty() {
        return "Without a name it is not accessible through this server: give a name, or a label, that its rules \
            (--allow, --deny) permit."
            .to_owned();
    }
    format!(
        "`{name}` is not accessible through this server: its rules (--allow, --deny) exclude it."
    )
}

/// Whether this server has created the container, network or volume with these labels.
pub(crate) fn is_created(labels: &Labels) -> bool {
    labels.get(CREATED).is_some_and(|value| value == MARK)
}

/// Whether this server has built an image with these labels, which still has the name that it was built as.
pub(crate) fn is_built<'a>(labels: &Labels, mut tags: impl Iterator<Item = &'a str>) -> bool {
    let built = labels.get(CREATED);
    built.is_some_and(|built| tags.any(|tag| full_name(tag) == *built))
}

/// The name of an image with its tag and without the registry that engines leave out or add.
pub(crate) fn full_name(image: &str) -> String {
    let name = ["docker.io/", "index.docker.io/", "localhost/"]
        .iter()
        .find_map(|registry| image.strip_prefix(registry));
    let name = name.unwrap_or(image);
    let name = name.strip_prefix("library/").unwrap_or(name);
    let has_tag = name
        .rsplit('/')
        .next()
        .is_some_and(|last| last.contains(':'));
    format!("{name}{}", if has_tag { "" } else { ":latest" })
}

pub(crate) fn not_created(name: &str) -> String {
    format!(
        "`{name}` was not created by this server, which may change only what it created (--only-created)."
    )
}

fn allow_if(allowed: bool, refusal: impl FnOnce() -> String) -> Result<(), ToolError> {
    match allowed {
        true => Ok(()),
        false => Err(ToolError::forbidden(refusal())),
    }
}

impl Policy {
    /// Reads the policy file at `path`.
    /// Errors when it cannot be read or is not a valid policy.
    pub(crate) fn read(path: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    }

    /// Whether a container, a network or a volume is visible, even before it is created.
    pub(crate) fn permits(&self, name: &str, labels: &Labels) -> bool {
        let mut allow = self.allow.iter();
        let allowed = self.allow.is_empty() || allow.any(|rule| rule.matches(name, labels));
        allowed && self.permit_use(name, labels).is_ok()
    }

    pub(crate) fn permit(&self, name: &str, labels: &Labels) -> Result<(), ToolError> {
        self.permit_as(name, name, labels)
    }

    /// As [`Policy::permit`], with the caller's name in the error: an id must not tell the name.
    pub(crate) fn permit_as(
        &self,
        given: &str,
        name: &str,
        labels: &Labels,
    ) -> Result<(), ToolError> {
        allow_if(self.permits(name, labels), || excluded(given))
    }

    /// Errors when a rule denies it. For what a visible container already uses: the operator need not
    /// have allowed each of its volumes by name.
    pub(crate) fn permit_use(&self, name: &str, labels: &Labels) -> Result<(), ToolError> {
        let mut deny = self.deny.iter();
        allow_if(!deny.any(|rule| rule.matches(name, labels)), || {
            excluded(name)
        })
    }

    pub(crate) fn has_rules(&self) -> bool {
        !self.allow.is_empty() || !self.deny.is_empty()
    }

    /// Whether an object may be changed that this server has created, or built, or not.
    pub(crate) fn may_change(&self, is_own: bool) -> bool {
        is_own || !self.only_created
    }

    /// Errors when only this server's own objects may be changed, and this is not one of them.
    pub(crate) fn permit_change(&self, name: &str, is_own: bool) -> Result<(), ToolError> {
        allow_if(self.may_change(is_own), || not_created(name))
    }

    /// Errors when a container must not get a name in a network that this server has created or not: others may look for
    /// one of their own, or for a host elsewhere, by that name.
    pub(crate) fn permit_names(&self, is_created: bool) -> Result<(), ToolError> {
        allow_if(is_created || !self.only_created, || {
            "This network was not created by this server, so a container gets no name of your choice in it \
             (--only-created): use a network of create_network, or create the container there without name, hostname \
             and aliases."
                .to_owned()
        })
    }

    /// The option that protects from being overwritten what this server has created or not.
    fn protection(&self, is_own: bool) -> Option<&'static str> {
        match (self.only_created, self.no_destructive) {
            _ if is_own => None,
            (true, _) => Some("--only-created"),
            (_, true) => Some("--no-destructive"),
            _ => None,
        }
    }

    /// Errors when a container must not write to a volume with these labels.
    pub(crate) fn permit_write(&self, volume: &str, labels: &Labels) -> Result<(), ToolError> {
        self.protection(is_created(labels))
            .map_or(Ok(()), |option| {
                Err(ToolError::forbidden(format!(
                    "The volume `{volume}` was not created by this server, so a container may only \
                 read it ({option}): mount it with `:ro`."
                )))
            })
    }

    /// Errors when an image that this server has built or not must not lose its name to a newer one.
    pub(crate) fn permit_pull(&self, image: &str, is_built: bool) -> Result<(), ToolError> {
        self.protection(is_built).map_or(Ok(()), |option| {
            Err(ToolError::forbidden(format!(
                "`{image}` is here already and was not created by this server, so a newer one may \
                 not take its name ({option}): use it as it is."
            )))
        })
    }

    /// Errors when an option of a new container reaches out of it and is no exception of the policy.
    pub(crate) fn permit_create(&self, reach: &Reach<'_>) -> Result<(), ToolError> {
        let create = &self.create;
        let (is_allowed, option) = match reach {
            Reach::Privileged => (create.privileged, "privileged: true".to_owned()),
            Reach::Namespace(mode) => {
                // `container:x`, and `ns:/path` of Podman.
                let is_foreign = *mode == "host" || mode.contains(':');
                let foreign = format!("`{mode}`, a namespace of the host or of another container");
                (create.host_namespaces || !is_foreign, foreign)
            }
            Reach::Capability(wanted) => {
                let allowed = create.capabilities.iter().map(String::as_str);
                let mut allowed = allowed.chain(DEFAULT_CAPABILITIES.split(' '));
                let is_allowed = allowed.any(|allowed| capability(allowed) == capability(wanted));
                (is_allowed, format!("the capability {wanted}"))
            }
            Reach::Bind(path, sees_host) => {
                let roots = create.binds.iter();
                let mut roots = roots.filter(|root| covers(root, path, *sees_host));
                let is_allowed = roots.any(|root| !sees_host || !has_link(root, path));
                (is_allowed, format!("a mount of `{path}` of the host"))
            }
            Reach::Other(name) => (create.privileged, name.clone()),
        };
        allow_if(is_allowed, || reaches_out(&option))
    }

    /// Errors when a container must not mount this volume, which is the directory `path` of the host. The path itself is
    /// not for the caller: others may have created the volume.
    pub(crate) fn permit_host_volume(
        &self,
        volume: &str,
        path: &str,
        sees_host: bool,
    ) -> Result<(), ToolError> {
        let is_allowed = self.permit_create(&Reach::Bind(path, sees_host)).is_ok();
        allow_if(is_allowed, || {
            reaches_out(&format!(
                "the volume `{volume}`, which is a directory of the host"
            ))
        })
    }

    /// Whether builds may use the network of the engine's host, as containers in its namespace may.
    pub(crate) fn may_use_host_network(&self) -> bool {
        self.permit_create(&Reach::Namespace("host")).is_ok()
    }

    /// Whether containers may have all privileges, so that nothing on the host is protected.
    pub(crate) fn is_privileged(&self) -> bool {
        self.permit_create(&Reach::Privileged).is_ok()
    }

    /// Errors when a container must not be started or read that mounts `path` of the host, which can be seen from here.
    /// The path was checked when the container was created if that `is_own`; a part of it may have become a link since.
    pub(crate) fn permit_start(&self, path: &str, is_own: bool) -> Result<(), ToolError> {
        let binds = &self.create.binds;
        // By name alone: what is there by now may be a socket, which no root but its own covers.
        let roots = binds.iter().filter(|root| covers(root, path, false));
        let mut roots = roots.peekable();
        let may_start = match roots.peek() {
            None => !is_own,
            Some(_) => roots.any(|root| covers(root, path, true) && !has_link(root, path)),
        };
        allow_if(may_start, || {
            format!(
                "This server does not start a container that mounts `{path}`, or read its files: the path is not in \
                 the directories that the policy file allows (`binds`), leads through a symbolic link, or is a \
                 socket, which `binds` must name itself. Put a directory in the place of the link, or start it from \
                 outside."
            )
        })
    }

    /// Errors when files must not be written through a container that can write to `path` of the host, whose links can
    /// be seen from here if `sees_host`.
    pub(crate) fn permit_bind(
        &self,
        path: &str,
        sees_host: bool,
        container: &str,
    ) -> Result<(), ToolError> {
        let is_allowed = self.permit_create(&Reach::Bind(path, sees_host)).is_ok();
        allow_if(is_allowed, || {
            format!(
                "`{container}` mounts `{path}` of the host, and a link in it can lead there from any other place: \
                 what is written could become a file of the host. Ask the operator of this server to allow the path \
                 in the policy file (`binds`; no part of it may be a link) or to mount it with `:ro`."
            )
        })
    }

    /// Errors when commands in containers are not allowed.
    pub(crate) fn permit_exec(&self) -> Result<(), ToolError> {
        allow_if(self.exec, || {
            "Commands in containers are disabled. The operator of this server can allow them with \
             --allow-exec."
                .to_owned()
        })
    }

    /// Errors when calls that may lose data are not allowed.
    pub(crate) fn permit_destructive(&self) -> Result<(), ToolError> {
        allow_if(!self.no_destructive, || {
            "This server was started with --no-destructive: it may not stop, remove or overwrite \
             anything."
                .to_owned()
        })
    }

    /// The directory at `path`, if builds and compose projects may be read from it.
    /// Errors when it is outside of the allowed directories, or does not exist.
    pub(crate) fn directory(&self, path: &str) -> Result<PathBuf, ToolError> {
        let roots = &self.directories;
        let outside = || {
            ToolError::forbidden(match roots.len() {
                0 => {
                    "No directory may be read. The operator of this server can allow some with \
                     --project-dir."
                }
                _ => "This directory is outside of those that --project-dir allows.",
            })
        };
        let climbs = |part| matches!(part, Component::CurDir | Component::ParentDir);
        let asked = Path::new(path);
        if !asked.is_absolute() || asked.components().any(climbs) {
            return Err(ToolError::invalid_argument(
                "The directory must be an absolute path without `..`.",
            ));
        }
        // Checked before it is resolved, so that an error does not reveal what exists outside.
        if !roots.iter().any(|root| asked.starts_with(root)) {
            return Err(outside());
        }
        let real = asked.canonicalize();
        let real = real.map_err(|_| ToolError::not_found("There is no such directory."))?;
        // Checked again after it is resolved: a symbolic link may lead outside.
        let mut real_roots = roots.iter().filter_map(|root| root.canonicalize().ok());
        match real_roots.any(|root| real.starts_with(root)) {
            true => Ok(plain(real)),
            false => Err(outside()),
        }
    }

    /// Errors when the file at `path` is outside of the allowed directories, or is a link, which may lead
    /// out of them.
    pub(crate) fn file(&self, path: &Path) -> Result<(), ToolError> {
        let directory = path.parent().unwrap_or(path);
        self.directory(&directory.to_string_lossy())?;
        allow_if(!may_be_link(path), || {
            "A file of the project is a symbolic link: put the file itself there.".to_owned()
        })
    }
}

/// A canonical path as the roots and other programs write it: on Windows without the prefix of long paths.
fn plain(path: PathBuf) -> PathBuf {
    let short = path.to_str().and_then(|path| path.strip_prefix(r"\\?\"));
    match short.filter(|short| !short.starts_with(r"UNC\")) {
        Some(short) => PathBuf::from(short),
        None => path,
    }
}

/// Exceptions of the policy file: options that are allowed although they reach out of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct CreateExceptions {
    /// `--privileged`.
    privileged: bool,
    /// The host's network, process and IPC namespaces, and those of other containers.
    host_namespaces: bool,
    /// Capabilities that may be added, as `NET_ADMIN`.
    capabilities: Vec<String>,
    /// Paths of the host that may be mounted, and everything below them. A socket and `/` only if they are named
    /// themselves; a socket of another machine is known by the ending `.sock`.
    binds: Vec<String>,
}

/// An option of a new container that may reach out of it.
#[derive(Debug)]
pub(crate) enum Reach<'a> {
    Privileged,
    /// The mode of its network or of another namespace.
    Namespace(&'a str),
    Capability(&'a str),
    /// A path of the host, and whether links in it can be seen from here: the engine is on this machine.
    Bind(&'a str, bool),
    /// Any other, by its name; only with `privileged`, which includes it.
    Other(String),
}

/// Capabilities that Docker and Podman give each container: one that drops all and adds some of these has less.
const DEFAULT_CAPABILITIES: &str = "CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID \
    SYS_CHROOT";

/// The name of a capability without its optional prefix.
fn capability(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    name.trim_start_matches("CAP_").to_owned()
}

/// Why a container with this option is not created.
fn reaches_out(option: &str) -> String {
    format!(
        "This server does not create containers with {option}: that would give access outside of the container. Leave \
         it out, or ask the operator of this server to allow it in the policy file (--policy)."
    )
}

/// Whether the permission to mount `root` covers a mount of `path`, which can be seen from here if `sees_host`.
fn covers(root: &str, path: &str, sees_host: bool) -> bool {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.map(str::to_owned).collect()
    };
    let (root, asked) = (parts(root), parts(path));
    if !path.starts_with('/') || asked.iter().any(|part| part == "..") {
        return false;
    }
    let is_delicate = asked.last().is_none_or(|name| name.ends_with(".sock"));
    if is_delicate || root.is_empty() || sees_host && is_socket(path) {
        return root == asked;
    }
    asked.starts_with(&root)
}

/// Whether the file at `path` is a socket, by which a container would reach a program of the host.
fn is_socket(path: &str) -> bool {
    // A `/` at the end would mean a directory.
    let path: PathBuf = Path::new(path).components().collect();
    #[cfg(unix)]
    return path
        .metadata()
        .is_ok_and(|found| std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()));
    #[cfg(not(unix))]
    return path.extension().is_some_and(|end| end == "sock");
}

/// Whether a part of `path` below the allowed `root` is a link, which a container with a writable mount
/// can make: it may lead anywhere.
fn has_link(root: &str, path: &str) -> bool {
    let path: PathBuf = Path::new(path).components().collect();
    let below = path.components().count() - Path::new(root).components().count();
    path.ancestors().take(below).any(may_be_link)
}

/// Whether the file at `path` is a link, or cannot be seen. One that does not exist cannot be a link.
fn may_be_link(path: &Path) -> bool {
    // A `/` or `/.` at the end would mean what the link leads to.
    let path: PathBuf = path.components().collect();
    match path.symlink_metadata() {
        Ok(found) => found.is_symlink(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// `*` stands for any text, and nothing else has a meaning.
type Glob = WildMatchPattern<'*', '\0'>;

/// `name=shop-*`, `label=tier`, `label=tier=web`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) enum Rule {
    Name(String),
    Label(String, Option<String>),
}

impl TryFrom<String> for Rule {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        Self::parse(&text)
    }
}

impl Rule {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let rule = match text.split_once('=') {
            Some(("name", pattern)) => Self::Name(pattern.to_owned()),
            Some(("label", label)) => match label.split_once('=') {
                Some((key, value)) => Self::Label(key.to_owned(), Some(value.to_owned())),
                None => Self::Label(label.to_owned(), None),
            },
            _ => bail!("{text:?} is not a rule: write name=PATTERN or label=KEY[=PATTERN]"),
        };
        if let Self::Name(pattern) | Self::Label(pattern, _) = &rule
            && pattern.is_empty()
        {
            bail!("{text:?} is not a rule: its pattern is empty");
        }
        Ok(rule)
    }

    fn matches(&self, name: &str, labels: &Labels) -> bool {
        match self {
            Self::Name(pattern) => Glob::new(pattern).matches(name),
            Self::Label(key, pattern) => {
                let matches = |value: &String| {
                    pattern
                        .as_ref()
                        .is_none_or(|pattern| Glob::new(pattern).matches(value))
                };
                labels.get(key).is_some_and(matches)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_windows_lose_the_prefix_of_long_paths() {
        for (canonical, expected) in [
            (r"\\?\C:\a folder\x", r"C:\a folder\x"),
            (r"\\?\UNC\server\x", r"\\?\UNC\server\x"),
            ("/srv/x", "/srv/x"),
        ] {
            assert_eq!(plain(PathBuf::from(canonical)), Path::new(expected));
        }
    }

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
            assert_eq!(covers(root, path, false), expected, "{root} {path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn socket_of_any_name_has_to_be_named() {
        let dir = std::env::temp_dir().join(format!("docker-mcp-socket-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (root, path) = (dir.to_str().unwrap(), dir.join("api"));
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        std::os::unix::fs::symlink("api", dir.join("link")).unwrap();
        for (name, is_covered) in [
            ("api", false),
            ("api/", false),
            ("./api/.", false),
            ("link", false),
            ("file", true),
        ] {
            let path = format!("{root}/{name}");
            assert_eq!(covers(root, &path, true), is_covered, "{path}");
            let start = exceptions(&format!(r#"{{"binds":["{root}"]}}"#));
            for is_own in [true, false] {
                let may_start = start.permit_start(&path, is_own).is_ok();
                assert_eq!(may_start, is_covered, "{path} {is_own}");
            }
        }
        assert!(covers(path.to_str().unwrap(), path.to_str().unwrap(), true));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn image_is_known_by_the_name_that_it_was_built_as() {
        for (tag, is_known) in [
            ("shop:1", true),
            ("docker.io/library/shop:1", true),
            ("localhost/shop:1", true),
            ("shop:2", false),
            ("shop", false),
            ("theirs:1", false),
            ("registry:5000/shop:1", false),
            ("<none>:<none>", false),
        ] {
            let labels = BTreeMap::from([(CREATED.to_owned(), full_name("shop:1"))]);
            let tags = ["other:1", tag].into_iter();
            assert_eq!(is_built(&labels, tags), is_known, "{tag}");
            assert!(!is_created(&labels));
        }
        assert_eq!(full_name("registry:5000/shop"), "registry:5000/shop:latest");
        // An image that was made of a container of this server has the container's mark.
        let labels = BTreeMap::from([(CREATED.to_owned(), MARK.to_owned())]);
        assert!(!is_built(&labels, ["shop:1"].into_iter()) && is_created(&labels));
    }

    /// A policy with these exceptions for new containers.
    fn exceptions(json: &str) -> Policy {
        serde_json::from_str(&format!(r#"{{"create": {json}}}"#)).unwrap()
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

    #[test]
    fn exceptions_allow_only_what_they_name() {
        for (name, reach) in [
            ("privileged", Reach::Privileged),
            ("namespaces", Reach::Namespace("container:x")),
            ("capabilities", Reach::Capability("NET_ADMIN")),
            ("binds", Reach::Bind("/srv", false)),
            ("others", Reach::Other("Devices".to_owned())),
        ] {
            for (exception, allowed) in [
                (r#"{"privileged": true}"#, "privileged others"),
                (r#"{"host_namespaces": true}"#, "namespaces"),
                (r#"{"capabilities": ["CAP_NET_ADMIN"]}"#, "capabilities"),
                (r#"{"binds": ["/srv"]}"#, "binds"),
                ("{}", ""),
            ] {
                let is_allowed = exceptions(exception).permit_create(&reach).is_ok();
                assert_eq!(is_allowed, allowed.contains(name), "{exception} {name}");
            }
        }
    }

    /// A policy, a name, and whether it is visible; its label is `tier=web`.
    const VISIBLE: &str = r#"
        {} | x | true
        {"allow": ["name=shop-*", "label=tier=db"], "deny": ["name=shop-secret"]} | shop-web | true
        {"allow": ["name=shop-*", "label=tier=db"], "deny": ["name=shop-secret"]} | shop-secret | false
        {"allow": ["name=shop-*", "label=tier=db"], "deny": ["name=shop-secret"]} | other | false
        {"allow": ["label=tier"]} | x | true
        {"deny": ["label=tier=w*"]} | x | false"#;

    #[test]
    fn deny_wins_over_allow() {
        let labels = BTreeMap::from([("tier".to_owned(), "web".to_owned())]);
        for row in VISIBLE.trim().lines() {
            let [policy, name, expected] = row.split(" | ").collect::<Vec<_>>().try_into().unwrap();
            let policy: Policy = serde_json::from_str(policy).unwrap();
            assert_eq!(policy.permits(name, &labels).to_string(), expected, "{row}");
        }
    }

    #[test]
    fn invalid_rules_are_refused() {
        let label =
            |key: &str, value: Option<&str>| Rule::Label(key.to_owned(), value.map(str::to_owned));
        for (text, rule) in [
            ("name=a=b", Rule::Name("a=b".to_owned())),
            ("label=a", label("a", None)),
            ("label=a=", label("a", Some(""))),
            ("label=a=b=c", label("a", Some("b=c"))),
        ] {
            assert_eq!(Rule::parse(text).unwrap(), rule, "{text}");
        }
        for text in [
            "", "web", "name=", "image=a", "user=x", "label=", "label==x",
        ] {
            assert!(Rule::parse(text).is_err(), "{text}");
        }
    }
}
