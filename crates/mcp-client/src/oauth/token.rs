//! Tokens, and the requests for them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use mcp_core::clock::unix_time;
use serde::{Deserialize, Serialize};
use url::form_urlencoded::{self, Serializer};

use super::discovery::{AuthorizationServer, Discovered};
use super::{GrantType, OAuth};
use crate::Error;

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
/// A token is renewed so long before its end, but not before half of its life.
const RENEW_BEFORE: u64 = 60;
/// Limit of all scopes that are asked for, in bytes: a server could name new ones with every refusal.
const MAX_SCOPES: usize = 2048;

/// A client as an authorization server knows it. Has no `Debug`.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct RegisteredClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    /// `client_secret_basic`, `client_secret_post` or `none`.
    pub(super) method: String,
}

/// The tokens of a login, which are kept, or of client credentials. Has no `Debug`.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Tokens {
    /// The URL of the server: tokens are never sent to another one.
    pub(super) server: String,
    pub(super) resource: String,
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) client: RegisteredClient,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    /// Seconds since 1970; `None` if it is not known.
    pub(super) expires_at: Option<u64>,
    /// The time to renew it; `None` if its end is not known.
    pub(super) renew_at: Option<u64>,
    /// The scopes that were asked for.
    pub(super) scope: Option<String>,
    /// The scopes that a request has needed in addition.
    pub(super) wanted_scope: Option<String>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct ErrorResponse {
    #[serde(default)]
    pub(super) error: String,
}

impl Tokens {
    /// The body of a request for tokens, and its header `Authorization`.
    fn form(&self, parameters: &[(&str, &str)]) -> (String, Option<HeaderValue>) {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(parameters);
        form.append_pair("resource", &self.resource);
        let authorization = self.client.authenticate(&mut form);
        (form.finish(), authorization)
    }

    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut header = HeaderValue::try_from(format!("Bearer {}", self.access)).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    pub(super) fn is_due(&self) -> bool {
        self.renew_at.is_some_and(|time| time <= now())
    }

    fn set_lifetime(&mut self, seconds: Option<u64>) {
        // Zero means unknown: such a token could never be used.
        let seconds = seconds.filter(|&seconds| seconds > 0);
        let end = seconds.map(|seconds| now().saturating_add(seconds));
        let before = seconds.map(|seconds| RENEW_BEFORE.min(seconds / 2));
        self.expires_at = end;
        self.renew_at = end.zip(before).map(|(end, before)| end - before);
    }

    pub(super) fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|end| end <= now())
    }
}

impl RegisteredClient {
    /// The client with the best method that the server supports.
    pub(super) fn new(id: String, secret: Option<String>, server: &AuthorizationServer) -> Self {
        let methods = &server.token_endpoint_auth_methods_supported;
        let supports = |name: &str| methods.iter().any(|method| method == name);
        let method = match secret {
            None => "none",
            Some(_) if methods.is_empty() || supports("client_secret_basic") => {
                "client_secret_basic"
            }
            Some(_) => "client_secret_post",
        };
        Self {
            id,
            secret,
            method: method.to_owned(),
        }
    }

    /// Adds the credentials to a form, or returns them as a header.
    fn authenticate(&self, form: &mut Serializer<'_, String>) -> Option<HeaderValue> {
        let secret = self.secret.as_deref().unwrap_or_default();
        if self.method == "client_secret_basic" {
            let encoded = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let pair = format!("{}:{}", encoded(&self.id), encoded(secret));
            let mut header =
                HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
            header.set_sensitive(true);
            return Some(header);
        }
        form.append_pair("client_id", &self.id);
        if self.method == "client_secret_post" {
            form.append_pair("client_secret", secret);
        }
        None
    }
}

impl OAuth {
    /// Tokens that were not asked for yet.
    pub(super) fn new_tokens(
        &self,
        found: &Discovered,
        client: RegisteredClient,
        scope: Option<String>,
    ) -> Result<Tokens, Error> {
        let missing = || self.problem("its authorization server has no token endpoint");
        let endpoint = found.server.token_endpoint.clone();
        Ok(Tokens {
            server: self.server_url.to_string(),
            resource: found.resource.clone(),
            issuer: found.server.issuer.clone(),
            token_endpoint: endpoint.ok_or_else(missing)?,
            client,
            scope,
            ..Tokens::default()
        })
    }

