//! The login of a person: authorization code with PKCE (OAuth 2.1).

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use super::OAuth;
use super::discovery::{AuthorizationServer, Challenge, Discovered};
use super::token::{RegisteredClient, code, union};
use crate::Error;
use crate::http::{JSON, challenges};

/// The scope of a refresh token.
const OFFLINE: &str = "offline_access";

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

impl OAuth {
    /// Lets a person log in, and saves the tokens. Calls `open` with the URL that the person opens in a
    /// browser on this machine, and waits for `timeout`.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] with the reason, among others.
    pub async fn login(&self, timeout: Duration, open: impl FnOnce(&str)) -> Result<(), Error> {
        let refused = self.challenge.lock().clone();
        let challenge = match refused {
            Some(challenge) => challenge,
            None => self.probe().await?,
        };
        let found = self.discover(&challenge).await?;
        let methods = &found.server.code_challenge_methods_supported;
        if !methods.iter().any(|method| method == "S256") {
            return Err(self.problem("its authorization server does not support PKCE with S256"));
        }
        let redirect = Redirect::bind(self.config.redirect_port).await;
        let redirect = redirect
            .map_err(|error| self.problem(format!("cannot listen for the login: {error}")))?;
        let client = self.client(&found.server, &redirect.address).await?;
        let scope = self.login_scope(&found, &challenge);
        let (state, verifier) = (self.random()?, self.random()?);
        let hash = hmac_sha256::Hash::hash(verifier.as_bytes());
        let endpoint = found.server.authorization_endpoint.as_deref();
        let endpoint =
            endpoint.ok_or_else(|| self.problem("its authorization server has no login page"))?;
        let mut page = self.allowed(endpoint)?;
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &redirect.address)
            .append_pair("state", &state)
            .append_pair("code_challenge", &URL_SAFE_NO_PAD.encode(hash))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &found.resource)
            .extend_pairs(scope.iter().map(|scope| ("scope", scope)));
        // Without the user's consent to it, servers of OpenID Connect drop this scope (Core 1.0, 11).
        let has_offline = |scope: &String| scope.split(' ').any(|name| name == OFFLINE);
        if scope.as_ref().is_some_and(has_offline) {
            page.query_pairs_mut().append_pair("prompt", "consent");
        }
        open(page.as_str());
        let address = redirect.address.clone();
        let answered = tokio::time::timeout(timeout, redirect.answer(&state)).await;
        let answer = answered
            .map_err(|_| self.problem("nobody has logged in in time"))?
            .map_err(|error| self.problem(format!("cannot listen for the login: {error}")))?;
        let authorization = self.checked(&found.server, answer)?;
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", authorization.as_str()),
            ("redirect_uri", address.as_str()),
            ("code_verifier", verifier.as_str()),
        ];
        let mut tokens = self.new_tokens(&found, client, scope)?;
        let text = "its authorization server has refused the login";
        let refused = |code: &str| self.problem(format!("{text} ({code})"));
        self.ask(&mut tokens, &parameters, refused).await?;
        self.keep_login(tokens).await
    }

    /// Asks the server without a token, for the address of its metadata.
    async fn probe(&self) -> Result<Challenge, Error> {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        let challenges = challenges(self.config.server.clone(), ping).await?;
        Ok(Challenge::read(&challenges))
    }

    /// The code of a valid answer (RFC 9207).
    fn checked(
        &self,
        server: &AuthorizationServer,
        mut answer: BTreeMap<String, String>,
    ) -> Result<String, Error> {
        match answer.get("iss") {
            Some(issuer) if *issuer != server.issuer => {
                return Err(self.problem("the answer to the login is of another issuer"));
            }
            None if server.authorization_response_iss_parameter_supported => {
                return Err(self.problem("the answer to the login does not name its issuer"));
            }
            _ => {}
        }
        if let Some(error) = answer.get("error") {
            let text = format!("the login was refused ({})", code(error, 400));
            return Err(self.problem(text));
        }
        let missing = || self.problem("the answer to the login has no code");
        answer.remove("code").ok_or_else(missing)
    }

    /// The scopes to ask for, with those of an earlier login and those that requests have needed since.
    fn login_scope(&self, found: &Discovered, challenge: &Challenge) -> Option<String> {
        let wanted = self.config.scope.clone().or_else(|| found.scope.clone());
        let before = self.latest();
        let before = before.filter(|tokens| tokens.issuer == found.server.issuer);
        let before = before.map_or((None, None), |tokens| (tokens.scope, tokens.wanted_scope));
        let scope = union(union(before.0, wanted.as_deref()), before.1.as_deref());
        let scope = union(scope, challenge.scope.as_deref());
        // Only then there is a refresh token.
        let supported = &found.server.scopes_supported;
        let has_offline = supported.iter().any(|name| name == OFFLINE);
        union(scope, has_offline.then_some(OFFLINE))
    }

    /// The client at this authorization server: registered by hand, by its metadata document, or now.
    async fn client(
        &self,
        server: &AuthorizationServer,
        redirect: &str,
    ) -> Result<RegisteredClient, Error> {
        if let Some(id) = &self.config.client_id {
            let secret = self.config.client_secret.clone();
            return Ok(RegisteredClient::new(id.clone(), secret, server));
        }
        if let Some(document) = &self.config.client_metadata
            && server.client_id_metadata_document_supported
        {
            return Ok(RegisteredClient::new(document.clone(), None, server));
        }
        let Some(endpoint) = &server.registration_endpoint else {
            let text = "its authorization server does not register clients by itself: register one there, and set `client_id`";
            return Err(self.problem(text));
        };
        let url: Url = self.allowed(endpoint)?;
        let metadata = json!({
            "client_name": "mcp-gateway",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
            "token_endpoint_auth_method": "none",
        });
        let content = (JSON, metadata.to_string());
        let (status, body) = self.fetch(&url, Some(content), None).await?;
        let registered = serde_json::from_slice::<Registration>(&body).ok();
        let registered = registered.filter(|_| status.is_success());
        let registered = registered.ok_or_else(|| {
            let status = status.as_u16();
            self.problem(format!("its authorization server did not register the gateway (HTTP {status}): register it there, and set `client_id`"))
        })?;
        let id = registered.client_id;
        let mut client = RegisteredClient::new(id, registered.client_secret, server);
        if let Some(method) = registered.token_endpoint_auth_method {
            client.method = method;
        }
        Ok(client)
    }

    /// 256 bits that cannot be guessed, as text.
    fn random(&self) -> Result<String, Error> {
        let mut bits = [0; 32];
        let missing = |_| self.problem("there is no randomness on this machine");
        getrandom::fill(&mut bits).map_err(missing)?;
        Ok(URL_SAFE_NO_PAD.encode(bits))
    }
}

