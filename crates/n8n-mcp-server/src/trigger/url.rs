//! The production URL of a trigger, if it is known without running anything.

use reqwest::Method;
use serde_json::Value;

use super::{Field, Trigger};

/// Versions of the Form Trigger before this one have another URL.
const FORM_WITH_PATH: f64 = 2.0;

/// A production webhook.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Webhook {
    pub(crate) method: Method,
    /// Below `/webhook`; segments like `:id` are parameters.
    pub(crate) path: Vec<String>,
    /// Its reply comes when the run has ended or answers by itself, and not at once.
    pub(crate) replies_late: bool,
    /// Name of the credential that it is called with.
    pub(crate) login: Option<String>,
}

/// A public chat, at `/webhook/<id>/chat`.
#[derive(Debug, PartialEq)]
pub(crate) struct Chat {
    pub(crate) id: String,
    pub(crate) login: Option<String>,
}

/// A form.
#[derive(Debug, PartialEq)]
pub(crate) struct Form {
    /// Below `/form`.
    pub(crate) path: Vec<String>,
    pub(crate) fields: Vec<Field>,
    pub(crate) replies_late: bool,
    pub(crate) login: Option<String>,
}

impl Trigger<'_> {
    /// The webhook, as if it asked for no credential.
    pub(crate) fn webhook(&self) -> Result<Webhook, String> {
        let path = self.text("path").unwrap_or_default();
        let id = self.id();
        let mut segments = fixed(path)?;
        if segments.iter().any(|segment| segment.starts_with(':')) {
            let id = id.ok_or("its path has parameters but it has no webhook id: save it again")?;
            segments.insert(0, id.to_owned());
        } else if segments.iter().all(String::is_empty) {
            segments = vec![id.ok_or("it has no path: set one")?.to_owned()];
        }
        Ok(Webhook {
            method: self.method()?,
            path: segments,
            replies_late: self.replies_late(),
            login: None,
        })
    }

    fn method(&self) -> Result<Method, String> {
        let name = match self.node.parameters.get("httpMethod") {
            None => "GET",
            Some(Value::String(name)) => name,
            // A webhook for several methods: most pass their data in a body.
            Some(Value::Array(names)) => {
                let mut names = names.iter().filter_map(Value::as_str);
                let first = names.next().unwrap_or("GET");
                if names.any(|name| name == "POST") {
                    "POST"
                } else {
                    first
                }
            }
            Some(_) => "",
        };
        match name {
            "GET" => Ok(Method::GET),
            "POST" => Ok(Method::POST),
            "PUT" => Ok(Method::PUT),
            "PATCH" => Ok(Method::PATCH),
            "DELETE" => Ok(Method::DELETE),
            "HEAD" => Ok(Method::HEAD),
            _ => Err("its HTTP method is not a fixed one: choose one".into()),
        }
    }

    pub(super) fn chat(&self, login: Option<String>) -> Result<Chat, String> {
        if self.node.parameters.get("public") != Some(&Value::Bool(true)) {
            return Err("its chat is not public: make it public".into());
        }
        let id = self.id().map(str::to_owned);
        let id = id.ok_or("it has no webhook id: save it again in n8n")?;
        Ok(Chat { id, login })
    }

    pub(super) fn form(&self, login: Option<String>) -> Result<Form, String> {
        if self.node.type_version < FORM_WITH_PATH {
            return Err("its Form Trigger is of the first version: replace it by a new one".into());
        }
        let option = self.node.parameters.get("options");
        let option = option.and_then(|options| options.get("path")?.as_str());
        let given = self.text("path").or(option).filter(|path| !path.is_empty());
        let path = given.or(self.id());
        Ok(Form {
            path: fixed(path.ok_or("it has no path: set one")?)?,
            fields: self.fields(),
            replies_late: self.replies_late(),
            login,
        })
    }

    fn replies_late(&self) -> bool {
        !matches!(self.text("responseMode"), None | Some("onReceived"))
    }

    fn id(&self) -> Option<&str> {
        let id = self.node.webhook_id.as_deref();
        id.filter(|id| !id.is_empty())
    }
}

/// The segments of a path that is no expression.
fn fixed(path: &str) -> Result<Vec<String>, String> {
    if path.starts_with('=') {
        return Err("its path is an expression: make it fixed".into());
    }
    let segments = path.trim_matches('/').split('/');
    Ok(segments.map(str::to_owned).collect())
}

impl Webhook {
    /// True if parts of the path are to be filled in.
    pub(crate) fn has_parameters(&self) -> bool {
        self.path.iter().any(|segment| segment.starts_with(':'))
    }
}
