//! The command line of every server. Every flag has an environment variable.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use mcp_core::error::ErrorCodes;

use crate::oauth::{OauthOptions, ResourceServer};
use crate::{Limits, Secret, Tls, TokenOwners, Tokens};

/// The command line of a server: its own options, and those of all servers.
#[derive(Parser)]
pub struct Command<O: Args> {
    /// Its own options; first, because some of them must be set.
    #[command(flatten, next_help_heading = "Service")]
    pub product: O,
    /// The options of every server.
    #[command(flatten, next_help_heading = "Server")]
    pub common: Options,
}

/// The options that all servers share.
#[derive(Args, Clone)]
#[group(skip)]
#[cfg_attr(
    windows,
    command(
        after_help = "On Windows, Ctrl-C, Ctrl-Break, a closed console and a shutdown stop a server; there is no service \
                      interface. Files that it creates have the access rights of their folder: that of the user's \
                      profile, unless another one is named."
    )
)]
pub struct Options {
    /// Serve one client over stdin and stdout instead of HTTP.
    #[arg(long, env = "MCP_STDIO", value_parser = clap::builder::FalseyValueParser::new())]
    pub stdio: bool,

    /// Address to listen on.
    ///
    /// Any address other than loopback allows other machines to connect and needs a token.
    #[arg(
        long,
        env = "MCP_BIND",
        value_name = "ADDRESS",
        default_value = "127.0.0.1",
        value_parser = address
    )]
    pub bind: IpAddr,

    /// Port to listen on; 0 chooses a free one.
    #[arg(long, env = "MCP_PORT")]
    pub port: Option<u16>,

    /// Bearer token that every message over HTTP must carry.
    #[arg(long, env = "MCP_TOKEN", hide_env_values = true)]
    pub token: Option<String>,

    /// File with the token, or with one `NAME TOKEN` per line, as the command `token add` writes it.
    #[arg(long, env = "MCP_TOKEN_FILE", value_name = "FILE")]
    #[arg(help_heading = "Access", hide_short_help = true)]
    pub token_file: Option<PathBuf>,

    /// File with the certificate of the server and its chain, in PEM: serve HTTPS instead of HTTP. A
    /// renewed file is used by new connections.
    #[arg(long, env = "MCP_TLS_CERT", value_name = "FILE")]
    #[arg(help_heading = "TLS", hide_short_help = true)]
    pub tls_cert: Option<PathBuf>,

    /// File with the key of the certificate, in PEM.
    #[arg(long, env = "MCP_TLS_KEY", value_name = "FILE")]
    #[arg(help_heading = "TLS", hide_short_help = true)]
    pub tls_key: Option<PathBuf>,

    /// File with CAs in PEM: only clients with a certificate of one of them can connect. They need the
    /// token as well.
    #[arg(long, env = "MCP_TLS_CLIENT_CA", value_name = "FILE")]
    #[arg(help_heading = "TLS", hide_short_help = true)]
    pub tls_client_ca: Option<PathBuf>,

    /// Allow other machines to connect without a token. Any client that reaches the port controls
    /// the service.
    #[arg(long, env = "MCP_INSECURE_NO_AUTH", value_parser = clap::builder::FalseyValueParser::new())]
    #[arg(help_heading = "Access", hide_short_help = true)]
    pub insecure_no_auth: bool,

    /// Access tokens of OAuth issuers.
    #[command(flatten)]
    pub(crate) oauth: OauthOptions,

    /// Host names, besides localhost, by which clients and web pages may call this server,
    /// separated by commas.
    #[arg(
        long,
        env = "MCP_ALLOWED_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    #[arg(help_heading = "Access", hide_short_help = true)]
    pub allowed_hosts: Vec<String>,

    /// Secret that signs session ids; servers that share it share sessions. By default it is kept
    /// in a file of this user, so that sessions survive a restart.
    #[arg(
        long,
        env = "MCP_SESSION_KEY",
        value_name = "SECRET",
        hide_env_values = true
    )]
    #[arg(help_heading = "Access", hide_short_help = true)]
    pub session_key: Option<String>,

    /// Toolsets to offer, separated by commas, or `all`.
    ///
    /// The README names them; `default` is a small set.
    #[arg(
        long,
        env = "MCP_TOOLSETS",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "default"
    )]
    pub toolsets: Vec<String>,

    /// Offer only the tools that change nothing.
    #[arg(long, env = "MCP_READ_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub read_only: bool,

    /// Seconds after which a tool call times out.
    #[arg(long, env = "MCP_CALL_TIMEOUT", value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    #[arg(help_heading = "Limits", hide_short_help = true)]
    pub call_timeout: u64,

    /// Largest message in bytes.
    #[arg(long, env = "MCP_BODY_LIMIT", value_name = "BYTES", default_value_t = 4 * 1024 * 1024)]
    #[arg(help_heading = "Limits", hide_short_help = true)]
    pub body_limit: usize,

    /// Requests per second that one client may send; more are answered with 429. Unset: no limit.
    #[arg(long, env = "MCP_RATE_LIMIT", value_name = "REQUESTS",
          value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(help_heading = "Limits", hide_short_help = true)]
    pub rate_limit: Option<u32>,

    /// Event streams on which one client may listen at the same time; more are answered with 429.
    #[arg(
        long,
        env = "MCP_STREAM_LIMIT",
        value_name = "STREAMS",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    #[arg(help_heading = "Limits", hide_short_help = true)]
    pub stream_limit: u32,

    /// Connections at the same time; requests on more are answered with 503.
    #[arg(
        long,
        env = "MCP_CONNECTION_LIMIT",
        value_name = "CONNECTIONS",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    #[arg(help_heading = "Limits", hide_short_help = true)]
    pub connection_limit: u32,

    /// Serve HTTP+SSE as well (GET /sse, POST /messages), for clients that have only this transport
    /// of 2024-11-05.
    #[arg(long, env = "MCP_SSE", value_parser = clap::builder::FalseyValueParser::new())]
    #[arg(help_heading = "Compatibility", hide_short_help = true)]
    pub sse: bool,

    /// Do not serve the page for people, at `/` of the port.
    #[arg(long, env = "MCP_NO_PAGE", value_parser = clap::builder::FalseyValueParser::new())]
    #[arg(help_heading = "Access", hide_short_help = true)]
    pub no_page: bool,

    /// Error numbers for clients that call without a handshake.
    #[arg(
        long,
        env = "MCP_ERROR_PROFILE",
        value_name = "PROFILE",
        default_value = "spec",
        value_parser = error_profiles()
    )]
    #[arg(help_heading = "Compatibility", hide_short_help = true)]
    pub error_profile: ErrorCodes,

    /// Log level on stderr: error, warn, info, debug or trace.
    ///
    /// Or a filter such as mcp_serve=debug.
    #[arg(long, env = "MCP_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,

    /// Write the tool definitions as JSON and exit; the service is not asked.
    #[arg(long, hide_short_help = true)]
    pub print_tools: bool,

    /// Write the names of the toolsets as JSON and exit.
    #[arg(long, hide = true)]
    pub print_toolsets: bool,

    /// Write these options as JSON and exit; the tables of options are generated from it.
    #[arg(long, hide = true)]
    pub print_options: bool,
}

