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
        let end = self.within_limits(&definition.name, context, reading).await;
        if let CallEnd::Failed(error) = &end
            && error.kind() == ToolErrorKind::NotFound
        {
            return Err(unknown());
        }
        end.into_outcome(|contents| {
            let mut item = json!({"uri": uri, "mimeType": definition.mime_type});
            match contents {
                ResourceContents::Text(text) => item["text"] = json!(text),
                ResourceContents::Blob(bytes) => item["blob"] = json!(STANDARD.encode(bytes)),
                ResourceContents::Relayed(result) => {
                    return relayed::method(&result, context.era).into();
                }
            }
            json!({"contents": [item]}).into()
        })
    }

    /// Answers `resources/subscribe` and `resources/unsubscribe`. A client without a connection
    /// cannot get notifications, but gets no error: seed 004 subscribes without a handshake.
    pub(super) fn subscribe(&self, context: &Context<'_>, wanted: bool) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        if let Some(connection) = context.connection {
            if !wanted {
                connection.unsubscribe(&uri);
            } else if !connection.subscribe(&uri, self.features.changes.as_ref()) {
                return Err(wrong(
                    "uri",
                    "exceeds the limit of subscriptions; unsubscribe from another resource first",
                ));
            }
        }
        Ok(json!({}).into())
    }
}
