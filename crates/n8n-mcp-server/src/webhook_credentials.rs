//! The credentials that production URLs require.
//!
//! n8n's API returns no secrets, so the operator configures those of triggers here again, under
//! their names in n8n.

use std::collections::HashMap;

use mcp_core::tool::ToolError;
use mcp_serve::Secret;
use n8n_workflow::Node;
use serde::Deserialize;
use upstream::http::RequestBuilder;

/// The configured credentials, by their names or ids in n8n.
#[derive(Default)]
pub(crate) struct WebhookCredentials(HashMap<String, WebhookCredential>);

/// One credential, with the fields that it has in n8n.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum WebhookCredential {
    /// Header Auth.
    Header { name: String, value: String },
    /// Basic Auth.
    Basic { user: String, password: String },
}

impl WebhookCredentials {
    /// Reads the current configuration.
    ///
    /// # Errors
    /// When it is not valid.
    pub(crate) fn read(configured: &Secret) -> Result<Self, ToolError> {
        let wrong = || {
            ToolError::unauthorized(
                "N8N_WEBHOOK_CREDENTIALS (or the file that N8N_WEBHOOK_CREDENTIALS_FILE names) \
                 cannot be read: it is a JSON object whose keys are names of credentials in n8n \
                 and whose values are {\"name\":…,\"value\":…} for Header Auth or \
                 {\"user\":…,\"password\":…} for Basic Auth.",
            )
        };
        let text = configured.get().map_err(|error| wrong().caused_by(error))?;
        // The parser's message could hold a secret.
        text.map_or(Ok(Self::default()), |text| {
            serde_json::from_str(&text).map(Self).map_err(|_| wrong())
        })
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &String> {
        self.0.values().map(|credential| match credential {
            WebhookCredential::Header { value, .. } => value,
            WebhookCredential::Basic { password, .. } => password,
        })
    }

    /// The name or id under which the credential of this node is configured.
    pub(crate) fn name_for(&self, node: &Node) -> Option<&str> {
        let names = node.credentials.values();
        let mut names = names.flat_map(|credential| [&credential.id, &credential.name]);
        names.find_map(|name| {
            let (name, _) = self.0.get_key_value(name.as_deref()?)?;
            Some(name.as_str())
        })
    }

    /// The header in which the credential of this name is sent.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|credential| match credential {
            WebhookCredential::Header { name, .. } => name.as_str(),
            WebhookCredential::Basic { .. } => "authorization",
        })
    }

    /// Adds the credential of this name to the request, if there is one.
    pub(crate) fn sign(&self, request: RequestBuilder, name: Option<&str>) -> RequestBuilder {
        match name.and_then(|name| self.0.get(name)) {
            Some(WebhookCredential::Header { name, value }) => request.header(name, value),
            Some(WebhookCredential::Basic { user, password }) => {
                request.basic_auth(user, Some(password))
            }
            None => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<WebhookCredentials, ToolError> {
        WebhookCredentials::read(&Secret::new(Some(text.to_owned()), None))
    }

    #[test]
    fn credentials_are_found_by_name_or_id() {
        let known = read(
            r#"{"My key": {"name": "X-Key", "value": "v"}, "17": {"user": "u", "password": "p"}}"#,
        )
        .unwrap_or_default();
        for (id, name, expected) in [
            ("3", "My key", Some("My key")),
            ("17", "Other", Some("17")),
            ("4", "J", None),
        ] {
            let credentials = json!({"httpHeaderAuth": {"id": id, "name": name}});
            let node = json!({"name": "H", "type": "t", "credentials": credentials});
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(known.name_for(&node), expected);
        }
    }

    #[test]
    fn invalid_credentials_are_not_repeated_in_the_error() {
        for text in [
            "SECRET",
            r#"{"a": "SECRET"}"#,
            r#"{"a": {"name": "SECRET"}}"#,
            r#"{"a": {"name": "n", "value": "SECRET", "user": "u"}}"#,
            r#"{"a": {"token": "SECRET"}}"#,
        ] {
            let Err(error) = read(text) else {
                panic!("{text}")
            };
            assert!(error.message().starts_with("N8N_WEBHOOK_CREDENTIALS"));
            assert!(!format!("{error:?}").contains("SECRET"), "{error:?}");
        }
        assert!(read("").is_ok());
    }
}
