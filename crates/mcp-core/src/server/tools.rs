//! `tools/list` and `tools/call`.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::tasks::Mode;
use super::{Outcome, Server, imported};
use crate::era::Era;
use crate::error::{BadParam, Error};
use crate::jsonrpc::{Id, Json, string};
use crate::revision::Revision;
use crate::tool::{
    ArgumentError, BoundTool, Call, Content, Definition, Special, ToolError, ToolErrorKind,
    ToolResult,
};

/// How often a call that asks a person is given its time again.
const EXTENSIONS: usize = 20;

/// How long a tool may work on after its caller has given up.
pub(super) const CLEAN_UP: Duration = Duration::from_secs(2);

/// The parameters of `tools/call` and `mcp.callTool`; the arguments stay unread.
pub(super) struct CallParams<'a> {
    pub(super) name: Cow<'a, str>,
    arguments: Option<&'a RawValue>,
    progress_token: Option<&'a RawValue>,
    /// The client asks for a task (2025-11-25).
    pub(super) task: Option<&'a RawValue>,
}

/// Why a tool has no result.
pub(super) enum Failure {
    /// There is no such tool.
    Unknown,
    /// It was not started: the arguments do not fit.
    Arguments(BadParam),
    /// It was started and failed.
    Tool(ToolError),
}

impl<'a> CallParams<'a> {
    pub(super) fn read(params: Option<&'a RawValue>) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            name: Option<&'a RawValue>,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
            #[serde(borrow)]
            task: Option<&'a RawValue>,
            #[serde(borrow, rename = "_meta")]
            meta: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Meta<'a> {
            #[serde(borrow, rename = "progressToken")]
            progress_token: Option<&'a RawValue>,
        }
        let wrong = |field: &str, reason: &str| Error::InvalidParams(BadParam::new(field, reason));
        let text = params.map_or("{}", RawValue::get);
        if !text.starts_with('{') {
            return Err(wrong("params", "params must be an object"));
        }
        let params: Params<'_> =
            serde_json::from_str(text).map_err(|error| wrong("params", &error.to_string()))?;
        let name = params
            .name
            .ok_or_else(|| wrong("name", "Required field missing"))?;
        let name = string(name.get()).ok_or_else(|| wrong("name", "must be a string"))?;
        let arguments = params
            .arguments
            .filter(|arguments| arguments.get() != "null");
        if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
            return Err(wrong("arguments", "must be a JSON object"));
        }
        let meta = params
            .meta
            .and_then(|meta| serde_json::from_str::<Meta<'_>>(meta.get()).ok());
        // A token is what an id is: a string or an integer.
        let progress_token = meta
            .and_then(|meta| meta.progress_token)
            .filter(|token| Id::new(token).is_some());
        Ok(Self {
            name,
            arguments,
            progress_token,
            task: params.task,
        })
    }
}

impl CallParams<'_> {
    /// `call`, asked to report its progress if the client wants to know.
    fn progress<'c>(&self, call: &'c Call) -> Cow<'c, Call> {
        match self.progress_token {
            Some(token) => Cow::Owned(call.with_progress(token.to_owned())),
            None => Cow::Borrowed(call),
        }
    }

    /// The arguments; absent ones are an empty object.
    pub(super) fn arguments(&self) -> Result<&RawValue, Error> {
        or_empty(self.arguments)
    }
}

/// `raw`, or an empty object in place of nothing.
pub(super) fn or_empty(raw: Option<&RawValue>) -> Result<&RawValue, Error> {
    match raw {
        Some(raw) => Ok(raw),
        None => serde_json::from_str("{}").map_err(|_| Error::Internal),
    }
}

impl Server {
    pub(super) fn list_tools(&self, params: Option<&RawValue>, era: Era) -> Result<Outcome, Error> {
        self.check_cursor(params)?;
        Ok(self.offered().catalogue.list(era).into())
    }