    /// Asks for a token by the refresh token, which may change too, or by the client's credentials.
    pub(super) async fn refresh(&self, tokens: &mut Tokens) -> Result<(), Error> {
        if self.config.grant == GrantType::ClientCredentials {
            let scope = tokens.scope.clone();
            let mut parameters = vec![("grant_type", "client_credentials")];
            parameters.extend(scope.as_deref().map(|scope| ("scope", scope)));
            let text = "its authorization server has refused the client";
            let refused = |code: &str| self.problem(format!("{text} ({code})"));
            return self.ask(tokens, &parameters, refused).await;
        }
        let refresh = tokens.refresh.clone().unwrap_or_default();
        let parameters = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
        ];
        let refused = |code: &str| self.login_needed(&format!("its login has ended ({code})"));
        self.ask(tokens, &parameters, refused).await
    }

    /// Asks for a token with these parameters. `refused` makes the error of a refusal with a code.
    pub(super) async fn ask(
        &self,
        tokens: &mut Tokens,
        parameters: &[(&str, &str)],
        refused: impl Fn(&str) -> Error,
    ) -> Result<(), Error> {
        let url = self.allowed(&tokens.token_endpoint)?;
        let (form, authorization) = tokens.form(parameters);
        let answer = self.fetch(&url, Some((FORM, form)), authorization).await;
        let (status, body) = answer?;
        if status.is_server_error() || status.as_u16() == 429 {
            let status = status.as_u16();
            let text = format!("its authorization server answered with HTTP {status}");
            return Err(Error::unavailable(&url, &text));
        }
        if !status.is_success() {
            let said: ErrorResponse = serde_json::from_slice(&body).unwrap_or_default();
            return Err(refused(&code(&said.error, status.as_u16())));
        }
        let wrong = |text: &str| Err(self.problem(text));
        let Ok(response) = serde_json::from_slice::<TokenResponse>(&body) else {
            return wrong("the answer of its authorization server holds no token");
        };
        if !response.token_type.eq_ignore_ascii_case("bearer") {
            return wrong("its authorization server gives tokens of another type than Bearer");
        }
        tokens.access = response.access_token;
        tokens.refresh = response.refresh_token.or_else(|| tokens.refresh.take());
        tokens.set_lifetime(response.expires_in);
        Ok(())
    }
}

/// A code of an authorization server as it may be shown.
pub(super) fn code(error: &str, status: u16) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    match error {
        code if !code.is_empty() && code.len() <= 64 && code.bytes().all(is_plain) => {
            code.to_owned()
        }
        _ => format!("HTTP {status}"),
    }
}

/// Adds the scopes of `more` that are not there, as long as they are not too many.
pub(super) fn union(scope: Option<String>, more: Option<&str>) -> Option<String> {
    let scope = scope.as_deref().unwrap_or_default();
    let mut all: Vec<&str> = scope.split_whitespace().collect();
    let mut length = scope.len();
    for name in more.unwrap_or_default().split_whitespace() {
        if !all.contains(&name) && length + name.len() < MAX_SCOPES {
            length += name.len() + 1;
            all.push(name);
        }
    }
    (!all.is_empty()).then(|| all.join(" "))
}

fn now() -> u64 {
    unix_time().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_renewed_a_minute_before_its_end_or_at_half_of_its_life() {
        let mut tokens = Tokens::default();
        for (lifetime, before) in [(3600, 60), (120, 60), (60, 30), (10, 5), (1, 0)] {
            tokens.set_lifetime(Some(lifetime));
            let (end, renew) = (tokens.expires_at.unwrap(), tokens.renew_at.unwrap());
            assert_eq!(end - renew, before, "{lifetime}");
            assert!(!tokens.is_due() && !tokens.is_expired(), "{lifetime}");
        }
        tokens.renew_at = Some(now());
        assert!(tokens.is_due() && !tokens.is_expired());
        for unknown in [None, Some(0)] {
            tokens.set_lifetime(unknown);
            assert!(!tokens.is_due() && !tokens.is_expired());
        }
    }

    #[test]
    fn scopes_are_united_up_to_a_limit() {
        let a = Some("a".to_owned());
        assert_eq!(union(a, Some("b a")).unwrap(), "a b");
        assert_eq!(union(None, None), None);
        let mut all = None;
        for number in 0..10_000 {
            all = union(all, Some(&format!("scope-{number}")));
        }
        assert!(all.unwrap().len() <= MAX_SCOPES);
    }
}
