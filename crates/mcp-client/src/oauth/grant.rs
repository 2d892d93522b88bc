//! Gets, keeps and renews tokens when requests need them.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode};

use super::challenge::Challenge;
use super::token::{RegisteredClient, TokenError, Tokens, union};
use super::{GrantType, OAuth};
use crate::Error;
use crate::authorization::{Authorization, Refusal};
use crate::sync::lock;

impl OAuth {
    fn login_needed(&self, why: &str) -> Error {
        self.problem(format!("{why}: {}", self.config.how_to_login))
    }

    /// The token for the next request.
    async fn usable(&self) -> Result<Option<Tokens>, Error> {
        let is_fresh = |tokens: &Tokens| !tokens.is_due();
        if let Some(tokens) = self.kept().filter(is_fresh) {
            return Ok(Some(tokens));
        }
        let _renewing = self.renewing.lock().await;
        if let Some(tokens) = self.kept().filter(is_fresh) {
            return Ok(Some(tokens));
        }
        match self.config.grant {
            // The server refuses the request, and says where tokens are.
            GrantType::ClientCredentials => Ok(None),
            GrantType::Login => {
                let Some(tokens) = self.load().or_else(|| self.kept()) else {
                    return Ok(None);
                };
                let tokens = match tokens.is_due() && tokens.refresh.is_some() {
                    true => self.renewed(tokens).await?,
                    false => tokens,
                };
                self.keep(tokens.clone());
                Ok(Some(tokens))
            }
        }
    }

    /// Renews the token of a login; keeps it while it is valid and the authorization server does not answer.
    async fn renewed(&self, mut tokens: Tokens) -> Result<Tokens, Error> {
        match self.refresh(&mut tokens).await {
            Ok(()) => {
                self.save(&tokens)?;
                Ok(tokens)
            }
            Err(TokenError::Failed(error)) => match tokens.is_expired() {
                true => Err(error),
                false => Ok(tokens),
            },
            Err(TokenError::Refused(code)) => {
                // Another process may have renewed it, which ends the refresh token of this one.
                match self.load() {
                    Some(other) if other.access != tokens.access && !other.is_due() => Ok(other),
                    _ => Err(self.login_needed(&format!("its login has ended ({code})"))),
                }
            }
        }
    }

    async fn handle(&self, refusal: Refusal) -> Result<(), Error> {
        let challenge = Challenge::read(&refusal.challenges);
        *lock(&self.challenge) = Some(challenge.clone());
        let lacks_scope = refusal.status == StatusCode::FORBIDDEN;
        if refusal.is_repeated && !lacks_scope {
            return Err(self.login_needed("it has refused a new token"));
        }
        let _renewing = self.renewing.lock().await;
        let is_new = |tokens: &Tokens| refusal.used.is_some() && tokens.header() != refusal.used;
        if !refusal.is_repeated && self.kept().as_ref().is_some_and(is_new) {
            return Ok(());
        }
        match self.config.grant {
            GrantType::ClientCredentials if !refusal.is_repeated => {
                let before = self.kept().filter(|_| lacks_scope);
                let scope = before.and_then(|tokens| tokens.scope);
                self.take_credentials(&challenge, scope).await
            }
            GrantType::ClientCredentials => {
                let scope = challenge.scope.unwrap_or_default();
                Err(self.problem(format!("its token lacks the scope {scope:?}")))
            }
            GrantType::Login => self.relogin(&challenge, &refusal, lacks_scope).await,
        }
    }

    async fn relogin(
        &self,
        challenge: &Challenge,
        refusal: &Refusal,
        lacks_scope: bool,
    ) -> Result<(), Error> {
        let Some(mut tokens) = self.load() else {
            return Err(self.login_needed("it needs a login"));
        };
        if !refusal.is_repeated && tokens.header() != refusal.used {
            self.keep(tokens);
            return Ok(());
        }
        if lacks_scope {
            let scope = challenge.scope.clone().unwrap_or_default();
            tokens.wanted_scope = union(tokens.wanted_scope.take(), Some(&scope));
            self.save(&tokens)?;
            let why = format!("it needs the scope {scope:?}, which the login does not have");
            return Err(self.login_needed(&why));
        }
        if tokens.refresh.is_none() {
            return Err(self.login_needed("its login has ended"));
        }
        let used = tokens.access.clone();
        let tokens = self.renewed(tokens).await?;
        if tokens.access == used {
            return Err(self.login_needed("it has refused its token"));
        }
        self.keep(tokens);
        Ok(())
    }

    /// Gets a token by the client's own credentials.
    async fn take_credentials(
        &self,
        challenge: &Challenge,
        before: Option<String>,
    ) -> Result<(), Error> {
        let found = self.discover(challenge).await?;
        let Some(id) = self.config.client_id.clone() else {
            return Err(self.problem("it needs `client_id`"));
        };
        let secret = self.config.client_secret.clone();
        let client = RegisteredClient::new(id, secret, &found.server);
        let wanted = self.config.scope.clone().or_else(|| found.scope.clone());
        let scope = union(union(before, wanted.as_deref()), challenge.scope.as_deref());
        let mut parameters = vec![("grant_type", "client_credentials")];
        if let Some(scope) = &scope {
            parameters.push(("scope", scope));
        }
        let asked = self.request_token(&found, client, scope.clone(), &parameters);
        let tokens = asked.await.map_err(|error| match error {
            TokenError::Failed(error) => error,
            TokenError::Refused(code) => {
                let text = format!("its authorization server has refused the client ({code})");
                self.problem(text)
            }
        })?;
        self.keep(tokens);
        Ok(())
    }
}

/// A renewal goes on when the request that needs it is cancelled: a refresh token that has been used, and whose
/// successor is lost, would end the login.
impl Authorization for Arc<OAuth> {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        if let Some(tokens) = self.kept().filter(|tokens| !tokens.is_due()) {
            return std::future::ready(Ok(tokens.header())).boxed();
        }
        let oauth = Arc::clone(self);
        let tokens = tokio::spawn(async move { oauth.usable().await });
        async move {
            let tokens = tokens
                .await
                .unwrap_or_else(|error| Err(self.problem(error.to_string())))?;
            Ok(tokens.and_then(|tokens| tokens.header()))
        }
        .boxed()
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Result<(), Error>> {
        let oauth = Arc::clone(self);
        let handled = tokio::spawn(async move { oauth.handle(refusal).await });
        let failed = |error: tokio::task::JoinError| Err(self.problem(error.to_string()));
        async move { handled.await.unwrap_or_else(failed) }.boxed()
    }
}
