//! The operator's policy: it restricts this server beyond what the engine restricts, which is nothing
//! for a program that can open its socket.
//!
//! The operator sets it on the command line and in a policy file; no client can change it. By default
//! the server may see every container, and create none that could take over the host.

mod create;
mod directory;
mod file;
mod rule;

use std::collections::BTreeMap;

use mcp_core::tool::{ToolError, ToolErrorKind};

pub(crate) use create::PrivilegeRequest;
pub(crate) use file::PolicyFile;
pub(crate) use rule::Subject;

use self::rule::Rules;

/// The label of what this server has created.
pub(crate) const CREATED: &str = "docker-mcp-server.created";
/// The label of a container that replaces another: the id of the old one.
pub(crate) const REPLACES: &str = "docker-mcp-server.replaces";
/// The beginning of this server's labels.
const OWN_LABELS: &str = "docker-mcp-server.";
/// Before the id in the name of the old container of a replacement.
pub(crate) const KEPT: &str = ".before-";

/// The rules and settings of the operator.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    rules: Rules,
    settings: PolicyFile,
}

/// The error of a call that the operator's options forbid.
pub(crate) fn forbidden(text: impl Into<String>) -> ToolError {
    ToolError::new(ToolErrorKind::Forbidden, text)
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

fn excluded(name: &str) -> String {
    format!(
        "`{name}` is not accessible through this server: its rules (--allow, --deny) exclude it."
    )
}

fn allow_if(allowed: bool, refusal: impl FnOnce() -> String) -> Result<(), ToolError> {
    match allowed {
        true => Ok(()),
        false => Err(forbidden(refusal())),
    }
}

impl Policy {
    /// Parses the rules of a policy.
    /// Errors when a rule is not valid.
    pub(crate) fn new(settings: PolicyFile) -> anyhow::Result<Self> {
        let rules = Rules::parse(&settings.allow, &settings.deny)?;
        Ok(Self { rules, settings })
    }

    /// Whether `subject` is visible to this server.
    pub(crate) fn permits(&self, subject: &Subject<'_>) -> bool {
        self.rules.permit(subject)
    }

    /// Errors when the rules hide `subject`.
    pub(crate) fn permit(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        allow_if(self.permits(subject), || excluded(subject.name))
    }

    /// As [`Policy::permit`], with the caller's name in the error: an id must not tell the name.
    pub(crate) fn permit_as(&self, given: &str, subject: &Subject<'_>) -> Result<(), ToolError> {
        allow_if(self.permits(subject), || excluded(given))
    }

    /// Errors when a rule denies `subject`. For what a visible container already uses: the operator
    /// need not have allowed each of its volumes by name.
    pub(crate) fn permit_use(&self, subject: &Subject<'_>) -> Result<(), ToolError> {
        allow_if(!self.rules.deny(subject), || excluded(subject.name))
    }

    /// The error of a call that would touch `name`, which the rules hide.
    pub(crate) fn refusal(&self, name: &str) -> ToolError {
        forbidden(excluded(name))
    }

    /// Whether there are rules.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.are_none()
    }

    /// Whether an object with these labels may be changed.
    pub(crate) fn may_change(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.settings.only_created || labels.contains_key(CREATED)
    }

    /// Errors when only this server's own objects may be changed, and this is not one of them.
    pub(crate) fn permit_change(
        &self,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        allow_if(self.may_change(labels), || {
            format!(
                "`{name}` was not created by this server, which may change only what it created \
                 (--only-created)."
            )
        })
    }

    /// The option that protects what has these labels from being overwritten.
    fn protection(&self, labels: &BTreeMap<String, String>) -> Option<&'static str> {
        match (self.settings.only_created, self.settings.no_destructive) {
            _ if labels.contains_key(CREATED) => None,
            (true, _) => Some("--only-created"),
            (_, true) => Some("--no-destructive"),
            _ => None,
        }
    }

    /// Errors when a container must not write to a volume with these labels.
    pub(crate) fn permit_write(
        &self,
        volume: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        self.protection(labels).map_or(Ok(()), |option| {
            Err(forbidden(format!(
                "The volume `{volume}` was not created by this server, so a container may only \
                 read it ({option}): mount it with `:ro`."
            )))
        })
    }

    /// Errors when an image with these labels must not lose its name to a newer one.
    pub(crate) fn permit_pull(
        &self,
        image: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ToolError> {
        self.protection(labels).map_or(Ok(()), |option| {
            Err(forbidden(format!(
                "`{image}` is here already and was not created by this server, so a newer one may \
                 not take its name ({option}): use it as it is."
            )))
        })
    }

    /// Whether only this server's own objects may be changed.
    pub(crate) fn is_only_created(&self) -> bool {
        self.settings.only_created
    }

    /// Errors when a container would reach the host without an exception of the policy; names the
    /// first option that is not allowed.
    pub(crate) fn permit_create(&self, request: &PrivilegeRequest<'_>) -> Result<(), ToolError> {
        self.settings.create.check(request)
    }

    /// Whether builds may use the network of the engine's host, as containers in its namespace may.
    pub(crate) fn may_use_host_network(&self) -> bool {
        let request = PrivilegeRequest {
            namespaces: vec!["host"],
            ..PrivilegeRequest::default()
        };
        self.permit_create(&request).is_ok()
    }

    /// Whether containers may have all privileges, so that nothing on the host is protected.
    pub(crate) fn is_privileged(&self) -> bool {
        let request = PrivilegeRequest {
            privileged: true,
            ..PrivilegeRequest::default()
        };
        self.permit_create(&request).is_ok()
    }

    /// Errors when a container must not be started that mounts `path` of the host, which can be seen from here.
    pub(crate) fn permit_start(&self, path: &str, is_own: bool) -> Result<(), ToolError> {
        allow_if(self.settings.create.may_start(path, is_own), || {
            format!(
                "This server does not start a container that mounts `{path}`: it is not in the \
                 directories that the policy file allows (`binds`), or leads through a symbolic link. \
                 Put a directory in the place of the link, or start it from outside."
            )
        })
    }

    /// Errors when commands in containers are not allowed.
    pub(crate) fn permit_exec(&self) -> Result<(), ToolError> {
        allow_if(self.settings.exec, || {
            "Commands in containers are disabled. The operator of this server can allow them with \
             --allow-exec."
                .to_owned()
        })
    }

    /// Errors when calls that may lose data are not allowed.
    pub(crate) fn permit_destructive(&self) -> Result<(), ToolError> {
        allow_if(!self.settings.no_destructive, || {
            "This server was started with --no-destructive: it may not stop, remove or overwrite \
             anything."
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn policy(json: &str) -> Policy {
        Policy::new(serde_json::from_str(json).unwrap()).unwrap()
    }

    #[track_caller]
    pub(super) fn assert_forbidden(result: Result<(), ToolError>, words: &[&str]) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Forbidden);
        for word in words {
            assert!(error.message().contains(word), "{error}");
        }
    }

    #[test]
    fn denied_objects_are_neither_visible_nor_used() {
        let labels = BTreeMap::new();
        let policy = policy(r#"{"allow":["name=shop-*"],"deny":["name=shop-secret"]}"#);
        for (name, is_visible, is_usable) in [
            ("shop-web", true, true),
            ("other", false, true),
            ("shop-secret", false, false),
        ] {
            let volume = Subject::new(name, &labels);
            assert_eq!(policy.permits(&volume), is_visible, "{name}");
            assert_eq!(policy.permit(&volume).is_ok(), is_visible, "{name}");
            assert_eq!(policy.permit_use(&volume).is_ok(), is_usable, "{name}");
            let by_id = policy.permit_as("0123", &volume);
            assert_eq!(by_id.is_ok(), is_visible, "{name}");
            if let Err(error) = by_id {
                assert!(error.message().contains("0123") && !error.message().contains(name));
            }
        }
        let words = ["`shop-secret`", "--allow", "--deny"];
        let secret = Subject::new("shop-secret", &labels);
        assert_forbidden(policy.permit(&secret), &words);
        assert_forbidden(policy.permit_use(&secret), &words);
        assert_forbidden(Err(policy.refusal("shop-secret")), &words);
        assert!(policy.has_rules());
        assert!(!Policy::default().has_rules());
    }

    #[test]
    fn objects_of_others_are_protected() {
        let created = BTreeMap::from([(CREATED.to_owned(), "true".to_owned())]);
        let foreign = BTreeMap::from([("other".to_owned(), "true".to_owned())]);
        for (only_created, no_destructive) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let policy = policy(&format!(
                r#"{{"only_created":{only_created},"no_destructive":{no_destructive}}}"#
            ));
            assert_eq!(policy.is_only_created(), only_created);
            assert_eq!(policy.permit_destructive().is_err(), no_destructive);
            assert!(policy.may_change(&created) && policy.permit_change("x", &created).is_ok());
            assert!(policy.permit_write("x", &created).is_ok());
            assert!(policy.permit_pull("x", &created).is_ok());
            assert_eq!(policy.may_change(&foreign), !only_created);
            assert_eq!(policy.permit_change("x", &foreign).is_ok(), !only_created);
            let option = match only_created {
                true => "--only-created",
                false => "--no-destructive",
            };
            let (write, pull) = (
                policy.permit_write("x", &foreign),
                policy.permit_pull("x", &foreign),
            );
            match only_created || no_destructive {
                true => _ = [write, pull].map(|it| assert_forbidden(it, &["`x`", option])),
                false => assert!(write.is_ok() && pull.is_ok()),
            }
        }
    }

    #[test]
    fn exec_is_off_and_destructive_calls_are_on_by_default() {
        let policy = Policy::default();
        assert!(policy.permit_exec().is_err() && policy.permit_destructive().is_ok());
        assert!(self::policy(r#"{"exec":true}"#).permit_exec().is_ok());
    }

    #[test]
    fn privileges_of_new_containers_are_exceptions() {
        let request = PrivilegeRequest {
            privileged: true,
            ..PrivilegeRequest::default()
        };
        assert!(Policy::default().permit_create(&request).is_err());
        let open = policy(r#"{"create":{"privileged":true}}"#);
        assert!(open.permit_create(&request).is_ok());
    }

    #[test]
    fn policy_file_is_read_and_has_no_unknown_members() {
        let path = std::env::temp_dir().join(format!("docker-mcp-policy-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            PolicyFile::read(path.to_str().unwrap())
        };
        assert!(read(r#"{"no_destructive":true}"#).unwrap().no_destructive);
        for invalid in ["", r#"{"no_destruction":true}"#, r#"{"create":{"x":1}}"#] {
            assert!(read(invalid).is_err(), "{invalid}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(PolicyFile::read(path.to_str().unwrap()).is_err());
    }
}
