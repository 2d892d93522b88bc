//! The configuration of one backend.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use gateway_access::Filter;
use http::{HeaderName, Uri};
use mcp_client::tls::TlsFiles;
use mcp_client::{EraChoice, Proxy};
use mcp_core::trace::{PeerAddress, TraceContext};
use schemars::JsonSchema;
use serde::Deserialize;

use super::file::ToolOverride;
use super::{OAuthSettings, PinPolicy};

/// The configuration of a backend. Has no `Debug`: arguments, addresses and variables may hold secrets.
#[derive(Clone, PartialEq)]
pub(crate) struct BackendConfig {
    pub(crate) target: Target,
    /// The revisions of the protocol that are spoken with it.
    pub(crate) era: EraChoice,
    pub(crate) filter: Filter,
    /// The lists of tools in the file of a host, each of which must allow a tool.
    pub(crate) tools_of_host: Vec<Filter>,
    /// Its items are published without the prefix `KEY__`.
    pub(crate) bare: bool,
    /// It is the only server of one client (`mcp-gateway bridge`): its items keep their names and their order, its
    /// instructions their text, and a call waits for it while it restarts.
    pub(crate) is_alone: bool,
    /// It gets the baggage of traces.
    pub(crate) baggage: bool,
    /// Timeout of a call; without it the server's own timeout counts.
    pub(crate) timeout: Option<Duration>,
    /// Timeout of its start, up to the first lists.
    pub(crate) start_timeout: Duration,
    /// A child or an instance without requests for this time is stopped; the next request starts it
    /// again.
    pub(crate) idle_timeout: Option<Duration>,
    /// Limit of concurrent requests; more of them wait for some seconds.
    pub(crate) max_in_flight: u32,
    pub(crate) isolation: Isolation,
    /// It may ask the clients of its calls: their users, their models and for their folders.
    pub(crate) questions: bool,
    /// Limit of instances with `isolation`; at the limit, the one that was not used for the longest time
    /// is ended.
    pub(crate) max_instances: u32,
    /// Texts and effects of its tools that the operator sets, by their names in its list.
    pub(crate) tools: BTreeMap<String, ToolOverride>,
    /// The reaction to new and changed tools.
    pub(crate) pins: PinPolicy,
    /// The reason why it is not used.
    pub(crate) disabled: Option<DisabledReason>,
}

/// The callers that share a child process, or a session over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolation {
    /// Not set: all with the same token, and all callers without a token.
    #[default]
    #[serde(skip)]
    Unset,
    /// All of them.
    Shared,
    /// All with the same token, or without tokens all of a session.
    Principal,
    /// All of a session or connection, or without one all with the same token.
    Session,
}

impl Isolation {
    /// That of a caller, with or without a token.
    pub(crate) fn of_caller(self, has_token: bool) -> Self {
        match self {
            Self::Unset if has_token => Self::Principal,
            Self::Unset => Self::Shared,
            set => set,
        }
    }

    /// True if callers without a token share a process or session.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Unset | Self::Shared)
    }
}

/// The transport of a backend.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// A child process, with MCP on its stdin and stdout.
    Child(Child),
    /// A server on the network.
    Http(Remote),
}

/// A child process. No shell is involved.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Child {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// The same as written, before variables are expanded: for people.
    pub(crate) written: Vec<String>,
    /// Its environment variables, in addition to `PATH`, `HOME` and a few others.
    pub(crate) env: BTreeMap<String, Secret>,
    /// Environment variables of the gateway that are passed to it.
    pub(crate) env_pass: Vec<String>,
    /// Its working directory; without it that of the gateway.
    pub(crate) cwd: Option<PathBuf>,
}

/// A server on the network.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) url: String,
    /// The same as written, before variables are expanded: for people.
    pub(crate) written: String,
    pub(crate) transport: RemoteTransport,
    /// Headers of every request.
    pub(crate) headers: BTreeMap<String, Secret>,
    /// Sent as `Authorization: Bearer TOKEN`.
    pub(crate) token: Option<Secret>,
    /// The CA and the client certificate.
    pub(crate) tls: TlsFiles,
    pub(crate) proxy: Proxy,
    pub(crate) oauth: Option<Box<OAuthSettings>>,
    /// Headers of the client's request that are passed on with its calls.
    pub(crate) forward_headers: Vec<HeaderName>,
    /// The header with the name of the client's principal.
    pub(crate) identity_header: Option<HeaderName>,
}

/// The transport to a server on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RemoteTransport {
    /// Streamable HTTP; HTTP+SSE if the server refuses its POSTs.
    #[default]
    Detect,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
}

impl RemoteTransport {
    /// The names in configuration files; those of hosts differ in their spelling.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "http" | "streamablehttp" => Some(Self::Http),
            "sse" => Some(Self::Sse),
            _ => None,
        }
    }
}

impl Target {
    /// True for a child and for an address of this machine.
    pub(super) fn is_local(&self) -> bool {
        let Self::Http(remote) = self else {
            return true;
        };
        let uri = remote.url.parse::<Uri>();
        let host = uri.as_ref().ok().and_then(Uri::host);
        host.is_some_and(|host| PeerAddress { host, port: None }.is_local())
    }
}

impl BackendConfig {
    /// True if the tool with this name in the backend's list is published.
    pub(crate) fn allows_tool(&self, name: &str) -> bool {
        let mut filters = self.tools_of_host.iter().chain([&self.filter]);
        filters.all(|filter| filter.allows(name))
    }

