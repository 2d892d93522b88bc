//! Client of n8n's public REST API (`/api/v1`).

mod execution;
mod failure;
mod publish_check;
mod shared;
mod workflow;

use std::time::Duration;

use mcp_serve::Secret;
use n8n_workflow::{Execution, Id, Workflow};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use upstream::http::{Client, Fault, HttpFailure, Method, Request, ServiceProfile};
use upstream::redact::json_cause;

use crate::policy::Policy;

use shared::{Shared, Slots};

pub(crate) use execution::ExecutionFilter;
pub(crate) use failure::{after, complaint, is_conflict, is_missing, is_too_old, scope};
pub(crate) use workflow::{Tag, UNKNOWN_CURSOR, WorkflowLock, Written, changed_meanwhile};

/// Shorter than for a call: the probe only finds out whether a call would be answered.
const PROBE_TIMEOUT: Duration = Duration::from_secs(4);
/// Pages of 250 rows that a look-up by name reads; more than any n8n has.
const MAX_PAGES: usize = 200;

/// The limits of requests to n8n, and the texts for its failures.
pub(crate) static N8N: ServiceProfile = ServiceProfile {
    user_agent: concat!("n8n-mcp-server/", env!("CARGO_PKG_VERSION")),
    // n8n answers in milliseconds; a busy one in a few seconds.
    timeout: Duration::from_secs(20),
    // Enough for a page of workflows or one large execution.
    max_body: 16 * 1024 * 1024,
    wording: failure::WORDING,
};

pub(crate) struct Api {
    http: Client,
    key: Secret,
    /// The workflows that this server may use.
    pub(crate) policy: Policy,
    publish_checks: publish_check::PublishChecks,
    /// The locks of workflows that are being changed.
    locks: Slots<Id, tokio::sync::Mutex<()>>,
    own_changes: workflow::OwnChanges,
    shared_workflows: Shared<Id, Workflow>,
    shared_pages: Shared<ExecutionFilter, Page<Execution>>,
    shared_executions: Shared<Id, Option<Box<RawValue>>>,
    /// The request ids of runs that executions hold.
    pub(crate) request_ids: shared::RequestIds,
    /// Whether it was n8n 1 at the last probe; `None` if that was not to be known.
    is_n8n_1: Mutex<Option<bool>>,
}

/// A page of a list as n8n writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawPage<T = Box<RawValue>> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

/// A page of a list, as far as it can be read.
pub(crate) struct Page<T> {
    pub(crate) data: Vec<T>,
    pub(crate) rest: Rest,
}

// What a list shows beside its rows. (A doc comment would become a part of the tools' schemas.)
#[skip_serializing_none]
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Rest {
    /// These rows cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_out: Vec<String>,
    /// It is absent on the last page.
    pub(crate) next_cursor: Option<String>,
}

impl RawPage {
    /// The page with the rows that can be read; `kind` names them in the texts about the others.
    pub(crate) fn read<T: DeserializeOwned>(self, kind: &str) -> Page<T> {
        /// All that is read of a row that cannot be read.
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Named {
            id: Value,
            version_id: Value,
            name: Value,
        }
        let (mut data, mut left_out) = (Vec::new(), Vec::new());
        for row in self.data {
            match serde_json::from_str(row.get()) {
                Ok(read) => data.push(read),
                Err(error) => {
                    let row: Named = serde_json::from_str(row.get()).unwrap_or_default();
                    let id = match row.id {
                        Value::Null => row.version_id,
                        id => id,
                    };
                    let (name, cause) = (row.name, json_cause(&error));
                    left_out.push(format!(
                        "{kind} {id} ({name}) is left out, since it cannot be read: {cause}."
                    ));
                }
            }
        }
        let next_cursor = self.next_cursor;
        Page {
            data,
            rest: Rest {
                left_out,
                next_cursor,
            },
        }
    }
}

impl<T> Page<T> {
    pub(crate) fn map<U>(self, change: impl FnMut(T) -> U) -> Page<U> {
        Page {
            data: self.data.into_iter().map(change).collect(),
            rest: self.rest,
        }
    }
}

impl Api {
    pub(crate) fn new(http: Client, key: Secret, policy: Policy) -> Self {
        Self {
            http,
            key,
            policy,
            publish_checks: publish_check::PublishChecks::default(),
            locks: Slots::default(),
            own_changes: workflow::OwnChanges::default(),
            shared_workflows: Shared::default(),
            shared_pages: Shared::default(),
            shared_executions: Shared::default(),
            request_ids: shared::RequestIds::default(),
            is_n8n_1: Mutex::default(),
        }
    }

    /// Asks n8n whether it takes the key, and until it is known to be n8n 2, for what n8n 1 does not have.
    pub(crate) async fn probe(&self) -> Result<(), HttpFailure> {
        let ask = |path| {
            self.request_of_any(Method::GET, &[path])
                .timeout(PROBE_TIMEOUT)
        };
        let listed = ask("workflows").query(&[("limit", "1")]);
        listed.json::<RawPage<IgnoredAny>>().await?;
        if *self.is_n8n_1.lock() == Some(false) {
            return Ok(());
        }
        let is_n8n_1 = match ask("discover").json::<IgnoredAny>().await {
            Ok(_) => Some(false),
            Err(failure) => is_too_old(&failure).then_some(true),
        };
        *self.is_n8n_1.lock() = is_n8n_1;
        match is_n8n_1 {
            Some(true) => Err(self.http.failure(Fault::Unusable(failure::N8N_1))),
            _ => Ok(()),
        }
    }

    /// A request that fails with the reason if this is n8n 1.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> Request {
        let request = self.request_of_any(method, path);
        match *self.is_n8n_1.lock() {
            Some(true) => request.unusable(failure::N8N_1),
            _ => request,
        }
    }

    fn request_of_any(&self, method: Method, path: &[&str]) -> Request {
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

    /// The rows of all pages of a list, as far as they can be read, and whether the pages are all: at most
    /// [`MAX_PAGES`] are read.
    pub(crate) async fn all<T: DeserializeOwned>(
        &self,
        kind: &str,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<(Vec<T>, bool), HttpFailure> {
        let (mut rows, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut pairs = [query, &[("limit", "250")]].concat();
            pairs.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: RawPage = self.get(path, &pairs).await?;
            let page = page.read(kind);
            let left_out = page.rest.left_out.iter();
            left_out.for_each(|one| tracing::warn!("{one}"));
            rows.extend(page.data);
            cursor = page.rest.next_cursor;
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
