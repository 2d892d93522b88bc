//! n8n's public REST API (`/api/v1`), as far as the tools use it.

mod execution;
mod failure;
mod guard;
mod http;
mod scope;
mod workflow;
mod write;

use std::time::Duration;

use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use reqwest::header::HeaderValue;
use reqwest::{Client, Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::policy::Policy;

pub(crate) use execution::{Execution, ExecutionFilter, Status};
pub(crate) use failure::Failure;
pub(crate) use http::{client, read_capped, shown, under};
pub(crate) use workflow::{Definition, Filter, Node, Tag, Workflow, WorkflowRow};

/// What one request may take. n8n answers in milliseconds; a busy one in a few seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What the probe may take: it only asks whether a call would be served.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// The largest answer that is read. A page of workflows or one large execution fits.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// A client of one n8n.
pub(crate) struct Api {
    http: Client,
    base: Url,
    key: Secret,
    /// The base without credentials, for messages.
    address: String,
    /// Which workflows there are for us.
    pub(crate) policy: Policy,
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

impl Api {
    pub(crate) fn new(base: Url, key: Secret, policy: Policy) -> anyhow::Result<Self> {
        Ok(Self {
            http: client(&base)?,
            address: shown(&base),
            base,
            key,
            policy,
        })
    }

    /// Asks for the smallest thing that needs the key.
    pub(crate) async fn probe(&self) -> Result<(), ToolError> {
        let request = self.get::<Page<WorkflowRow>>(&["workflows"], &[("limit", "1")]);
        match timeout(PROBE_TIMEOUT, request).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) => Err(self.explain(failure)),
            Err(_) => Err(self.explain(Failure::Slow(PROBE_TIMEOUT))),
        }
    }

    /// The failure in words for the model, with the address for the operator.
    pub(crate) fn explain(&self, failure: Failure) -> ToolError {
        failure.explain(&self.address)
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.send(Method::GET, path, query).await
    }

    /// The rows of a list, and whether those are all: no more than so many pages are read.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        path: &[&str],
        max_pages: usize,
    ) -> Result<(Vec<T>, bool), Failure> {
        let (mut rows, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..max_pages {
            let mut query = vec![("limit", "250")];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: Page<T> = self.get(path, &query).await?;
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
        query: &[(&str, &str)],
    ) -> Result<T, Failure> {
        self.exchange(method, path, query, None, TIMEOUT).await
    }

    /// Sends `body` as JSON.
    pub(crate) async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &Value,
    ) -> Result<T, Failure> {
        self.exchange(method, path, &[], Some(body), TIMEOUT).await
    }

    /// The one request behind all others, within `limit`. An empty answer is `null`.
    pub(crate) async fn exchange<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
        limit: Duration,
    ) -> Result<T, Failure> {
        let mut url = under(&self.base, ["api", "v1"].iter().chain(path));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self
            .http
            .request(method.clone(), url)
            .header("X-N8N-API-KEY", self.key()?);
        if let Some(body) = body {
            request = request.json(body);
        }
        let exchange = async {
            let response = request.send().await.map_err(Failure::of_sending)?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_capped(response, MAX_BODY).await?;
            Ok((status, headers, body))
        };
        let (status, headers, body) = timeout(limit, exchange)
            .await
            .map_err(|_| Failure::Slow(limit))??;
        if status.is_success() {
            let body = if body.is_empty() { b"null" } else { &body[..] };
            serde_json::from_slice(body).map_err(Failure::Unreadable)
        } else {
            Err(Failure::refused(status, &headers, &body).to(&method, path))
        }
    }

    fn key(&self) -> Result<HeaderValue, Failure> {
        let key = self.key.get().map_err(Failure::KeyFile)?;
        let mut key =
            HeaderValue::try_from(key.ok_or(Failure::NoKey)?).map_err(|_| Failure::OddKey)?;
        key.set_sensitive(true);
        Ok(key)
    }
}
