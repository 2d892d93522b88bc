//! Asks n8n whether it would publish a draft: a copy is created, n8n refuses to publish it, and it is
//! deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_core::tool::ToolError;
use serde_json::json;
use tokio::sync::OnceCell;
use upstream::http::Method;

use super::{Api, N8nFailure as _, Workflow};
use crate::id::Id;
use crate::workflow::Draft;
use crate::workflow::findings::Finding;
use crate::workflow::publish_check::PublishCheck;

/// Further answers would show faults of few drafts.
const MAX_REQUESTS: usize = 12;

/// Facts about how this n8n can be asked.
#[derive(Default)]
pub(super) struct PublishChecks {
    /// The server may write, also workflows that it deletes at once.
    is_allowed: AtomicBool,
    /// This n8n never publishes a copy.
    is_possible: OnceCell<bool>,
}

/// n8n's answer to a copy.
enum Answer {
    Published,
    Refused(String),
    Conflict,
}

impl Api {
    /// Lets this server ask, because it is not read-only.
    pub(crate) fn allow_publish_checks(&self) {
        self.publish_checks
            .is_allowed
            .store(true, Ordering::Relaxed);
    }

    /// All reasons for which n8n would not publish the draft; `is_active` if its webhooks are in use
    /// by itself.
    ///
    /// # Errors
    /// Why n8n cannot be asked.
    pub(crate) async fn publish_findings(
        self: &Arc<Self>,
        draft: &Draft,
        is_active: bool,
    ) -> Result<Vec<Finding>, String> {
        let checks = &self.publish_checks;
        if !checks.is_allowed.load(Ordering::Relaxed) {
            return Err("a read-only server makes no draft for n8n to check".to_owned());
        }
        // A caller that goes away must not leave the copy behind.
        let (api, check) = (Arc::clone(self), PublishCheck::new(draft, is_active));
        let check = tokio::spawn(async move {
            let probe = || api.never_publishes();
            let is_possible = api.publish_checks.is_possible.get_or_try_init(probe);
            match is_possible.await {
                Ok(true) => api.ask(check).await.map(Some),
                Ok(false) => Ok(None),
                Err(error) => Err(error),
            }
        });
        match check.await {
            Ok(Ok(Some(check))) => Ok(check.into_findings()),
            Ok(Ok(None)) => Err("this n8n says it only when it publishes".to_owned()),
            Ok(Err(error)) => Err(error.message().to_owned()),
            Err(_) => Err("the check was stopped".to_owned()),
        }
    }

    async fn never_publishes(&self) -> Result<bool, ToolError> {
        let check = PublishCheck::probe();
        let answer = self.try_to_publish(&check.copy).await?;
        Ok(matches!(answer, Answer::Refused(text) if check.is_own(&text)))
    }

    async fn ask(&self, mut check: PublishCheck) -> Result<PublishCheck, ToolError> {
        for _ in 0..MAX_REQUESTS {
            let is_read = match self.try_to_publish(&check.copy).await? {
                Answer::Refused(text) if !check.is_own(&text) => check.read(Some(&text)),
                Answer::Conflict => check.read(None),
                _ => false,
            };
            if !is_read {
                break;
            }
        }
        Ok(check)
    }

    async fn try_to_publish(&self, copy: &Draft) -> Result<Answer, ToolError> {
        let made = self.write(Method::POST, &["workflows"], &[], copy).await;
        let (workflow, _) = match made {
            Ok(made) => made,
            Err(failure) => match failure.complaint() {
                Some(complaint) => return Ok(Answer::Refused(complaint)),
                None => return Err(failure.into()),
            },
        };
        let id = Id::try_from(workflow.id)
            .map_err(|_| ToolError::upstream("n8n returned an invalid id for a workflow."))?;
        let path = ["workflows", id.as_str(), "activate"];
        let request = self.request(Method::POST, &path).body(&json!({}));
        let answer = request.json::<Workflow>().await;
        if answer.is_ok() {
            self.act(&id, "deactivate").await?;
        }
        self.delete_workflow(&id).await?;
        match answer {
            Ok(_) => Ok(Answer::Published),
            Err(failure) if failure.is_conflict() => Ok(Answer::Conflict),
            Err(failure) => match failure.complaint() {
                Some(complaint) => Ok(Answer::Refused(complaint)),
                None => Err(failure.into()),
            },
        }
    }
}
