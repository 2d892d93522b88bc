//! The URLs that may get the results of tasks (`callback_url`), and the tasks whose results they get. Which
//! task has which URL is kept in a tag of its conversation.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use tokio::time::Instant;
use upstream::http::Url;

use crate::api::TaskId;

/// Attempts to send a result. The last one is about four minutes after the first.
pub(crate) const MAX_ATTEMPTS: u32 = 9;
/// The time between the first two attempts; it doubles.
const FIRST_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Characters of a URL; it is kept in a tag.
const MAX_URL_CHARS: usize = 250;

/// A URL that may get the result of a task. Its path may hold a secret, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CallbackUrl(String);

impl CallbackUrl {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// For fingerprints of tasks.
impl fmt::Debug for CallbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The operator's rules for URLs, and the tasks whose results are not sent yet.
pub(crate) struct Callbacks {
    /// `HOST` or `HOST:PORT`.
    hosts: Vec<String>,
    pub(crate) token: Secret,
    expected: Mutex<HashMap<TaskId, Expected>>,
}

/// A task whose result is to be sent.
struct Expected {
    /// The time of the next attempt.
    next: Instant,
    /// Errors of the agent server since the last answer.
    errors: u32,
    /// The number of the result that was taken, which is to be recorded.
    sent: Option<u32>,
}

impl Expected {
    fn after(failed: u32) -> Self {
        Self {
            next: Instant::now() + interval(failed),
            errors: 0,
            sent: None,
        }
    }
}

/// The time to the next attempt after so many that have failed in a row.
fn interval(failed: u32) -> Duration {
    match failed.checked_sub(1) {
        Some(doubled) => FIRST_RETRY_INTERVAL * 2_u32.pow(doubled.min(MAX_ATTEMPTS)),
        None => Duration::ZERO,
    }
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
        Ok(Self {
            hosts,
            token,
            expected: Mutex::default(),
        })
    }

    /// Returns true if tasks may have a URL.
    pub(crate) fn are_allowed(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// The URL, if results may be sent to it.
    ///
    /// # Errors
    /// It must not get any; the error says why.
    pub(crate) fn check(&self, url: &str) -> Result<CallbackUrl, ToolError> {
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
        let with_port = parsed.port_or_known_default();
        let with_port = with_port
            .map(|port| format!("{host}:{port}"))
            .unwrap_or_default();
        if !self
            .hosts
            .iter()
            .any(|allowed| *allowed == host || *allowed == with_port)
        {
            return refuse(&format!(
                "has the host {with_port}, which the operator has not allowed with \
                 OPENHANDS_CALLBACK_HOSTS."
            ));
        }
        Ok(CallbackUrl(parsed.into()))
    }

    /// The same for an argument that may be left out.
    pub(crate) fn check_given(&self, url: Option<&str>) -> Result<Option<CallbackUrl>, ToolError> {
        url.map(|url| self.check(url)).transpose()
    }

    /// Adds a task whose result is to be sent.
    pub(crate) fn expect(&self, id: TaskId) {
        self.map().entry(id).or_insert_with(|| Expected::after(0));
    }

    /// The tasks whose next attempt is due.
    pub(crate) fn due(&self) -> Vec<TaskId> {
        let now = Instant::now();
        let expected = self.map();
        let due = expected.iter().filter(|(_, task)| task.next <= now);
        due.map(|(id, _)| *id).collect()
    }

    /// Looks at the task again after the attempts that have failed.
    pub(crate) fn retry(&self, id: TaskId, failed: u32) {
        self.map().insert(id, Expected::after(failed));
    }

    /// Looks at the task again after an error of the agent server, later each time.
    pub(crate) fn postpone(&self, id: TaskId) {
        if let Some(task) = self.map().get_mut(&id) {
            task.errors = task.errors.saturating_add(1);
            task.next = Instant::now() + interval(task.errors);
        }
    }

    /// Remembers that the result with this number was taken.
    pub(crate) fn set_sent(&self, id: TaskId, number: u32) {
        if let Some(task) = self.map().get_mut(&id) {
            task.sent = Some(number);
        }
    }

    /// Returns true if the result with this number was taken.
    pub(crate) fn is_sent(&self, id: TaskId, number: u32) -> bool {
        let map = self.map();
        map.get(&id).is_some_and(|task| task.sent == Some(number))
    }

    /// Removes a task whose result was sent, or cannot be sent.
    pub(crate) fn remove(&self, id: TaskId) {
        self.map().remove(&id);
    }

    fn map(&self) -> MutexGuard<'_, HashMap<TaskId, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_that_cannot_be_read_waits_and_others_do_not() {
        let callbacks = Callbacks::new(&[], Secret::new(None, None)).unwrap();
        let (broken, other) = (TaskId::from_key("a"), TaskId::from_key("b"));
        callbacks.expect(broken);
        callbacks.expect(other);
        callbacks.set_sent(broken, 1);
        callbacks.postpone(broken);
        assert_eq!(callbacks.due(), [other]);
        assert!(callbacks.is_sent(broken, 1) && !callbacks.is_sent(other, 1));
        // The next result of the task is another one.
        assert!(!callbacks.is_sent(broken, 2));
    }

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
