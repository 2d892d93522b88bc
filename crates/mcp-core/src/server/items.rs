//! The methods that use an item: `tools/call` of every era, `prompts/get`, `completion/complete` (values for an argument
//! of a prompt or a variable of a template), `resources/read`, `resources/subscribe` and `resources/unsubscribe`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::FutureExt as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::Answer;
use super::context::{ExistenceCheck, RequestContext};
use super::params::{MAX_NAME, MAX_URI, check_length, object, or_empty, wrong};
use super::results::{bad_arguments, conclude, with_schema};
use super::tasks::Mode;
use super::{Server, results};
use crate::completion::Completes;
use crate::era::Era;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::prompt::PromptOutput;
use crate::resource::ResourceContents;
use crate::tool::{
    ArgumentError, BoundTool, ToolDefinition, ToolError, ToolErrorKind, ToolResult, limited,
};

impl Server {
    pub(super) async fn call_tool(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let (name, arguments) = context.params.named_call()?;
        let answer = |result| conclude(context.era, &context.client, result);
        let refused = |error: ToolError| {
            context.record.failed(error.kind().as_str());
            answer(Err(error))
        };
        let catalog = self.catalog_of(context.caller());
        let Some(tool) = catalog.tool(&name) else {
            if let Some(error) = catalog.why_missing(&name) {
                return refused(error);
            }
            return Err(Error::ToolNotFound {
                name: name.into_owned(),
                available: catalog.tool_names(),
                is_internal: false,
            });
        };
        context.record.calls(tool.0.original_name());
        if let Err(refusal) = catalog.admit(&tool.0, arguments, &context.call) {
            return refused(refusal);
        }
        match self.mode(&tool.0, context)? {
            Mode::Inline => match self.run(tool, arguments, context).await {
                Ok(result) => answer(result),
                Err(bad) => {
                    context.record.failed("invalid_params");
                    bad_arguments(&name, context.era, bad)
                }
            },
            Mode::Task(ttl) => Box::pin(self.call_as_task(tool, arguments, ttl, context)).await,
            // Boxed, to keep the future of other calls small.
            Mode::LateTask => Box::pin(self.call_until_task(tool, arguments, context)).await,
        }
    }

    /// Runs a tool while its request waits.
    ///
    /// # Errors
    /// Invalid arguments; nothing was started.
    pub(super) async fn run(
        &self,
        (definition, tool): &(ToolDefinition, Arc<dyn BoundTool>),
        arguments: &RawValue,
        context: &RequestContext<'_>,
    ) -> Result<Result<ToolResult, ToolError>, ArgumentError> {
        let running = tool
            .start(arguments, &context.call)
            .map_err(|error| with_schema(definition, error))?;
        let running = running.map(|result| limited(definition.max_bytes, result));
        Ok(self.within_limits(&definition.name, context, running).await)
    }
}

/// The limit of the specification for one response.
const MAX_VALUES: usize = 100;

