//! Questions to the client during a call: elicitation (input of the user), sampling (an answer of its
//! model), roots.
//!
//! In the legacy era the question is a request to the client and the call waits. The modern era has
//! no such requests: the call ends with the question, and the client repeats it with the answer. The
//! tool then runs from its start again, so it must not do anything before the question that must not
//! be done twice.

use serde_json::{Map, Value, json};

use super::ToolError;

/// Support of a client for kinds of questions, and for a form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Input of the user, in a form.
    pub elicitation: bool,
    /// A visit of the user to a URL (2025-11-25, "URL Mode Elicitation").
    pub url_elicitation: bool,
    /// An answer of the client's model.
    pub sampling: bool,
    /// The folders that the client works in.
    pub roots: bool,
    /// Results without the text of their structured content.
    pub structured_only: bool,
}

impl ClientCapabilities {
    /// In `experimental`: results with `structuredContent` come without the text that says the same.
    pub const STRUCTURED_ONLY: &str = "structuredContentOnly";

    /// Parses a `ClientCapabilities` object of the specification.
    pub fn read(declared: &Value) -> Self {
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        let modes = declared.get("elicitation").and_then(Value::as_object);
        let has_mode = |mode| modes.is_some_and(|modes| modes.contains_key(mode));
        Self {
            // Without a mode it is the form, the only one until 2025-11-25.
            elicitation: has_mode("form") || modes.is_some_and(Map::is_empty),
            url_elicitation: has_mode("url"),
            sampling: has("sampling"),
            roots: has("roots"),
            structured_only: declared
                .get("experimental")
                .and_then(|experimental| experimental.get(Self::STRUCTURED_ONLY))
                .is_some_and(Value::is_object),
        }
    }

    /// Writes a `ClientCapabilities` object for another server. It has no
    /// [`STRUCTURED_ONLY`](Self::STRUCTURED_ONLY): only this server knows whether its client knows
    /// structured content, so it removes the text itself.
    pub fn to_json(self) -> Value {
        let one = |name: &str, has: bool| has.then(|| (name.to_owned(), json!({})));
        let modes = [
            one("form", self.elicitation),
            one("url", self.url_elicitation),
        ];
        let modes = Map::from_iter(modes.into_iter().flatten());
        let elicitation = (!modes.is_empty()).then(|| ("elicitation".to_owned(), json!(modes)));
        let all = [
            elicitation,
            one("sampling", self.sampling),
            one("roots", self.roots),
        ];
        Value::Object(all.into_iter().flatten().collect())
    }
}

/// One question to the client.
#[derive(Clone, Debug)]
pub struct InputRequest {
    method: &'static str,
    params: Value,
}

impl InputRequest {
    /// Asks the user to fill in `schema`, an object of primitive properties (`elicitation/create`).
    pub fn elicit(message: &str, schema: Value) -> Self {
        let method = "elicitation/create";
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self { method, params }
    }

    /// Asks the client's model; `params` are those of a `CreateMessageRequest`
    /// (`sampling/createMessage`).
    pub fn sample(params: Value) -> Self {
        let method = "sampling/createMessage";
        Self { method, params }
    }

    /// Asks for the folders that the client works in (`roots/list`).
    pub fn roots() -> Self {
        let (method, params) = ("roots/list", json!({}));
        Self { method, params }
    }

    /// A question of another server, unchanged; `None` if `method` is not a question to clients.
    pub fn from_backend(method: &str, params: Value) -> Option<Self> {
        let known = ["elicitation/create", "sampling/createMessage", "roots/list"];
        let method = known.into_iter().find(|known| *known == method)?;
        Some(Self { method, params })
    }

    /// The question as part of a task or a result.
    pub(crate) fn to_json(&self) -> Value {
        json!({"method": self.method, "params": self.params})
    }

    /// The method of the question.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The parameters of the question.
    pub(crate) fn params(&self) -> &Value {
        &self.params
    }

    fn capability(&self) -> &'static str {
        self.method.split('/').next().unwrap_or(self.method)
    }

    fn opens_url(&self) -> bool {
        self.params["mode"] == "url"
    }

    /// The schema of the answer to a form.
    pub(super) fn requested_schema(&self) -> Option<&Value> {
        self.params.get("requestedSchema")
    }

    fn is_allowed(&self, capabilities: ClientCapabilities) -> bool {
        match self.capability() {
            "elicitation" if self.opens_url() => capabilities.url_elicitation,
            "elicitation" => capabilities.elicitation,
            "sampling" => capabilities.sampling,
            _ => capabilities.roots,
        }
    }
}

/// Returns an error if a question needs a capability that the client did not declare.
pub(super) fn check(
    capabilities: ClientCapabilities,
    requests: &[(&str, InputRequest)],
) -> Result<(), ToolError> {
    let missing: Map<String, Value> = requests
        .iter()
        .filter(|(_, request)| !request.is_allowed(capabilities))
        .map(|(_, request)| {
            let mode = match request.opens_url() {
                true => json!({"url": {}}),
                false => json!({}),
            };
            (request.capability().to_owned(), mode)
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ToolError::missing_capability(missing))
}
