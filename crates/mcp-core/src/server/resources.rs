//! `resources/read`, `resources/subscribe` and `resources/unsubscribe`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::params::wrong;
use super::{Server, relayed};
use crate::error::Error;
use crate::resource::ResourceContents;
use crate::tool::ToolErrorKind;

impl Server {
    pub(super) async fn read_resource(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        let unknown = || Error::ResourceNotFound(uri.to_string());
        let catalog = self.catalog();
        let reading = catalog.resources.iter().find_map(|(definition, resource)| {
            let reading = resource.read(&uri, &context.call)?;
            Some((definition, reading))
        });
        let (definition, reading) = reading.ok_or_else(unknown)?;
        let contents = match self.within_limits(&definition.name, context, reading).await {
            CallEnd::Done(contents) => contents,
            CallEnd::NeedsInput(questions) => return Ok(Outcome::NeedsInput(questions)),
            CallEnd::Failed(error) if error.kind() == ToolErrorKind::NotFound => {
                return Err(unknown());
            }
            CallEnd::Failed(error) => return Err(error.into()),
        };
        let mut item = json!({"uri": uri, "mimeType": definition.mime_type});
        match contents {
            ResourceContents::Text(text) => item["text"] = json!(text),
            ResourceContents::Blob(bytes) => item["blob"] = json!(STANDARD.encode(bytes)),
            ResourceContents::Relayed(result) => {
                return Ok(relayed::method(&result, context.era).into());
            }
        }
        Ok(json!({"contents": [item]}).into())
    }

    /// `resources/subscribe` and `resources/unsubscribe`. A client without a connection could not be
    /// told, but is not refused: seed 004 subscribes over unversioned requests.
    pub(super) fn subscribe(&self, context: &Context<'_>, wanted: bool) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        if let Some(connection) = context.connection {
            if !wanted {
                connection.unsubscribe(&uri);
            } else if !connection.subscribe(&uri, self.features.changes.as_ref()) {
                return Err(wrong("uri", "is one subscription too many"));
            }
        }
        Ok(json!({}).into())
    }
}