#[derive(Deserialize)]
struct CompleteParams {
    #[serde(rename = "ref", deserialize_with = "object")]
    reference: Reference,
    #[serde(deserialize_with = "object")]
    argument: Argument,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Reference {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

/// A result of completion with those of its values that `is_kept`.
fn with_values(result: &Json, is_kept: impl Fn(&str) -> bool) -> Json {
    let result: Value = serde_json::from_str(result.as_str()).unwrap_or_default();
    let values = result["completion"]["values"].as_array();
    let values = values.into_iter().flatten().filter_map(Value::as_str);
    let values: Vec<&str> = values.filter(|value| is_kept(value)).collect();
    json!({"completion": {"values": values}}).into()
}

impl Server {
    pub(super) async fn get_prompt(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let (name, arguments) = context.params.named_call()?;
        let catalog = self.catalog_of(context.caller());
        let found = catalog.prompt(&name);
        let (definition, prompt) = found.ok_or_else(|| Error::PromptNotFound(name.to_string()))?;
        let writing = prompt.write(arguments, &context.call)?;
        let written = self.within_limits(&definition.name, context, writing).await;
        context.answer(written, |output| match output {
            PromptOutput::Relayed(result) => results::relayed(&result, context.era),
            PromptOutput::Messages(messages) => {
                json!({"description": definition.description, "messages": messages}).into()
            }
        })
    }

    pub(super) async fn complete(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let params: CompleteParams = context.parse("params")?;
        match &params.reference {
            Reference::Prompt { name } => check_length("ref.name", name, MAX_NAME)?,
            Reference::Resource { uri } => check_length("ref.uri", uri, MAX_URI)?,
        }
        check_length("argument.name", &params.argument.name, MAX_NAME)?;
        // A variable of a template is a part of a URI.
        check_length("argument.value", &params.argument.value, MAX_URI)?;
        let catalog = self.catalog_of(context.caller());
        let template = match &params.reference {
            Reference::Resource { uri } if !catalog.is_open() => Some(uri.clone()),
            _ => None,
        };
        let Argument { name, value } = params.argument;
        let item: &dyn Completes = match params.reference {
            Reference::Prompt { name } => {
                let found = catalog.prompt(&name);
                &*found.ok_or(Error::PromptNotFound(name))?.1
            }
            Reference::Resource { uri } => {
                let mut resources = catalog.resources_for(&uri).iter();
                let found = resources.find(|(resource, _)| resource.uri == uri);
                &*found.ok_or(Error::ResourceNotFound(uri))?.1
            }
        };
        if let Some(answer) = item.completion(or_empty(context.params.raw)?, &context.call) {
            let result = self.within_limits("completion/complete", context, answer);
            return context.answer(result.await, |result| match template {
                None => result.into(),
                Some(template) => {
                    // The values are parts of URIs, some of which this caller may not know.
                    let fills = ["{", "{+"].map(|open| format!("{open}{name}}}"));
                    let is_allowed = |value: &str| {
                        let uri = fills.iter().fold(template.clone(), |uri, variable| {
                            uri.replace(variable, value)
                        });
                        catalog.allows_uri(&uri)
                    };
                    with_values(&result, is_allowed).into()
                }
            });
        }
        let mut values = item.complete(&name, &value).await;
        let total = values.len();
        values.truncate(MAX_VALUES);
        let more = total > values.len();
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": more}}).into())
    }
}

/// Limit for the resources of templates in one request for subscriptions: each is read, one after the other.
const MAX_CHECKED_RESOURCES: usize = 100;

impl Server {
    pub(super) async fn read_resource(
        &self,
        context: &RequestContext<'_>,
    ) -> Result<Answer, Error> {
        let uri = context.params.uri()?;
        let unknown = || Error::ResourceNotFound(uri.to_string());
        let catalog = self.catalog_of(context.caller());
        let mut resources = catalog.resources_for(&uri).iter();
        let reading = resources.find_map(|(definition, resource)| {
            let reading = resource.read(&uri, &context.call)?;
            Some((definition, reading))
        });
        let (definition, reading) = reading.ok_or_else(unknown)?;
        let read = self.within_limits(&definition.name, context, reading).await;
        if let Err(error) = &read
            && error.kind() == ToolErrorKind::NotFound
        {
            return Err(unknown());
        }
        context.answer(read, |contents| {
            let mut item = json!({"uri": uri, "mimeType": definition.mime_type});
            match contents {
                ResourceContents::Text(text) => item["text"] = json!(text),
                ResourceContents::Blob(bytes) => item["blob"] = json!(STANDARD.encode(bytes)),
                ResourceContents::Relayed(result) => {
                    return results::relayed(&result, context.era);
                }
            }
            json!({"contents": [item]}).into()
        })
    }

    pub(super) async fn subscribe(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let uri = context.params.uri()?;
        // Without a connection nothing would ever come.
        let connection = context.from.connection.as_ref();
        let connection = connection.ok_or_else(|| Error::InvalidRequest {
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

    pub(super) fn unsubscribe(&self, context: &RequestContext<'_>) -> Result<Answer, Error> {
        let uri = context.params.uri()?;
        if let Some(connection) = &context.from.connection {
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
        context: &RequestContext<'_>,
    ) -> Result<(), Error> {
        let catalog = self.catalog_of(context.caller());
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
            Ok(Some(missing)) => Err(Error::ResourceNotFound(missing.to_owned())),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
