//! Asks n8n whether it would publish a draft: a copy is created, n8n refuses to publish it, and it is
//! deleted.

use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::Workflow;
use n8n_workflow::check::Finding;
use n8n_workflow::draft::Draft;
use n8n_workflow::publish_check::{COPY_NAME, PublishCheck, is_copy};
use serde_json::json;
use tokio::sync::Mutex;
use upstream::http::Method;
use upstream::time::since;

use super::Api;
use super::failure::is_conflict;

/// Further answers would show faults of few drafts.
const MAX_REQUESTS: usize = 12;
/// Much longer than a check needs its copy, by n8n's clock: an older one of another server was left behind.
const MAX_COPY_AGE: Duration = Duration::from_secs(600);

/// The reason for which a verdict is missing whose copy could not be deleted.
const COPY_STAYS: &str =
    "the copy cannot be deleted yet; this server deletes it before the next check";

/// Facts about how this n8n can be asked.
#[derive(Default)]
pub(super) struct PublishChecks {
    /// This n8n never publishes a copy; `None` before it was asked.
    is_possible: Mutex<Option<bool>>,
    /// The names of copies that may be left behind; `None` before the copies of earlier servers were looked for.
    left: Mutex<Option<Vec<String>>>,
}

/// n8n's answer to a copy.
enum Answer {
    Published,
    Refused(String),
    Conflict,
}

impl Api {
    /// All reasons for which n8n would not publish the draft; `is_active` if its webhooks are in use
    /// by itself.
    pub(crate) async fn publish_findings(
        self: &Arc<Self>,
        draft: &Draft,
        is_active: bool,
    ) -> Result<Vec<Finding>, String> {
        // A caller that goes away must not leave the copy behind.
        let (api, check) = (Arc::clone(self), PublishCheck::new(draft, is_active));
        let check = tokio::spawn(async move {
            api.delete_left_copies().await?;
            match api.never_publishes().await {
                Ok(true) => api.ask(check).await,
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
        let mut is_possible = self.publish_checks.is_possible.lock().await;
        if let Some(known) = *is_possible {
            return Ok(known);
        }
        let check = PublishCheck::probe();
        let answer = self.try_to_publish(&check.copy).await?;
        let never = matches!(answer, Answer::Refused(text) if check.is_own(&text));
        *is_possible = Some(never);
        Ok(never)
    }

    /// `None` if n8n published the copy, which is no verdict.
    async fn ask(&self, mut check: PublishCheck) -> Result<Option<PublishCheck>, ToolError> {
        for _ in 0..MAX_REQUESTS {
            let is_read = match self.try_to_publish(&check.copy).await? {
                Answer::Refused(text) if !check.is_own(&text) => check.read(Some(&text)),
                Answer::Refused(_) => false,
                Answer::Conflict => check.read(None),
                Answer::Published => {
                    *self.publish_checks.is_possible.lock().await = Some(false);
                    return Ok(None);
                }
            };
            if !is_read {
                break;
            }
        }
        Ok(Some(check))
    }

    async fn try_to_publish(&self, copy: &Draft) -> Result<Answer, ToolError> {
        let (body, _) = copy.body().map_err(ToolError::invalid_argument)?;
        let workflow = match self.write(Method::POST, &["workflows"], &body).await {
            Ok(made) => made,
            Err(failure) => {
                if let Some(complaint) = self.complaint(&failure) {
                    return Ok(Answer::Refused(complaint));
                }
                // n8n may have made the copy, or may still do so.
                if failure.is_transient() || failure.refusal().is_none() {
                    self.remember_copy(copy.name()).await;
                    self.delete_left_copies().await.ok();
                }
                return Err(failure.without_effect().into());
            }
        };
        let id = workflow.id;
        let path = ["workflows", id.as_str(), "activate"];
        let request = self.request(Method::POST, &path).body(&json!({}));
        let answer = request.json::<Workflow>().await;
        if answer.is_ok() {
            // If that fails: the deletion deactivates it, too.
            self.act(&id, "deactivate").await.ok();
        }
        if let Err(error) = self.delete_workflow(&id).await {
            self.remember_copy(copy.name()).await;
            return Err(ToolError::new(error.kind(), COPY_STAYS).caused_by(error));
        }
        match answer {
            Ok(_) => Ok(Answer::Published),
            Err(failure) if is_conflict(&failure) => Ok(Answer::Conflict),
            Err(failure) => match self.complaint(&failure) {
                Some(complaint) => Ok(Answer::Refused(complaint)),
                None => Err(failure.without_effect().into()),
            },
        }
    }

    async fn remember_copy(&self, name: &str) {
        let mut left = self.publish_checks.left.lock().await;
        left.get_or_insert_default().push(name.to_owned());
    }

    /// Deletes the copies that were left behind: by servers that were stopped, and by this one when a deletion failed.
    async fn delete_left_copies(&self) -> Result<(), ToolError> {
        let mut left = self.publish_checks.left.lock().await;
        if left.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let mut names = left.clone().unwrap_or_default();
        let rows = self.all_workflows(&[("name", COPY_NAME)]).await?;
        for copy in rows.iter().filter(|row| is_copy(&row.name, &row.nodes)) {
            let is_old = since(&copy.created_at).is_some_and(|age| age > MAX_COPY_AGE);
            if is_old || names.contains(&copy.name) {
                self.delete_workflow(&copy.id).await?;
                names.retain(|name| *name != copy.name);
            }
        }
        // n8n may still make the others.
        *left = Some(names);
        Ok(())
    }
}