/// The path of the address.
const PATH: &str = "/callback";
/// Timeout of one connection: browsers open some that they do not use.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of a request.
const MAX_HEAD: usize = 16 << 10;

/// A listener for one answer.
pub(super) struct Redirect {
    listener: TcpListener,
    pub(super) address: String,
}

impl Redirect {
    pub(super) async fn bind(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, address })
    }

    /// Waits for the answer with this state. Requests with another one are refused.
    pub(super) async fn answer(self, state: &str) -> io::Result<BTreeMap<String, String>> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let (stream, _) = accepted?;
                    let state = state.to_owned();
                    connections.spawn(tokio::time::timeout(CONNECTION_TIMEOUT, serve(stream, state)));
                }
                Some(served) = connections.join_next() => {
                    if let Ok(Ok(Some(parameters))) = served {
                        return Ok(parameters);
                    }
                }
            }
        }
    }
}

async fn serve(mut stream: TcpStream, state: String) -> Option<BTreeMap<String, String>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read_buf(&mut head).await.ok()?;
        if read == 0 || head.len() > MAX_HEAD {
            return None;
        }
    }
    let parameters = parameters(&head).filter(|found| found.get("state") == Some(&state));
    let (status, text) = match &parameters {
        Some(found) if found.contains_key("code") => ("200 OK", "You are logged in."),
        Some(_) => ("200 OK", "The login was refused."),
        None => ("404 Not Found", "This is not the answer to the login."),
    };
    let body = format!("{text} You can close this page.\n");
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncache-control: no-store\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    parameters
}

/// The parameters of `GET /callback?…`. One that is repeated makes the answer invalid.
fn parameters(head: &[u8]) -> Option<BTreeMap<String, String>> {
    let head = std::str::from_utf8(head).ok()?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    let url = Url::parse("http://127.0.0.1").ok()?.join(target).ok()?;
    if url.path() != PATH {
        return None;
    }
    let mut found = BTreeMap::new();
    for (name, value) in url.query_pairs() {
        if found
            .insert(name.into_owned(), value.into_owned())
            .is_some()
        {
            return None;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_is_read() {
        let read = |line: &str| parameters(format!("{line} HTTP/1.1\r\n\r\n").as_bytes());
        let found = read("GET /callback?code=a%20b&state=s").unwrap();
        assert_eq!(found["code"], "a b");
        for line in [
            "GET /?code=a",
            "POST /callback?code=a",
            "GET /callback?code=a&code=b",
            "GET //evil/callback/..?x",
        ] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
