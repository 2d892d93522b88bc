//! Client of n8n's public REST API (`/api/v1`).

mod execution;
mod failure;
mod guard;
mod locks;
mod publish_check;
mod request_ids;
mod scope;
mod shared;
mod workflow;
mod write;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_serve::Secret;
use n8n_workflow::{Id, Workflow};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::OnceCell;
use upstream::http::{Client, HttpFailure, Method, Request, ServiceProfile, StatusCode};

use crate::policy::Policy;

use shared::{Shared, SharedAnswer};

pub(crate) use execution::ExecutionFilter;
pub(crate) use failure::N8nFailure;
pub(crate) use locks::WorkflowLock;
pub(crate) use shared::SharedFailure;
pub(crate) use workflow::{UNKNOWN_CURSOR, WorkflowFilter};
pub(crate) use write::{Publication, WrittenWorkflow, changed_meanwhile};

/// Shorter than for a call: the probe only finds out whether a call would be answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// Pages of 250 rows that a look-up by name reads; more than any n8n has.
const MAX_PAGES: usize = 200;

/// The limits of requests to n8n, and the texts for its failures.
pub(crate) static N8N: ServiceProfile = ServiceProfile {
    user_agent: concat!("n8n-mcp-server/", env!("CARGO_PKG_VERSION")),
    // n8n answers in milliseconds; a busy one in a few seconds.
    timeout: Duration::from_secs(10),
    // Enough for a page of workflows or one large execution.
    max_body: 16 * 1024 * 1024,
    wording: failure::WORDING,
};

/// A client of one n8n.
pub(crate) struct Api {
    http: Client,
    key: Secret,
    /// The workflows that this server may use.
    pub(crate) policy: Policy,
    publish_checks: publish_check::PublishChecks,
    locks: locks::WorkflowLocks,
    shared_workflows: Shared<Id, SharedAnswer<Workflow>>,
    shared_pages: Shared<ExecutionFilter, SharedAnswer<Page<Box<RawValue>>>>,
    shared_executions: Shared<Id, SharedAnswer<Option<Box<RawValue>>>>,
    /// The request ids of runs that executions hold.
    pub(crate) request_ids: request_ids::RequestIds,
    is_version_2: OnceCell<bool>,
    /// The highest number of an execution that was seen; n8n counts upwards.
    newest_execution: AtomicU64,
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

impl Api {
    pub(crate) fn new(http: Client, key: Secret, policy: Policy) -> Self {
        Self {
            http,
            key,
            policy,
            publish_checks: publish_check::PublishChecks::default(),
            locks: locks::WorkflowLocks::default(),
            shared_workflows: Shared::default(),
            shared_pages: Shared::default(),
            shared_executions: Shared::default(),
            request_ids: request_ids::RequestIds::default(),
            is_version_2: OnceCell::new(),
            newest_execution: AtomicU64::new(0),
        }
    }

    /// Sends the smallest request that requires the key.
    pub(crate) async fn probe(&self) -> Result<(), HttpFailure> {
        let request = self.request(Method::GET, &["workflows"]);
        let request = request.query(&[("limit", "1")]).timeout(PROBE_TIMEOUT);
        request.json::<Page<IgnoredAny>>().await.map(drop)
    }

    /// True for n8n 2, which also lists executions that wait; asks n8n once. False while n8n does not
    /// answer.
    pub(crate) async fn is_version_2(&self) -> bool {
        let ask = async || match self.get::<IgnoredAny>(&["discover"], &[]).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_unknown_operation() => Ok(false),
            // It exists, and the key may not use it.
            Err(failure) if failure.status() == Some(StatusCode::FORBIDDEN) => Ok(true),
            Err(_) => Err(()),
        };
        self.is_version_2.get_or_try_init(ask).await == Ok(&true)
    }

    /// Remembers the number of an execution that n8n has or had.
    pub(crate) fn saw_execution(&self, number: u64) {
        self.newest_execution.fetch_max(number, Ordering::Relaxed);
    }

    /// The highest number that was seen; 0 if none was.
    pub(crate) fn newest_execution(&self) -> u64 {
        self.newest_execution.load(Ordering::Relaxed)
    }

    pub(crate) fn request(&self, method: Method, path: &[&str]) -> Request {
        let path = ["api", "v1"].iter().chain(path).copied();
        self.http
            .request(method, path)
            .required_credential("X-N8N-API-KEY", self.key.get())
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, HttpFailure> {
        self.request(Method::GET, path).query(query).json().await
    }

    /// The rows of all pages of a list, and whether those are all: at most [`MAX_PAGES`] are read.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<(Vec<T>, bool), HttpFailure> {
        let (mut rows, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut pairs = [query, &[("limit", "250")]].concat();
            pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.get(path, &pairs).await?;
            rows.extend(page.data);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok((rows, true));
            }
        }
        Ok((rows, false))
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<T, HttpFailure> {
        self.request(method, path).body(body).json().await
    }
}
