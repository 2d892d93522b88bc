//! Asks n8n whether it would publish a draft: a copy is created, n8n refuses to publish it, and it is
//! deleted.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::tool::ToolError;
use n8n_workflow::check::Finding;
use n8n_workflow::draft::Draft;
use n8n_workflow::publish_check::{COPY_NAME, PublishCheck, is_copy};
use n8n_workflow::{Id, Workflow};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, Notify};
use tokio::time::sleep;
use upstream::http::{HttpFailure, Method};
use upstream::time::since;

use super::write::unwritable;
use super::{Api, N8nFailure as _};

/// Further answers would show faults of few drafts.
const MAX_REQUESTS: usize = 12;
/// Much longer than a check needs its copy: one that is seen again after it was left behind. It may also be
/// that of another server, whose check then fails.
const COPY_GRACE: Duration = Duration::from_secs(15);
/// The same by n8n's clock, which may differ from ours.
const MAX_COPY_AGE: Duration = Duration::from_secs(600);

/// Facts about how this n8n can be asked.
#[derive(Default)]
pub(super) struct PublishChecks {
    /// This n8n never publishes a copy; `None` before it was asked.
    is_possible: Mutex<Option<bool>>,
    /// Wakes [`Api::delete_lost_copies`].
    lost_copy: Notify,
}

/// A workflow that may be a copy, in a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopyRow {
    id: Id,
    name: String,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    nodes: Vec<Map<String, Value>>,
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
    ///
    /// # Errors
    /// Why n8n cannot be asked.
    pub(crate) async fn publish_findings(
        self: &Arc<Self>,
        draft: &Draft,
        is_active: bool,
    ) -> Result<Vec<Finding>, String> {
        // A caller that goes away must not leave the copy behind.
        let (api, check) = (Arc::clone(self), PublishCheck::new(draft, is_active));
        let check = tokio::spawn(async move {
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

    /// Asks n8n once.
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
        let lost_copy = &self.publish_checks.lost_copy;
        let writable = copy.writable().map_err(unwritable)?;
        let made = self
            .write(Method::POST, &["workflows"], &[], writable)
            .await;
        let (workflow, _) = match made {
            Ok(made) => made,
            Err(failure) => {
                if let Some(complaint) = self.complaint(&failure) {
                    return Ok(Answer::Refused(complaint));
                }
                // n8n may have made the copy, or may still do so.
                if failure.is_transient() || failure.refusal().is_none() {
                    lost_copy.notify_one();
                    self.delete_copy_with_name(&copy.name).await.ok();
                }
                return Err(failure.into());
            }
        };
        let id = Id::try_from(workflow.id)
            .map_err(|_| ToolError::upstream("n8n returned an invalid id for a workflow."))?;
        let path = ["workflows", id.as_str(), "activate"];
        let request = self.request(Method::POST, &path).body(&json!({}));
        let answer = request.json::<Workflow>().await;
        if answer.is_ok() {
            // If that fails: the deletion deactivates it, too.
            self.act_alone(&id, "deactivate").await.ok();
        }
        let deleted = self.delete_workflow(&id).await;
        deleted.inspect_err(|_| lost_copy.notify_one())?;
        match answer {
            Ok(_) => Ok(Answer::Published),
            Err(failure) if failure.is_conflict() => Ok(Answer::Conflict),
            Err(failure) => match self.complaint(&failure) {
                Some(complaint) => Ok(Answer::Refused(complaint)),
                None => Err(failure.into()),
            },
        }
    }

    /// Deletes the copies that were left behind: by a server that was stopped, at first, and by this one,
    /// whenever a deletion has failed. Never ends.
    pub(crate) async fn delete_lost_copies(&self) {
        loop {
            let mut seen = HashSet::new();
            loop {
                // n8n may not answer yet.
                if let Ok(copies) = self.copies().await {
                    for copy in &copies {
                        let is_old = since(&copy.created_at).is_some_and(|age| age > MAX_COPY_AGE);
                        if is_old || seen.contains(&copy.id) {
                            // If that fails: again in the next round.
                            self.delete_workflow(&copy.id).await.ok();
                        }
                    }
                    if copies.is_empty() {
                        break;
                    }
                    seen = copies.into_iter().map(|copy| copy.id).collect();
                }
                sleep(COPY_GRACE).await;
            }
            self.publish_checks.lost_copy.notified().await;
        }
    }

    async fn delete_copy_with_name(&self, name: &str) -> Result<(), ToolError> {
        let copies = self.copies().await?;
        for copy in copies.iter().filter(|copy| copy.name == name) {
            self.delete_workflow(&copy.id).await?;
        }
        Ok(())
    }

    /// The copies of all checks that n8n has.
    async fn copies(&self) -> Result<Vec<CopyRow>, HttpFailure> {
        let query = [("name", COPY_NAME), ("excludePinnedData", "true")];
        let (mut rows, _): (Vec<CopyRow>, _) = self.all(&["workflows"], &query).await?;
        rows.retain(|row| is_copy(&row.name, &row.nodes));
        Ok(rows)
    }
}
