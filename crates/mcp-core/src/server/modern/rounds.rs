//! Multi Round-Trip Requests: a call that needs the client's input ends with the questions, and the
//! client repeats it with the answers (2026-07-28, "Multi Round-Trip Requests").
//!
//! The server keeps nothing between the rounds. The answers of earlier rounds travel in
//! `requestState`, signed and bound to the request, so that a client can neither make them up nor
//! use them for another call.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::super::{Questions, Server};
use crate::error::{BadParam, Error};
use crate::jsonrpc::{Json, Request};
use crate::tool::{self, Call, Capabilities, Inputs};

const PURPOSE: &str = "requestState";
/// How long a client may take to answer.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What `requestState` holds.
#[derive(Serialize, Deserialize)]
struct State {
    /// Seconds since 1970 after which it is void.
    expires: u64,
    /// The method, the name and the arguments that it belongs to.
    request: String,
    answers: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    memo: Value,
}

/// The parts of the parameters that say which request it is, and what was answered.
#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(rename = "inputResponses")]
    responses: Option<Map<String, Value>>,
    #[serde(rename = "requestState")]
    state: Option<Value>,
}

/// The inputs of one request, and what identifies it among others.
pub(super) struct Round {
    request: String,
    answers: Arc<Map<String, Value>>,
    memo: Value,
    capabilities: Capabilities,
}

impl Round {
    /// `call`, which can ask by ending, and knows what was answered before.
    pub(super) fn of(&self, call: Call) -> Call {
        let round = tool::Round {
            answers: Map::clone(&self.answers),
            memo: self.memo.clone(),
        };
        let inputs = Inputs::Rounds {
            capabilities: self.capabilities,
            answers: Arc::clone(&self.answers),
        };
        call.with_inputs(inputs).with_round(Arc::new(round))
    }
}

impl Server {
    /// Collects the answers of this round and, from a state that is genuine, of those before.
    pub(super) fn round(
        &self,
        request: &Request<'_>,
        capabilities: Capabilities,
    ) -> Result<Round, Error> {
        let wrong = |field: &str, reason: &str| Error::InvalidParams(BadParam::new(field, reason));
        let params: Params<'_> = serde_json::from_str(request.params.map_or("{}", RawValue::get))
            .map_err(|error| wrong("params", &error.to_string()))?;
        let text = |raw: Option<&RawValue>| raw.map_or("", RawValue::get).to_owned();
        // White space and the order of members may differ when a client builds the request anew.
        let arguments: Value =
            serde_json::from_str(params.arguments.map_or("{}", RawValue::get)).unwrap_or_default();
        let identity = json!([
            &*request.method,
            text(params.name),
            text(params.uri),
            sorted(arguments)
        ])
        .to_string();
        let (mut answers, memo) = match params.state {
            None => (Map::new(), Value::Null),
            Some(Value::String(sealed)) => {
                self.open_state(&sealed, &identity).ok_or_else(|| {
                    wrong(
                        "requestState",
                        "was not handed out for this request, or has expired",
                    )
                })?
            }
            Some(_) => return Err(wrong("requestState", "must be a string")),
        };
        let responses = params.responses.unwrap_or_default();
        if let Some((key, _)) = responses.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(wrong(&format!("inputResponses.{key}"), "must be an object"));
        }
        answers.extend(responses);
        Ok(Round {
            request: identity,
            answers: Arc::new(answers),
            memo,
            capabilities,
        })
    }

    /// The result that asks `questions`.
    pub(super) fn input_required(&self, round: &Round, questions: Questions) -> Json {
        let state = State {
            expires: (self.clock.unix_time() + PATIENCE).as_secs(),
            request: round.request.clone(),
            answers: Map::clone(&round.answers),
            memo: questions.memo,
        };
        let state = self
            .settings
            .signer
            .seal(PURPOSE, json!(state).to_string().as_bytes());
        let members = json!({"inputRequests": questions.by_key, "requestState": state}).to_string();
        Json::Owned(format!(
            r#"{{"resultType":"input_required",{},{}"#,
            self.modern_meta,
            members.trim_start_matches('{')
        ))
    }

    fn open_state(&self, sealed: &str, request: &str) -> Option<(Map<String, Value>, Value)> {
        let payload = self.settings.signer.open(PURPOSE, sealed)?;
        let state: State = serde_json::from_slice(&payload).ok()?;
        let is_valid =
            state.request == request && state.expires >= self.clock.unix_time().as_secs();
        is_valid.then_some((state.answers, state.memo))
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}
