//! The configuration of one backend.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gateway_access::Filter;
use http::Uri;
use mcp_client::tls::TlsFiles;
use mcp_client::{EraChoice, Proxy};
use mcp_core::trace::{PeerAddress, TraceContext};
use serde::Deserialize;

use super::tool_override::ToolOverride;
use super::{DisabledReason, OAuthSettings, PinPolicy, Secret};

/// The configuration of a backend. Has no `Debug`: arguments, addresses and variables may hold secrets.
#[derive(Clone, PartialEq)]
pub(crate) struct BackendConfig {
    pub(crate) target: Target,
    /// The revisions of the protocol that are spoken with it.
    pub(crate) era: EraChoice,
    pub(crate) filter: Filter,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolation {
    /// All of them.
    #[default]
    Shared,
    /// All with the same token, or without tokens all of a session.
    Principal,
    /// All of a session or connection, or without one all with the same token.
    Session,
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
    /// The context that its requests continue.
    pub(crate) fn trace(&self, context: &TraceContext) -> TraceContext {
        let context = context.clone();
        match self.baggage {
            true => context,
            false => context.without_baggage(),
        }
    }

    pub(super) fn new(target: Target) -> Self {
        Self {
            baggage: target.is_local(),
            target,
            era: EraChoice::default(),
            filter: Filter::default(),
            bare: false,
            is_alone: false,
            timeout: None,
            start_timeout: super::START_TIMEOUT,
            idle_timeout: None,
            max_in_flight: super::MAX_IN_FLIGHT,
            isolation: Isolation::Shared,
            max_instances: super::MAX_INSTANCES,
            tools: BTreeMap::new(),
            pins: PinPolicy::default(),
            disabled: None,
        }
    }

    /// Returns true if the transport is that which the server turns out to have.
    pub(crate) fn detects_transport(&self) -> bool {
        matches!(&self.target, Target::Http(remote) if remote.transport == RemoteTransport::Detect)
    }

    pub(crate) fn is_child(&self) -> bool {
        matches!(self.target, Target::Child(_))
    }
}
