//! The parts of a webhook's request that a caller may choose besides the parameters.

use std::collections::BTreeMap;

use mcp_core::tool::ToolError;
use n8n_workflow::trigger::{Trigger, TriggerKind, Webhook};
use serde_json::{Map, Value};
use upstream::http::Method;
use upstream::http::header::{HeaderName, HeaderValue};

use crate::production_url::REQUEST_ID;
use crate::start_method::{Access, StartMethod};
use crate::variant_name::variant_name;

/// Bytes of all headers; Node.js refuses requests with more than 16 KiB.
const MAX_HEADERS: usize = 8 * 1024;
/// Headers that this server or its HTTP client sets, or by which a proxy says where a request comes
/// from: n8n compares that with the addresses that a webhook allows.
const RESERVED: &[&str] = &[
    REQUEST_ID,
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-real-ip",
];
const RESERVED_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

/// Method, headers, query and files, as the caller gives them.
#[derive(Default)]
pub(crate) struct HttpInput {
    pub(crate) method: Option<String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) query: Map<String, Value>,
    pub(crate) files: Map<String, Value>,
}

impl HttpInput {
    /// Rejects arguments that a trigger of this kind cannot receive.
    pub(super) fn check_kind(
        &self,
        trigger: &Trigger<'_>,
        way: StartMethod,
    ) -> Result<(), ToolError> {
        let is_webhook = trigger.kind == TriggerKind::Webhook;
        let given = [
            ("method", !is_webhook && self.method.is_some()),
            ("headers", !is_webhook && !self.headers.is_empty()),
            ("query", !is_webhook && !self.query.is_empty()),
            (
                "files",
                way != StartMethod::Webhook && !self.files.is_empty(),
            ),
        ];
        let Some((argument, _)) = given.into_iter().find(|(_, is_wrong)| *is_wrong) else {
            return Ok(());
        };
        let why = if is_webhook {
            "n8n's MCP server cannot pass files on"
        } else {
            "only webhooks take it; pass the data as `parameters`"
        };
        Err(ToolError::invalid_argument(format!(
            "Trigger `{}` ({}) cannot receive `{argument}`: {why}.",
            trigger.node.name,
            variant_name(&trigger.kind)
        )))
    }

    /// Rejects a second `authorization`.
    pub(super) fn check_user(&self, access: &Access) -> Result<(), ToolError> {
        let mut names = self.headers.keys();
        match names.find(|name| name.eq_ignore_ascii_case("authorization")) {
            Some(name) if access.sends_user => Err(ToolError::invalid_argument(format!(
                "`headers` has {name:?}, which this server sets to the user in the address of n8n (N8N_URL, \
                 N8N_WEBHOOK_URL): leave it out."
            ))),
            _ => Ok(()),
        }
    }

    /// The method to use: the given one, if the webhook takes it.
    pub(super) fn method(&self, webhook: &Webhook) -> Result<Method, ToolError> {
        let Some(wanted) = &self.method else {
            return Ok(webhook.method.clone());
        };
        let mut known = webhook.methods.iter();
        let found = known.find(|method| method.as_str().eq_ignore_ascii_case(wanted.trim()));
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = webhook.methods.iter().map(Method::as_str).collect();
            ToolError::invalid_argument(format!(
                "The webhook does not take `method` {wanted:?}. It takes: {}.",
                names.join(", ")
            ))
        })
    }

    /// The headers, of which none replaces what this server sends, such as the one of the credential
    /// (`reserved`).
    pub(super) fn headers(
        &self,
        reserved: Option<&str>,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let mut size = 0;
        let mut headers = Vec::new();
        for (given, value) in &self.headers {
            let wrong = |why: &str| {
                Err(ToolError::invalid_argument(format!(
                    "`headers` has {given:?}, {why}."
                )))
            };
            let name = given.to_ascii_lowercase();
            size += name.len() + value.len();
            if HeaderName::try_from(name.as_str()).is_err() {
                return wrong("which is no name of a header");
            }
            if HeaderValue::try_from(value.as_str()).is_err() {
                return wrong(
                    "whose value cannot be sent: it has a line break or a control character",
                );
            }
            if reserved.is_some_and(|reserved| reserved.eq_ignore_ascii_case(&name)) {
                return wrong(
                    "which holds the configured credential of this webhook (N8N_WEBHOOK_CREDENTIALS): \
                     leave it out",
                );
            }
            let mut prefixes = RESERVED_PREFIXES.iter();
            if RESERVED.contains(&name.as_str()) || prefixes.any(|prefix| name.starts_with(prefix))
            {
                return wrong("which this server or a proxy sets: leave it out");
            }
            headers.push((name, value.clone()));
        }
        if size > MAX_HEADERS {
            return Err(ToolError::invalid_argument(format!(
                "`headers` has {size} bytes; at most {MAX_HEADERS} are sent."
            )));
        }
        Ok(headers)
    }
}
