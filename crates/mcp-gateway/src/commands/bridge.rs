//! `mcp-gateway bridge`: a running server for hosts that only start programs.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use mcp_client::tls::TlsFiles;
use mcp_client::{Authorization, Endpoint, Error, Refusal};
use mcp_serve::Secret;
use tokio::io::{BufReader, stdin, stdout};

/// Limit of one message.
const MAX_MESSAGE: usize = 64 << 20;

/// Passes MCP messages between stdin and stdout and a running server, of which the URL is given.
///
/// Every era of the protocol, byte for byte. A server that restarts is waited for, and gets a new session. Ends
/// with stdin.
#[derive(Parser)]
pub(super) struct Bridge {
    /// URL of the server, such as http://127.0.0.1:3455/mcp.
    url: String,
    /// Variable with the bearer token [default: MCP_TOKEN, if it is set].
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    /// File with the bearer token; read again for every message.
    #[arg(long, value_name = "FILE", conflicts_with = "token_env")]
    token_file: Option<PathBuf>,
    /// File with the CA of the server, in PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(bridge: Bridge) -> ExitCode {
    match bridge.serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "mcp-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Bridge {
    fn serve(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let endpoint = self.endpoint()?;
        let served = runtime.block_on(endpoint.bridge(BufReader::new(stdin()), stdout()));
        // A blocking read of stdin cannot be interrupted; nothing waits for it.
        runtime.shutdown_background();
        Ok(served?)
    }

    fn endpoint(self) -> anyhow::Result<Endpoint> {
        let mut endpoint = Endpoint::new(&self.url)?.max_message(MAX_MESSAGE);
        if self.ca.is_some() {
            endpoint = endpoint.tls_files(TlsFiles {
                ca: self.ca,
                ..TlsFiles::default()
            });
        }
        if let Some(file) = self.token_file {
            let token = FileToken {
                secret: Secret::new(None, Some(file)),
                peer: self.url.into(),
            };
            return Ok(endpoint.authorization(Arc::new(token)));
        }
        let variable = self.token_env.as_deref().unwrap_or("MCP_TOKEN");
        match std::env::var(variable) {
            Ok(token) if !token.trim().is_empty() => Ok(endpoint.bearer(token.trim())?),
            _ if self.token_env.is_some() => {
                anyhow::bail!("--token-env: the variable {variable} is not set")
            }
            _ => Ok(endpoint),
        }
    }
}

/// The token of a file, which may change.
struct FileToken {
    secret: Secret,
    peer: Arc<str>,
}

impl FileToken {
    fn unauthorized(&self, problem: &str) -> Error {
        Error::Unauthorized {
            peer: Arc::clone(&self.peer),
            problem: problem.to_owned(),
        }
    }
}

impl Authorization for FileToken {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        let token = match self.secret.get() {
            Err(_) => Err(self.unauthorized("the file of --token-file cannot be read")),
            Ok(None) => Err(self.unauthorized("the file of --token-file is empty")),
            Ok(Some(token)) => match HeaderValue::from_str(&format!("Bearer {token}")) {
                Ok(mut header) => {
                    header.set_sensitive(true);
                    Ok(Some(header))
                }
                Err(_) => Err(self.unauthorized("the file of --token-file holds no token")),
            },
        };
        std::future::ready(token).boxed()
    }

    fn refused(&self, _: Refusal) -> BoxFuture<'_, Result<(), Error>> {
        let error = self.unauthorized("it refuses the token of --token-file");
        std::future::ready(Err(error)).boxed()
    }
}