/// Parses the error numbers for clients that call without a handshake.
fn error_profiles() -> impl TypedValueParser<Value = ErrorCodes> {
    let profiles = [
        ("spec", "JSON-RPC's own numbers"),
        ("codefluss", "-32000 to -32004, as CODEFLUSS has them"),
        ("extended", "-32001 to -32012"),
    ];
    let profiles = profiles.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(profiles).map(|name| match name.as_str() {
        "codefluss" => ErrorCodes::Codefluss,
        "extended" => ErrorCodes::Extended,
        _ => ErrorCodes::Spec,
    })
}

/// The tokens of a server, and the tasks that follow them.
pub(crate) struct ConfiguredTokens {
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) oauth: Option<Arc<ResourceServer>>,
    /// The tasks that follow the token file and the keys of issuers.
    pub(crate) followers: Vec<BoxFuture<'static, ()>>,
}

fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text.parse().map_err(|_| {
            "it must be the IP address of this machine, such as 0.0.0.0 for all, or localhost"
                .to_owned()
        }),
    }
}

impl ConfiguredTokens {
    /// Lists the owners of the tokens; `None` if an issuer gives out others.
    pub(crate) fn owners(&self) -> Option<TokenOwners> {
        let tokens = Arc::clone(&self.tokens);
        let is_known = self.oauth.is_none() && !tokens.is_empty();
        is_known.then(|| Arc::new(move || tokens.owners()) as TokenOwners)
    }
}

