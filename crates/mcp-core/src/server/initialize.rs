//! `initialize`: agree on a revision (specification, "Lifecycle").

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::outcome::{MethodResult, Outcome};
use super::{Negotiated, Server};
use crate::era::Era;
use crate::error::{BadParam, Error};
use crate::jsonrpc::Json;
use crate::revision::Revision;
use crate::tool::ClientCapabilities;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    /// The only one that we need; the rest is optional because the seeds leave it out.
    protocol_version: Option<Value>,
    #[serde(default)]
    capabilities: Value,
}

impl Server {
    /// Echoes the revision that the client asks for if it is spoken here, else names the newest.
    pub(super) fn initialize(&self, params: Option<&RawValue>) -> Result<Outcome, Error> {
        let wrong = |reason| Error::InvalidParams(BadParam::new("protocolVersion", reason));
        let params: Option<Params> =
            params.and_then(|params| serde_json::from_str(params.get()).ok());
        let (asked, declared) = match params {
            Some(Params {
                protocol_version: Some(asked),
                capabilities,
            }) => (asked, capabilities),
            _ => return Err(wrong("Required field missing")),
        };
        let asked = asked.as_str().ok_or_else(|| wrong("must be a string"))?;
        let revision = Revision::parse(asked).unwrap_or(Revision::LATEST);
        let mut capabilities = self.capabilities();
        if revision < Revision::V2025_03_26 {
            // Completion had no capability of its own yet.
            capabilities
                .as_object_mut()
                .map(|members| members.shift_remove("completions"));
        }
        if self.has_tasks(Era::Legacy(revision)) {
            capabilities["tasks"] =
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        let result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities,
            "serverInfo": self.server_info(revision),
        });
        let agreed = Negotiated {
            revision,
            capabilities: ClientCapabilities::read(&declared),
        };
        Ok(Outcome::Done(MethodResult {
            negotiated: Some(agreed),
            ..MethodResult::from(Json::from(result))
        }))
    }

    /// `serverInfo` with the fields that the revision knows.
    fn server_info(&self, revision: Revision) -> Value {
        let mut info = json!({"name": self.identity.name, "version": self.identity.version});
        if revision >= Revision::V2025_11_25 {
            info["description"] = json!(self.identity.description);
        }
        info
    }
}
