//! A client that logs in: what the official conformance suite drives in its scenarios `auth/…`.
//!
//! ```text
//! cargo build -p mcp-client --example conformance_auth
//! conformance client --command target/debug/examples/conformance_auth --scenario auth/basic-cimd
//! ```
//!
//! The suite appends the URL of its server, and gives credentials in `MCP_CONFORMANCE_CONTEXT`. Its login page
//! asks nothing: a request to it takes the place of the browser.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_client::oauth::{GrantType, OAuth, OAuthConfig};
use mcp_client::tls::{self, TlsFiles};
use mcp_client::{Client, ClientInfo, Endpoint, Error};
use serde_json::{Value, json};

/// The address of the document about the client that the suite expects.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
/// Logins after which the client gives up: what a login does not help with is not asked for again.
const MAX_LOGINS: u32 = 3;

fn main() -> ExitCode {
    let url = std::env::args().next_back().unwrap_or_default();
    let runtime = tokio::runtime::Runtime::new();
    match runtime.map(|runtime| runtime.block_on(exercise(&url))) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error}"),
        Err(error) => eprintln!("{error}"),
    }
    ExitCode::FAILURE
}

async fn exercise(url: &str) -> Result<(), Error> {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let config = OAuthConfig {
        server: Endpoint::new(url)?,
        grant: match scenario.contains("client-credentials") {
            true => GrantType::ClientCredentials,
            false => GrantType::Login,
        },
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata: Some(CLIENT_METADATA.to_owned()),
        scope: None,
        issuer: text("issuer"),
        tls: TlsFiles::default(),
        redirect_port: 0,
        how_to_login: "log in".to_owned(),
    };
    let oauth = Arc::new(OAuth::new(config, None));
    let client = Client::http(oauth.endpoint())?;
    let logins = Logins {
        oauth,
        left: Mutex::new(MAX_LOGINS),
    };
    let info = ClientInfo::new("conformance-client", "1");
    logins
        .retry(async || client.connect(&info).await.map(drop))
        .await?;
    let list = async || client.list("tools/list", "tools").await;
    for tool in logins.retry(list).await? {
        let tool: Value = serde_json::from_str(tool.get()).unwrap_or_default();
        let call = json!({"name": tool["name"], "arguments": {}});
        logins
            .retry(async || client.request("tools/call", &call).await)
            .await?;
    }
    client.close().await;
    Ok(())
}

struct Logins {
    oauth: Arc<OAuth>,
    left: Mutex<u32>,
}

impl Logins {
    /// Repeats an action after a login, if it needs one.
    async fn retry<T>(&self, action: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let error = match action().await {
                Err(error @ Error::Unauthorized { .. }) => error,
                done => return done,
            };
            eprintln!("{error}");
            {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                if *left == 0 {
                    return Err(error);
                }
                *left -= 1;
            }
            self.oauth.login(Duration::from_secs(10), open).await?;
        }
    }
}

/// Opens a page, and follows its redirect.
fn open(page: &str) {
    let page = page.to_owned();
    tokio::spawn(async move {
        let Ok(tls) = tls::config_for("http") else {
            return;
        };
        let builder = reqwest::Client::builder().no_proxy();
        match builder.tls_backend_preconfigured(tls).build() {
            Ok(browser) => drop(browser.get(page).send().await),
            Err(error) => eprintln!("{error}"),
        }
    });
}
