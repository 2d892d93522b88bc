//! `resources/read`, `resources/subscribe` and `resources/unsubscribe`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::ExistenceCheck;
use super::context::Context;
use super::outcome::{CallEnd, Outcome};
use super::params::wrong;
use super::{Server, relayed};
use crate::era::Era;
use crate::error::Error;
use crate::resource::ResourceContents;
use crate::tool::ToolErrorKind;

/// Limit for the resources of templates in one request for subscriptions: each is read, one after the other.
const MAX_CHECKED_RESOURCES: usize = 100;

impl Server {
    pub(super) async fn read_resource(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        let unknown = || Error::ResourceNotFound(uri.to_string());
        let catalog = self.catalog_of(context.caller);
        let mut resources = catalog.resources_for(&uri).iter();
        let reading = resources.find_map(|(definition, resource)| {
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

    pub(super) async fn subscribe(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        // Without a connection nothing would ever come.
        let connection = context.connection.ok_or_else(|| Error::InvalidRequest {
            detail: "a subscription needs a session; call initialize first".to_owned(),
            field: None,
        })?;
        self.check_resources([&*uri], context).await?;
        if !connection.subscribe(&uri, self.features.changes.as_ref()) {
            return Err(wrong(
                "uri",
                "exceeds the limit of subscriptions; unsubscribe from another resource first",
            ));
        }
        Ok(json!({}).into())
    }

    pub(super) fn unsubscribe(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        let uri = context.params.uri()?;
        if let Some(connection) = context.connection {
            connection.unsubscribe(&uri);
        }
        Ok(json!({}).into())
    }

    /// Checks that these resources exist. Those of a template are read for that, one after the other: only the
    /// service knows them. A resource that cannot be read at the moment passes.
    ///
    /// # Errors
    /// `ResourceNotFound` for the first that is missing; `InvalidParams` for more resources of templates than
    /// are read.
    pub(super) async fn check_resources(
        &self,
        uris: impl IntoIterator<Item = &str>,
        context: &Context<'_>,
    ) -> Result<(), Error> {
        let catalog = self.catalog_of(context.caller);
        let method = match context.era {
            Era::Modern => "subscriptions/listen",
            Era::Legacy(_) | Era::Unversioned => "resources/subscribe",
        };
        let call = context.call.clone();
        let call = call.with_extension(Arc::new(ExistenceCheck { method }));
        let mut of_templates = Vec::new();
        for uri in uris {
            let mut resources = catalog.resources_for(uri).iter();
            let reading = resources.find_map(|(definition, resource)| {
                let reading = resource.read(uri, &call)?;
                Some((definition.is_template(), reading))
            });
            let unknown = || Error::ResourceNotFound(uri.to_owned());
            let (is_template, reading) = reading.ok_or_else(unknown)?;
            of_templates.extend(is_template.then_some((uri, reading)));
        }
        if of_templates.len() > MAX_CHECKED_RESOURCES {
            let reason = format!(
                "has more than {MAX_CHECKED_RESOURCES} resources of templates; use another stream for the others"
            );
            return Err(wrong("notifications.resourceSubscriptions", &reason));
        }
        let reading = async {
            for (uri, reading) in of_templates {
                if reading
                    .await
                    .is_err_and(|error| error.kind() == ToolErrorKind::NotFound)
                {
                    return Ok(Some(uri));
                }
            }
            Ok(None)
        };
        match self
            .within_limits("the check of a resource", context, reading)
            .await
        {
            CallEnd::Done(Some(missing)) => Err(Error::ResourceNotFound(missing.to_owned())),
            CallEnd::Done(None) | CallEnd::NeedsInput(_) | CallEnd::Failed(_) => Ok(()),
        }
    }
}