    /// The context that its requests continue.
    pub(crate) fn trace(&self, context: &TraceContext) -> TraceContext {
        let context = context.clone();
        match self.baggage {
            true => context,
            false => context.without_baggage(),
        }
    }

    /// True if a new connection reads headers from files, which may have changed.
    pub(crate) fn reads_secrets(&self) -> bool {
        let Target::Http(remote) = &self.target else {
            return false;
        };
        let mut headers = remote.headers.values();
        headers.any(|value| matches!(value, Secret::File(_)))
    }

    pub(crate) fn is_child(&self) -> bool {
        matches!(self.target, Target::Child(_))
    }
}

/// The reason why a backend is not used. Completes the sentence "The backend is not used: …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DisabledReason {
    /// Its field `disabled` is set.
    Configured,
    /// This environment variable is not set.
    MissingVariable(String),
    /// Its address is of the local link, where clouds serve the credentials of the machine.
    LinkLocal,
    /// It needs the file `envFile`.
    EnvFile,
}

impl DisabledReason {
    /// Returns true if the backend was meant to be used.
    pub(crate) fn is_fault(&self) -> bool {
        *self != Self::Configured
    }

    /// Returns what makes the backend used, if it was meant to be.
    pub(crate) fn advice(&self, key: &BackendKey) -> Option<String> {
        Some(match self {
            Self::Configured => return None,
            Self::MissingVariable(name) => format!(
                "Set {name} and start the gateway again, or give it a default in [backends.{key}]: ${{{name}:-VALUE}}."
            ),
            Self::LinkLocal => {
                format!(
                    "Set `allow_link_local = true` in [backends.{key}] if you trust that address."
                )
            }
            Self::EnvFile => format!("Write its variables into `env` of the backend {key}."),
        })
    }
}

impl fmt::Display for DisabledReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("disabled by the configuration"),
            Self::MissingVariable(name) => {
                write!(f, "the environment variable {name} is not set")
            }
            Self::LinkLocal => f.write_str(
                "its address is link-local (169.254.0.0/16, fe80::/10), which needs `allow_link_local = true`",
            ),
            Self::EnvFile => {
                f.write_str("`envFile` is not supported: use `env`, with ${NAME} or file:PATH")
            }
        }
    }
}

/// A header, a token or an environment variable of a backend, given as text or as a file.
///
/// It has no `Debug` and no `Display`, so that it reaches neither logs nor errors. A file is read at
/// every connection, so a changed secret needs no restart.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    Text(String),
    File(PathBuf),
}

impl Secret {
    /// Returns the value; that of a file is trimmed.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or cannot be a secret.
    pub(crate) fn read(&self) -> io::Result<String> {
        let path = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::File(path) => path.clone(),
        };
        let secret = mcp_serve::Secret::new(None, Some(path)).get()?;
        secret.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the file is empty"))
    }
}

/// A longer prefix would leave too little room for the name of a tool.
const MAX_KEY_LEN: usize = 20;

/// The limit of the APIs of language models: a longer name makes them reject the whole request.
pub(crate) const MAX_NAME_LEN: usize = 64;

/// True for the letters that a name of a tool may have in all of these APIs.
pub(crate) fn is_portable(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The key of a backend: `^[a-z][a-z0-9-]{0,19}$`.
///
/// Without underscores, so that the prefix `KEY__` belongs to one backend only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BackendKey(Arc<str>);

impl BackendKey {
    /// # Errors
    /// The rule for keys, if `text` does not follow it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut letters = text.bytes();
        let first = letters.next().unwrap_or_default();
        let legal =
            |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        if first.is_ascii_lowercase() && letters.all(legal) && text.len() <= MAX_KEY_LEN {
            Ok(Self(text.into()))
        } else {
            Err(
                "the name of a backend must start with a-z and have at most 20 characters of a-z, 0-9 and -",
            )
        }
    }

    /// Converts a name of another host's configuration to a key: `My Server_2` → `my-server-2`.
    /// `None` if it has no letter.
    pub(crate) fn nearest(name: &str) -> Option<Self> {
        let mut text = String::new();
        for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
            match letter {
                'a'..='z' => text.push(letter),
                '0'..='9' if !text.is_empty() => text.push(letter),
                _ if !text.is_empty() && !text.ends_with('-') => text.push('-'),
                _ => {}
            }
        }
        text.truncate(MAX_KEY_LEN);
        Self::parse(text.trim_end_matches('-')).ok()
    }

    /// Returns true if a tool with this name belongs to the backend, as far as its name shows.
    pub(crate) fn is_prefix_of(&self, tool: &str) -> bool {
        let item = tool.strip_prefix(self.as_str());
        item.is_some_and(|item| ["__", ":", "."].iter().any(|mark| item.starts_with(mark)))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        self.0.clone()
    }
}

impl fmt::Display for BackendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_short_and_has_no_underscore() {
        for good in ["n8n", "a", "my-server-2", "abcdefghijklmnopqrst"] {
            assert_eq!(BackendKey::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "2n",
            "-a",
            "A",
            "a_b",
            "a.b",
            "a:b",
            "ä",
            "a\n",
            &"a".repeat(21),
        ] {
            assert!(BackendKey::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_of_other_hosts_become_keys() {
        for (name, key) in [
            ("My Server_2", "my-server-2"),
            ("github", "github"),
            ("@scope/server-everything", "scope-server-everyth"),
            ("42 tools", "tools"),
            ("__x__", "x"),
        ] {
            assert_eq!(BackendKey::nearest(name).unwrap().as_str(), key);
        }
        assert_eq!(BackendKey::nearest("§42"), None);
    }
}
