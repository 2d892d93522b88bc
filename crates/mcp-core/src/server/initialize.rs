//! `initialize`: agree on a revision (specification, "Lifecycle").

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Outcome, Server};
use crate::error::{BadParam, Error};
use crate::jsonrpc::Json;
use crate::revision::Revision;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    /// The only one that we need; the rest is optional because the seeds leave it out.
    protocol_version: Option<Value>,
}

impl Server {
    /// Echoes the revision that the client asks for if it is spoken here, else names the newest.
    pub(super) fn initialize(&self, params: Option<&RawValue>) -> Result<Outcome, Error> {
        let wrong = |reason| Error::InvalidParams(BadParam::new("protocolVersion", reason));
        let params: Option<Params> =
            params.and_then(|params| serde_json::from_str(params.get()).ok());
        let asked = params.and_then(|params| params.protocol_version);
        let asked = asked.ok_or_else(|| wrong("Required field missing"))?;
        let asked = asked.as_str().ok_or_else(|| wrong("must be a string"))?;
        let revision = Revision::parse(asked).unwrap_or(Revision::LATEST);
        let result = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": {"tools": {}},
            "serverInfo": self.server_info(revision),
        });
        Ok(Outcome {
            json: Json::from(result),
            is_error: false,
            negotiated: Some(revision),
        })
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