    /// The list is one page, so no cursor of ours is ever in the hands of a client.
    pub(super) fn check_cursor(&self, params: Option<&RawValue>) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            cursor: Option<&'a RawValue>,
        }
        let params =
            params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
        if params.is_some_and(|params| params.cursor.is_some()) {
            return Err(Error::InvalidParams(BadParam::new(
                "cursor",
                "is not one that was handed out",
            )));
        }
        Ok(())
    }

    pub(super) async fn call_tool(
        &self,
        params: Option<&RawValue>,
        era: Era,
        call: &Call,
    ) -> Result<Outcome, Error> {
        let params = CallParams::read(params)?;
        let offered = self.offered();
        let found = offered.catalogue.get(&params.name);
        let tool = found.ok_or_else(|| self.tool_not_found(&params.name))?;
        match self.mode(&tool.0, &params, era, call)? {
            Mode::Inline => conclude(&params.name, era, self.run(tool, &params, call).await),
            Mode::Task(ttl) => self.call_as_task(tool, &params, ttl, era, &params.progress(call)),
            Mode::Late => {
                // Seldom, and large: not in every call's future.
                Box::pin(self.call_until_task(tool, &params, &params.progress(call))).await
            }
        }
    }

    pub(super) async fn run_tool(
        &self,
        params: &CallParams<'_>,
        call: &Call,
    ) -> Result<ToolResult, Failure> {
        let offered = self.offered();
        let tool = offered
            .catalogue
            .get(&params.name)
            .ok_or(Failure::Unknown)?;
        self.run(tool, params, call).await
    }

    async fn run(
        &self,
        (definition, tool): &(Definition, Arc<dyn BoundTool>),
        params: &CallParams<'_>,
        call: &Call,
    ) -> Result<ToolResult, Failure> {
        let call = &*params.progress(call);
        let arguments = params.arguments().map_err(|_| Failure::Unknown)?;
        let running = tool
            .start(arguments, call)
            .map_err(|error| Failure::Arguments(bad_param(definition, error)))?;
        self.within_limits(&definition.name, call, running)
            .await
            .map_err(Failure::Tool)
    }

    /// Runs `work` to its end, its timeout or the caller's patience.
    pub(super) async fn within_limits<T>(
        &self,
        name: &str,
        call: &Call,
        work: impl Future<Output = Result<T, ToolError>>,
    ) -> Result<T, ToolError> {
        let result = tokio::select! {
            biased;
            result = work => result,
            () = self.out_of_time(call) => Err(ToolError::new(
                ToolErrorKind::Timeout,
                format!(
                    "{name} did not finish within {} s; it may still take effect.",
                    self.settings.call_timeout.as_secs()
                ),
            )),
            () = self.given_up(call) => Err(ToolError::new(
                ToolErrorKind::Cancelled,
                format!("{name} was cancelled; it may still take effect."),
            )),
        };
        if let Err(error) = &result {
            note_failure(name, error);
        }
        result
    }

    /// What becomes of work that ended with an error that is not its own.
    pub(super) fn interrupted(mut error: ToolError) -> Result<Outcome, Error> {
        match error.take_special() {
            Some(Special::InputRequired { questions, memo }) => {
                Ok(Outcome::asking(questions, memo))
            }
            Some(Special::MissingCapability(missing)) => {
                Err(Error::MissingCapability(Box::new(missing)))
            }
            Some(Special::Imported(error)) => Err(Error::Imported(Box::new(error))),
            None => Err(Error::ToolFailed(error)),
        }
    }

    /// Completes when the call has used up its time. A person who is asked has more of it.
    pub(super) async fn out_of_time(&self, call: &Call) {
        self.clock.sleep(self.settings.call_timeout).await;
        for _ in 0..EXTENSIONS {
            if !call.is_asking() {
                return;
            }
            self.clock.sleep(self.settings.call_timeout).await;
        }
    }

    /// Completes when the caller has given up and the tool had its time to clean up.
    async fn given_up(&self, call: &Call) {
        call.cancelled().await;
        self.clock.sleep(CLEAN_UP).await;
    }

    fn tool_not_found(&self, name: &str) -> Error {
        Error::ToolNotFound {
            name: name.to_owned(),
            available: self.offered().catalogue.names(),
        }
    }
}

/// What the request is answered, by what became of the tool.
pub(super) fn conclude(
    name: &str,
    era: Era,
    result: Result<ToolResult, Failure>,
) -> Result<Outcome, Error> {
    match result {
        Ok(ToolResult::Imported(result)) => Ok(imported::of_tool(result, era)),
        Ok(result) => Ok(render(&result, era)?.into()),
        Err(Failure::Unknown) => Err(Error::Internal),
        // SEP-1303 (2025-11-25): the model can mend its arguments only if it sees the error.
        Err(Failure::Arguments(bad)) if era.knows(Revision::V2025_11_25) => Ok(failed(&format!(
            "Invalid arguments for {name}: {}",
            bad.line()
        ))),
        Err(Failure::Arguments(bad)) => Err(Error::InvalidParams(bad)),
        Err(Failure::Tool(error)) if error.is_for(era) => Server::interrupted(error),
        Err(Failure::Tool(error)) => Ok(failed(error.message())),
    }
}

/// Tells the operator why a call has failed.
pub(super) fn note_failure(name: &str, error: &ToolError) {
    if !error.is_special() {
        let (kind, cause) = (error.kind().as_str(), error.causes());
        tracing::warn!(name, kind, cause, "{error}");
    }
}

pub(super) fn bad_param(definition: &Definition, error: ArgumentError) -> BadParam {
    let property = definition
        .input_schema
        .get("properties")
        .and_then(|all| all.get(&error.field));
    BadParam {
        field: error.field,
        reason: error.reason,
        schema: property.cloned().map(Box::new),
    }
}

/// A `CallToolResult`. The text of a structured result is the same bytes, escaped.
fn render(result: &ToolResult, era: Era) -> Result<Json, Error> {
    let written = match result {
        ToolResult::Structured(json) => {
            let json = json.as_str();
            serde_json::to_string(json).map(|text| {
                let mut result = String::with_capacity(96 + text.len() + json.len());
                result.push_str(r#"{"content":[{"type":"text","text":"#);
                result.push_str(&text);
                result.push_str("}]");
                if era.knows(Revision::V2025_06_18) {
                    result.push_str(r#","structuredContent":"#);
                    result.push_str(json);
                }
                result.push_str(r#","isError":false}"#);
                result
            })
        }
        ToolResult::Content(content) => {
            let content: Vec<Content> = content.iter().map(|item| item.lowered(era)).collect();
            serde_json::to_string(&content)
                .map(|content| format!(r#"{{"content":{content},"isError":false}}"#))
        }
        ToolResult::Imported(members) => Ok(members.encode()),
    };
    written.map(Json::Owned).map_err(|error| {
        tracing::error!(%error, "a result could not be written");
        Error::Internal
    })
}

/// The result of a tool that failed: what the model reads.
pub(super) fn failed(message: &str) -> Outcome {
    let result = json!({"content": [Content::text(message)], "isError": true});
    Outcome {
        is_error: true,
        ..Outcome::from(result)
    }
}
