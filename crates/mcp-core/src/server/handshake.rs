//! `initialize` negotiates the revision (specification, "Lifecycle"), and `logging/setLevel` sets what its client gets.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::Answer;
use super::context::RequestContext;
use super::params::wrong;
use super::{Caller, ClientName, Negotiated, Server};
use crate::era::Era;
use crate::error::Error;
use crate::revision::Revision;
use crate::tool::{ClientCapabilities, LogLevel};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    /// The only required field; the seeds omit the others.
    protocol_version: Option<Value>,
    #[serde(default)]
    capabilities: Value,
    #[serde(default, rename = "clientInfo")]
    client: Value,
}

impl Server {
    /// Returns the revision that the client asks for if it is supported, else the latest.
    pub(super) fn initialize(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let missing = || wrong("protocolVersion", "Required field missing");
        let params: Params = context.parse("protocolVersion").map_err(|_| missing())?;
        let asked = params.protocol_version.ok_or_else(missing)?;
        let not_text = || wrong("protocolVersion", "must be a string");
        let asked = asked.as_str().ok_or_else(not_text)?;
        let revision = Revision::parse(asked).unwrap_or(Revision::LATEST);
        let mut capabilities = self.capabilities();
        if revision < Revision::V2025_03_26 {
            // Completion had no capability yet.
            let members = capabilities.as_object_mut();
            members.map(|members| members.shift_remove("completions"));
        }
        if self.has_tasks(Era::Legacy(revision)) {
            capabilities["tasks"] =
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        let mut result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities,
            "serverInfo": self.server_info(revision, context.caller()),
        });
        self.add_instructions(context.caller(), &mut result);
        let negotiated = Negotiated {
            revision,
            capabilities: ClientCapabilities::read(&params.capabilities),
            client: ClientName::new(params.client["name"].as_str().unwrap_or_default()),
        };
        Ok(Answer::Initialized(result.into(), negotiated))
    }

    /// `logging/setLevel` of the legacy era.
    pub(super) fn set_log_level(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        #[derive(Deserialize)]
        struct Params {
            level: LogLevel,
        }
        let Params { level } = context.parse("level")?;
        if let Some(connection) = &context.from.connection {
            connection.set_log_level(level);
        }
        Ok(json!({}).into())
    }

    /// Adds the `instructions` to the result of a handshake, if there are any.
    pub(super) fn add_instructions(&self, caller: &Caller, result: &mut Value) {
        let catalog = self.catalog_of(caller);
        let instructions = catalog.instructions();
        if !instructions.is_empty() {
            result["instructions"] = json!(instructions);
        }
    }

    /// `serverInfo` with the fields of the revision.
    fn server_info(&self, revision: Revision, caller: &Caller) -> Value {
        let mut info = json!({"name": self.identity.name, "version": self.identity.version});
        let catalog = self.catalog_of(caller);
        if let Some(title) = catalog
            .title()
            .filter(|_| revision >= Revision::V2025_06_18)
        {
            info["title"] = json!(title);
        }
        if revision >= Revision::V2025_11_25 {
            info["description"] = json!(self.identity.description);
        }
        info
    }
}
