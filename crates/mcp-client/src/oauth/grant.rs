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

    /// The error of a renewal.
    fn ended(&self, error: TokenError) -> Error {
        match (error, self.config.grant) {
            (TokenError::Failed(error), _) => error,
            (TokenError::Refused(code), GrantType::Login) => {
                self.login_needed(&format!("its login has ended ({code})"))
            }
            (TokenError::Refused(code), GrantType::ClientCredentials) => self.problem(format!(
                "its authorization server has refused the client ({code})"
            )),
        }
    }

    fn fresh(&self) -> Option<Tokens> {
        self.kept().filter(|tokens| !tokens.is_due())
    }

    /// The token for the next request. One that is due is used until its end if it cannot be renewed.
    async fn usable(self: &Arc<Self>) -> Result<Option<Tokens>, Error> {
        if let Some(tokens) = self.fresh() {
            return Ok(Some(tokens));
        }
        let _alone = self.alone().await;
        if let Some(tokens) = self.fresh() {
            return Ok(Some(tokens));
        }
        // Without a token the server refuses the request, and says where tokens are.
        let Some(tokens) = self.latest() else {
            return Ok(None);
        };
        self.keep(tokens.clone());
        let is_login = self.config.grant == GrantType::Login;
        if !tokens.is_due() || is_login && tokens.refresh.is_none() {
            return Ok(Some(tokens));
        }
        match self.renewed(tokens.clone()).await {
            Ok(tokens) => Ok(Some(tokens)),
            Err(_) if !tokens.is_expired() => Ok(Some(tokens)),
            Err(TokenError::Refused(_)) if !is_login => {
                self.forget();
                Ok(None)
            }
            Err(error) => Err(self.ended(error)),
        }
    }

    /// Renews a token and keeps it, but not soon after a failure.
    async fn renewed(self: &Arc<Self>, mut tokens: Tokens) -> Result<Tokens, TokenError> {
        if let Some(error) = self.failed_lately() {
            return Err(error);
        }
        let spent = tokens.access.clone();
        let Err(error) = self.refresh(&mut tokens).await else {
            self.keep_successor(&tokens, spent);
            return Ok(tokens);
        };
        // A process that does not lock the store may have renewed it, which ends this refresh token.
        let is_other = |other: &Tokens| other.access != spent && !other.is_due();
        if matches!(error, TokenError::Refused(_))
            && let Some(other) = self.latest().filter(is_other)
        {
            self.keep(other.clone());
            return Ok(other);
        }
        Err(self.failed(error))
    }

    async fn handle(self: &Arc<Self>, refusal: Refusal) -> Result<(), Error> {
        let challenge = Challenge::read(&refusal.challenges);
        *lock(&self.challenge) = Some(challenge.clone());
        let lacks_scope = refusal.status == StatusCode::FORBIDDEN;
        let is_login = self.config.grant == GrantType::Login;
        if refusal.is_repeated && !lacks_scope {
            let why = "it has refused a new token";
            if is_login {
                return Err(self.login_needed(why));
            }
            let error = self.failed(TokenError::Failed(self.problem(why)));
            return Err(self.ended(error));
        }
        let _alone = self.alone().await;
        let is_other = |tokens: &Tokens| tokens.header() != refusal.used;
        if !refusal.is_repeated && self.fresh().as_ref().is_some_and(is_other) {
            return Ok(());
        }
        if is_login {
            return self.relogin(&challenge, &refusal, lacks_scope).await;
        }
        let before = self.kept().filter(|_| lacks_scope);
        let before = before.map(|tokens| tokens.scope);
        let has_asked =
            |scope: &Option<String>| union(scope.clone(), challenge.scope.as_deref()) == *scope;
        if refusal.is_repeated || before.as_ref().is_some_and(has_asked) {
            let scope = challenge.scope.unwrap_or_default();
            return Err(self.problem(format!("its token lacks the scope {scope:?}")));
        }
        let taken = match self.failed_lately() {
            Some(error) => Err(error),
            None => self.take_credentials(&challenge, before.flatten()).await,
        };
        taken.map_err(|error| self.ended(error))
    }

    async fn relogin(
        self: &Arc<Self>,
        challenge: &Challenge,
        refusal: &Refusal,
        lacks_scope: bool,
    ) -> Result<(), Error> {
        let Some(mut tokens) = self.latest() else {
            return Err(self.login_needed("it needs a login"));
        };
        if !refusal.is_repeated && tokens.header() != refusal.used {
            self.keep(tokens);
            return Ok(());
        }
        if lacks_scope {
            let scope = challenge.scope.clone().unwrap_or_default();
            let wanted = union(tokens.wanted_scope.clone(), Some(&scope));
            if wanted != tokens.wanted_scope {
                tokens.wanted_scope = wanted;
                self.keep(tokens.clone());
                if let Err(error) = self.save(&tokens) {
                    self.warn("the scope cannot be saved for the next login", &error);
                }
            }
            let why = format!("it needs the scope {scope:?}, which the login does not have");
            return Err(self.login_needed(&why));
        }
        if tokens.refresh.is_none() {
            return Err(self.login_needed("its login has ended"));
        }
        let used = tokens.access.clone();
        let renewed = self.renewed(tokens).await;
        let renewed = renewed.map_err(|error| self.ended(error))?;
        if renewed.access == used {
            return Err(self.login_needed("it has refused its token"));
        }
        Ok(())
    }

    /// Gets a token by the client's own credentials.
    async fn take_credentials(
        &self,
        challenge: &Challenge,
        before: Option<String>,
    ) -> Result<(), TokenError> {
        let failed = |error| self.failed(TokenError::Failed(error));
        let found = self.discover(challenge).await.map_err(failed)?;
        let Some(id) = self.config.client_id.clone() else {
            return Err(TokenError::Failed(self.problem("it needs `client_id`")));
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
        let tokens = asked.await.map_err(|error| self.failed(error))?;
        *lock(&self.failed) = None;
        self.keep(tokens);
        Ok(())
    }
}

/// A renewal goes on when the request that needs it is cancelled: a refresh token that has been used, and whose
/// successor is lost, would end the login.
impl Authorization for Arc<OAuth> {
    fn header(&self) -> BoxFuture<'_, Result<Option<HeaderValue>, Error>> {
        let kept = self.kept().filter(|tokens| !tokens.is_expired());
        let is_due = kept.as_ref().is_none_or(Tokens::is_due);
        if kept.is_some() && !is_due {
            return std::future::ready(Ok(kept.and_then(|tokens| tokens.header()))).boxed();
        }
        let oauth = Arc::clone(self);
        let renew = async move { oauth.usable().await };
        // No request waits for the renewal of a token that is still valid.
        if let Some(tokens) = kept {
            if self.renewing.try_lock().is_ok() && self.failed_lately().is_none() {
                tokio::spawn(renew);
            }
            return std::future::ready(Ok(tokens.header())).boxed();
        }
        let tokens = tokio::spawn(renew);
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
