//! Asking the client while its request is being answered: for the user's input, for a model's
//! answer, for its roots.
//!
//! In the legacy era the question is a request of its own and the call waits. In the modern era
//! there are no such requests: the call ends with the question, and the client repeats it with the
//! answer. A tool that asks is therefore run from its start again in the second round, and must not
//! have done anything before it asks that may not be done twice.

use serde_json::{Map, Value, json};

use super::ToolError;

/// What a client says that it can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// The user's input.
    pub elicitation: bool,
    /// A model's answer.
    pub sampling: bool,
    /// The folders that it works in.
    pub roots: bool,
}

impl ClientCapabilities {
    /// Reads a `ClientCapabilities` object.
    pub fn read(declared: &Value) -> Self {
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        Self {
            elicitation: has("elicitation"),
            sampling: has("sampling"),
            roots: has("roots"),
        }
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
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        Self {
            method: "elicitation/create",
            params,
        }
    }

    /// Asks the client's model; `params` is a `CreateMessageRequest`'s (`sampling/createMessage`).
    pub fn sample(params: Value) -> Self {
        Self {
            method: "sampling/createMessage",
            params,
        }
    }

    /// Asks for the folders that the client works in (`roots/list`).
    pub fn roots() -> Self {
        Self {
            method: "roots/list",
            params: json!({}),
        }
    }

    /// A question of another server, passed on as it is; `None` if clients are never asked that.
    pub fn from_backend(method: &str, params: Value) -> Option<Self> {
        let known = ["elicitation/create", "sampling/createMessage", "roots/list"];
        let method = known.into_iter().find(|known| *known == method)?;
        Some(Self { method, params })
    }

    /// The question as a task or a result carries it.
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

    fn is_allowed(&self, capabilities: ClientCapabilities) -> bool {
        match self.capability() {
            "elicitation" => capabilities.elicitation,
            "sampling" => capabilities.sampling,
            _ => capabilities.roots,
        }
    }
}

/// Refuses questions that a client with these capabilities did not say it can answer.
pub(super) fn check(
    capabilities: ClientCapabilities,
    requests: &[(&str, InputRequest)],
) -> Result<(), ToolError> {
    let missing: Map<String, Value> = requests
        .iter()
        .filter(|(_, request)| !request.is_allowed(capabilities))
        .map(|(_, request)| (request.capability().to_owned(), json!({})))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ToolError::missing_capability(missing))
}
