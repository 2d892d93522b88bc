//! Plain HTTP to services on this machine; every call has a limit in time and size.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, Method, Request};

const MAX_BODY: u64 = 8 << 20;

/// A small client for one base URL, with the headers that every call carries.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    base: String,
    headers: Vec<(&'static str, String)>,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status code.
    pub(crate) status: u16,
    /// The headers of the answer.
    pub(crate) headers: HeaderMap,
    /// The body; not JSON is `Value::Null`.
    pub(crate) json: Value,
}

impl Client {
    /// A client for calls that may take up to `limit`.
    pub(crate) fn new(base: &str, limit: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(limit))
            .http_status_as_error(false)
            .max_redirects(0);
        // A proxy for the world outside must not see calls to this machine.
        let agent = config.proxy(None).build().new_agent();
        Self {
            agent,
            base: base.trim_end_matches('/').to_owned(),
            headers: Vec::new(),
        }
    }

    /// Adds a header to every call.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// `GET`, whatever the status.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Answer> {
        self.call(Method::GET, path, None)
    }

    /// Any method, whatever the status.
    pub(crate) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let body = match body {
            Some(body) => {
                request = request.header("content-type", "application/json");
                serde_json::to_vec(body)?
            }
            None => Vec::new(),
        };
        let mut response = self
            .agent
            .run(request.body(body)?)
            .with_context(|| format!("{method} {path}"))?;
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_BODY)
            .read_to_vec()?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            json: serde_json::from_slice(&text).unwrap_or_default(),
        })
    }

    /// Sends a call that has to succeed and gives its JSON.
    pub(crate) fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let answer = self.call(method.clone(), path, Some(body))?;
        if !(200..300).contains(&answer.status) {
            bail!("{method} {path} answered {}", answer.status);
        }
        Ok(answer.json)
    }

    /// True when `GET path` answers 200.
    pub(crate) fn is_up(&self, path: &str) -> bool {
        self.get(path).is_ok_and(|answer| answer.status == 200)
    }
}
