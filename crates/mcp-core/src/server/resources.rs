//! `resources/*`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Connection, Outcome, Server, imported};
use crate::era::Era;
use crate::error::{BadParam, Error};
use crate::resource::Contents;
use crate::tool::{Call, ToolErrorKind};

impl Server {
    pub(super) async fn read_resource(
        &self,
        params: Option<&RawValue>,
        era: Era,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let uri = uri(params)?;
        let unknown = || Error::ResourceNotFound(uri.clone());
        let offered = self.offered();
        let reading = offered.resources.iter().find_map(|(definition, resource)| {
            resource
                .read(&uri, call)
                .map(|reading| (definition, reading))
        });
        let (definition, reading) = reading.ok_or_else(unknown)?;
        let contents = match self.within_limits(&definition.name, call, reading).await {
            Ok(contents) => contents,
            Err(error) if error.kind() == ToolErrorKind::NotFound => return Err(unknown()),
            Err(error) => return Self::interrupted(error),
        };
        let mut item = json!({"uri": uri, "mimeType": definition.mime_type});
        match contents {
            Contents::Text(text) => item["text"] = json!(text),
            Contents::Blob(bytes) => item["blob"] = json!(STANDARD.encode(bytes)),
            Contents::Imported(result) => return Ok(imported::of_method(&result, era)),
        }
        Ok(json!({"contents": [item]}).into())
    }

    /// `resources/subscribe` and `resources/unsubscribe`. A client without a connection could not be
    /// told, but is not refused: seed 004 subscribes over plain requests.
    pub(super) fn subscribe(
        &self,
        params: Option<&RawValue>,
        connection: Option<&Connection>,
        wanted: bool,
    ) -> Result<Outcome, Error> {
        let uri = uri(params)?;
        if let Some(connection) = connection {
            if !wanted {
                connection.unsubscribe(&uri);
            } else if !connection.subscribe(&uri, self.offer.changes.as_ref()) {
                return Err(Error::InvalidParams(BadParam::new(
                    "uri",
                    "is one subscription too many",
                )));
            }
        }
        Ok(json!({}).into())
    }
}

fn uri(params: Option<&RawValue>) -> Result<String, Error> {
    #[derive(Deserialize)]
    struct Params {
        uri: Option<Value>,
    }
    let wrong = |reason| Error::InvalidParams(BadParam::new("uri", reason));
    let params = params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
    match params.and_then(|params| params.uri) {
        Some(Value::String(uri)) => Ok(uri),
        Some(_) => Err(wrong("must be a string")),
        None => Err(wrong("Required field missing")),
    }
}
