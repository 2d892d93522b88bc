//! The production URL of a trigger, if its parameters determine it.

use http::Method;
use serde_json::Value;

use super::Trigger;

/// Versions of the Form Trigger before this one have another URL.
const FORM_WITH_PATH: f64 = 2.0;
const METHODS: [Method; 6] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::HEAD,
];

/// The method and the path of a webhook.
#[derive(Debug, PartialEq)]
pub struct Webhook {
    /// Used if the caller names none: POST if it is one of several.
    pub method: Method,
    /// All that it takes.
    pub methods: Vec<Method>,
    /// Below `/webhook`; segments like `:id` are parameters.
    pub path: Vec<String>,
}

impl Webhook {
    /// True if its path has parameters.
    pub fn has_parameters(&self) -> bool {
        has_parameters(&self.path)
    }
}

impl Trigger<'_> {
    /// Method and path.
    ///
    /// # Errors
    /// A reason and what would help: the parameters do not determine them.
    pub fn webhook(&self) -> Result<Webhook, String> {
        let path = self.text("path").unwrap_or_default();
        let id = self.id();
        let mut segments = fixed(path)?;
        if has_parameters(&segments) {
            let id = id.ok_or("its path has parameters but it has no webhook id: save it again")?;
            segments.insert(0, id.to_owned());
        } else if segments.iter().all(String::is_empty) {
            segments = vec![id.ok_or("it has no path: set one")?.to_owned()];
        }
        let mut methods = self.methods();
        // POST has a body for the data.
        methods.sort_by_key(|method| *method != Method::POST);
        let method = methods.first().cloned();
        Ok(Webhook {
            method: method.ok_or("its HTTP method is not a fixed one: choose one")?,
            methods,
            path: segments,
        })
    }

    fn methods(&self) -> Vec<Method> {
        let names = match self.node.parameters.get("httpMethod") {
            None => vec![Some("GET")],
            Some(Value::Array(names)) => names.iter().map(Value::as_str).collect(),
            Some(name) => vec![name.as_str()],
        };
        let known = |name: Option<&str>| {
            METHODS
                .into_iter()
                .find(|known| Some(known.as_str()) == name)
        };
        names.into_iter().filter_map(known).collect()
    }

    /// The id of a public chat, whose URL is `/webhook/<id>/chat`.
    pub fn chat_id(&self) -> Result<&str, String> {
        if self.node.parameters.get("public") != Some(&Value::Bool(true)) {
            return Err("its chat is not public: make it public".into());
        }
        let missing = || "it has no webhook id: save it again in n8n".to_owned();
        self.id().ok_or_else(missing)
    }

    /// The path of a form, below `/form`.
    pub fn form_path(&self) -> Result<Vec<String>, String> {
        if self.node.type_version < FORM_WITH_PATH {
            return Err("its Form Trigger is of the first version: replace it by a new one".into());
        }
        let option = self.node.parameters.get("options");
        let option = option.and_then(|options| options.get("path")?.as_str());
        let given = self.text("path").or(option).filter(|path| !path.is_empty());
        fixed(given.or(self.id()).ok_or("it has no path: set one")?)
    }

    /// True if its reply comes at the end of the run or from a node, and not at once.
    pub fn replies_at_end(&self) -> bool {
        !matches!(self.text("responseMode"), None | Some("onReceived"))
    }

    fn id(&self) -> Option<&str> {
        let id = self.node.webhook_id.as_deref();
        id.filter(|id| !id.is_empty())
    }
}

fn has_parameters(path: &[String]) -> bool {
    path.iter().any(|segment| segment.starts_with(':'))
}

/// The segments of a path; an error if it is an expression.
fn fixed(path: &str) -> Result<Vec<String>, String> {
    if path.starts_with('=') {
        return Err("its path is an expression: make it fixed".into());
    }
    let segments = path.trim_matches('/').split('/');
    Ok(segments.map(str::to_owned).collect())
}
