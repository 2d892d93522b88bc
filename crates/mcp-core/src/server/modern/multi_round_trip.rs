//! Multi Round-Trip Requests: a call that needs the client's input ends with the questions, and the
//! client repeats it with the answers (2026-07-28, "Multi Round-Trip Requests").
//!
//! The server keeps nothing between the rounds. The answers of earlier rounds travel in
//! `requestState`, signed and bound to the request, so that a client can neither make them up nor
//! use them for another call.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::context::Context;
use crate::server::modern_client::ModernClient;
use crate::server::outcome::Questions;
use crate::server::params::{Params, wrong};
use crate::server::{Caller, PreviousRounds, Server};

const PURPOSE: &str = "requestState";
/// How long a client may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

/// What `requestState` holds.
#[derive(Serialize, Deserialize)]
struct State {
    /// Seconds since 1970 after which it is void.
    expires: u64,
    /// The method, the name and the arguments that it belongs to.
    request: String,
    /// The client that it was handed out to, where that is known.
    principal: Option<String>,
    answers: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    memo: Value,
}

impl Server {
    /// The answers of this round and, from a state that is genuine, of those before.
    pub(super) fn open_round(
        &self,
        method: &str,
        params: &Params<'_>,
        caller: &Caller,
    ) -> Result<PreviousRounds, Error> {
        params.check()?;
        let state = params.state.map(|state| {
            let sealed: String = serde_json::from_str(state.get())
                .map_err(|_| wrong("requestState", "must be a string"))?;
            self.open_state(&sealed, &identity(method, params), caller)
                .ok_or_else(|| {
                    wrong(
                        "requestState",
                        "was not handed out to this client for this request, or has expired",
                    )
                })
        });
        let mut round = state.transpose()?.unwrap_or_default();
        if let Some(responses) = params.responses {
            let responses: Map<String, Value> = serde_json::from_str(responses.get())
                .map_err(|_| wrong("inputResponses", "must be an object"))?;
            if let Some((key, _)) = responses.iter().find(|(_, answer)| !answer.is_object()) {
                return Err(wrong(&format!("inputResponses.{key}"), "must be an object"));
            }
            round.answers.extend(responses);
        }
        Ok(round)
    }

    /// The result that asks `questions`.
    pub(super) fn input_required(
        &self,
        method: &str,
        context: &Context<'_>,
        questions: Questions,
    ) -> Json {
        let round = context.client.as_deref().and_then(ModernClient::round);
        let state = State {
            expires: (self.clock.unix_time() + ANSWER_TIMEOUT).as_secs(),
            request: identity(method, context.params),
            principal: principal(context.caller),
            answers: round.map(|round| round.answers.clone()).unwrap_or_default(),
            memo: questions.memo,
        };
        let state = self
            .settings
            .signer
            .seal(PURPOSE, json!(state).to_string().as_bytes());
        json!({"inputRequests": questions.by_key, "requestState": state}).into()
    }

    fn open_state(&self, sealed: &str, request: &str, caller: &Caller) -> Option<PreviousRounds> {
        let payload = self.settings.signer.open(PURPOSE, sealed)?;
        let state: State = serde_json::from_slice(&payload).ok()?;
        let is_valid = state.request == request
            && state.principal == principal(caller)
            && state.expires >= self.clock.unix_time().as_secs();
        is_valid.then_some(PreviousRounds {
            answers: state.answers,
            memo: state.memo,
        })
    }
}

fn principal(caller: &Caller) -> Option<String> {
    caller.name().map(ToString::to_string)
}

/// The text that tells the request from others. Computed only for a state: it costs more than most
/// calls.
fn identity(method: &str, params: &Params<'_>) -> String {
    let text = |raw: Option<&RawValue>| raw.map_or("", RawValue::get).to_owned();
    // White space and the order of members may differ when a client builds the request anew.
    let arguments = params.arguments().ok();
    let arguments: Value = arguments
        .and_then(|arguments| serde_json::from_str(arguments.get()).ok())
        .unwrap_or_default();
    let (name, uri) = (text(params.name), text(params.uri));
    json!([method, name, uri, sorted(arguments)]).to_string()
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