impl Options {
    /// Reads the configured tokens.
    pub(crate) fn tokens(&self) -> anyhow::Result<ConfiguredTokens> {
        let secret = Secret::new(self.token.clone(), self.token_file.clone());
        let text = secret
            .text()
            .context("cannot read the file named by --token-file")?;
        let tokens = Tokens::parse(&text).map_err(|error| match secret.is_file() {
            true => error.context("--token-file (MCP_TOKEN_FILE)"),
            // A value of one line needs no number of it.
            false if text.trim().lines().count() == 1 => {
                anyhow::anyhow!("--token (MCP_TOKEN) {}", error.root_cause())
            }
            false => error.context("--token (MCP_TOKEN)"),
        });
        let tokens = Arc::new(tokens?);
        // The last token of a file may have been revoked.
        if tokens.is_empty() && secret.is_file() && !text.trim().is_empty() {
            tracing::warn!(
                "--token-file contains no token: none of a file is valid until one is added"
            );
            tokens.require();
        }
        // An empty token file is an error, not a server without a token.
        anyhow::ensure!(
            !tokens.is_empty() || !secret.is_configured(),
            "--token or --token-file contains no token"
        );
        let oauth = self.oauth.build()?.map(Arc::new);
        if tokens.is_empty()
            && oauth.is_none()
            && !self.bind.is_loopback()
            && !self.insecure_no_auth
        {
            anyhow::bail!(
                "--bind {} allows other machines to connect: set a token (--token, MCP_TOKEN), an \
                 issuer of tokens (--auth-issuer), or --insecure-no-auth",
                self.bind
            );
        }
        let follower = secret
            .is_file()
            .then(|| Arc::clone(&tokens).follow(Arc::new(secret), text).boxed());
        let keys = oauth
            .as_ref()
            .map(|oauth| Arc::clone(oauth).follow().boxed());
        Ok(ConfiguredTokens {
            tokens,
            oauth,
            followers: follower.into_iter().chain(keys).collect(),
        })
    }

    /// Reads the certificate, if there is one. Blank paths count as unset: compose files pass unset
    /// variables as empty ones.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match (set(&self.tls_cert), set(&self.tls_key)) {
            (Some(cert), Some(key)) => {
                let tls = Tls::read(cert, key, set(&self.tls_client_ca))?;
                Ok(Some(Arc::new(tls)))
            }
            (None, None) => {
                anyhow::ensure!(
                    set(&self.tls_client_ca).is_none(),
                    "--tls-client-ca needs --tls-cert"
                );
                Ok(None)
            }
            (Some(_), None) => anyhow::bail!("--tls-cert needs --tls-key"),
            (None, Some(_)) => anyhow::bail!("--tls-key needs --tls-cert"),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_body_bytes: self.body_limit,
            max_connections: self.connection_limit as usize,
            max_requests_per_second: self.rate_limit,
            max_streams_per_client: self.stream_limit as usize,
            ..Limits::default()
        }
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        Duration::from_secs(self.call_timeout)
    }
}
