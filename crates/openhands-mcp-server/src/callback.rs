//! The URLs that may get the results of tasks (`callback_url`), and the tasks whose results they get. Which
//! task has which URL is kept in a tag of its conversation.

use anyhow::ensure;
use mcp_core::host::is_loopback;
use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, MutexGuard, Notify};
use upstream::http::Url;

use crate::api::TaskId;

/// Characters of a URL; it is kept in a tag.
const MAX_URL_CHARS: usize = 250;

/// The operator's rules for URLs, and the tasks whose results are not sent yet.
pub(crate) struct Callbacks {
    /// `HOST` or `HOST:PORT`.
    hosts: Vec<String>,
    pub(crate) token: Secret,
    expect: UnboundedSender<TaskId>,
    expected: Mutex<UnboundedReceiver<TaskId>>,
    /// Tells that a task has been added, which may be waited for already.
    pub(crate) added: Notify,
}

impl Callbacks {
    /// # Errors
    /// A host is invalid.
    pub(crate) fn new(hosts: &[String], token: Secret) -> anyhow::Result<Self> {
        let hosts = hosts.iter().map(|host| host.trim().to_ascii_lowercase());
        let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
        for host in &hosts {
            ensure!(
                !host.contains(['/', '@', '*', '?', '#', ' ']),
                "OPENHANDS_CALLBACK_HOSTS: {host:?} must be HOST or HOST:PORT, without a scheme, a \
                 path or a wildcard"
            );
        }
        let (expect, expected) = unbounded_channel();
        Ok(Self {
            hosts,
            token,
            expect,
            expected: Mutex::new(expected),
            added: Notify::new(),
        })
    }

    /// Returns true if tasks may have a URL.
    pub(crate) fn are_allowed(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The URL in its normal form, if results may be sent to it. Its path may hold a secret, so it is not shown.
    ///
    /// # Errors
    /// It must not get any; the error says why.
    pub(crate) fn check(&self, url: &str) -> Result<Url, ToolError> {
        let refuse = |reason: &str| {
            Err(ToolError::invalid_argument(format!(
                "callback_url {reason}"
            )))
        };
        if !self.are_allowed() {
            return refuse(
                "cannot be used on this server: the operator has to allow its host with \
                 OPENHANDS_CALLBACK_HOSTS. Ask with wait_task instead.",
            );
        }
        let Ok(parsed) = Url::parse(url) else {
            return refuse("is not a URL.");
        };
        if url.chars().count() > MAX_URL_CHARS || parsed.as_str().len() > MAX_URL_CHARS {
            return refuse(&format!("is longer than {MAX_URL_CHARS} characters."));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return refuse(
                "must not contain a password: the operator sets OPENHANDS_CALLBACK_TOKEN.",
            );
        }
        let host = parsed.host_str().unwrap_or_default();
        if !(parsed.scheme() == "https" || parsed.scheme() == "http" && is_loopback(host)) {
            return refuse("must be https, or http on loopback.");
        }
        let port = parsed.port_or_known_default().unwrap_or_default();
        let with_port = format!("{host}:{port}");
        let is_it = |allowed: &String| *allowed == host || *allowed == with_port;
        if !self.hosts.iter().any(is_it) {
            return refuse(&format!(
                "has the host {with_port}, which the operator has not allowed with \
                 OPENHANDS_CALLBACK_HOSTS."
            ));
        }
        Ok(parsed)
    }

    /// The same for an argument that may be left out.
    pub(crate) fn check_given(&self, url: Option<String>) -> Result<Option<Url>, ToolError> {
        url.map(|url| self.check(&url)).transpose()
    }

    /// Adds a task whose result is to be sent.
    pub(crate) fn expect(&self, id: TaskId) {
        // The receiver lives as long as the sender.
        let _ = self.expect.send(id);
        self.added.notify_waiters();
    }

    /// The tasks whose results are to be sent.
    pub(crate) async fn expected(&self) -> MutexGuard<'_, UnboundedReceiver<TaskId>> {
        self.expected.lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_hosts_get_results() {
        let hosts = ["n8n.example.com", "127.0.0.1:5678", ""].map(str::to_owned);
        let callbacks = Callbacks::new(&hosts, Secret::new(None, None)).unwrap();
        for allowed in [
            "https://n8n.example.com/webhook/1?x=y",
            "https://N8N.example.com:8443/",
            "http://127.0.0.1:5678/webhook/1",
        ] {
            assert!(callbacks.check(allowed).is_ok(), "{allowed}");
        }
        let long = format!("https://n8n.example.com/{}", "x".repeat(MAX_URL_CHARS));
        for (refused, why) in [
            ("x", "is not a URL"),
            ("https://example.com/", "host example.com:443"),
            ("https://n8n.example.com.evil.test/", "has the host"),
            ("http://n8n.example.com/", "must be https"),
            ("http://127.0.0.1:5679/", "has the host"),
            ("http://127.0.0.1.nip.io:5678/", "must be https"),
            ("ftp://127.0.0.1:5678/", "must be https"),
            ("https://a:b@n8n.example.com/", "password"),
            ("https://n8n.example.com@evil.test/", "password"),
            (long.as_str(), "is longer"),
        ] {
            let error = callbacks.check(refused).err().unwrap();
            assert!(error.message().contains(why), "{refused}: {error}");
        }
        assert!(Callbacks::new(&["https://a".into()], Secret::new(None, None)).is_err());
        let none = Callbacks::new(&[], Secret::new(None, None)).unwrap();
        let error = none.check("https://a/").err().unwrap();
        assert!(error.message().contains("OPENHANDS_CALLBACK_HOSTS"));
    }
}
