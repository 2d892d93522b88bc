//! Multi Round-Trip Requests: a call that needs the client's input ends with the questions, and the
//! client repeats it with the answers (2026-07-28, "Multi Round-Trip Requests").
//!
//! The server stores nothing between the rounds. The client returns the answers of earlier rounds in
//! `requestState`, which is signed and bound to the request: a client can neither forge the answers
//! nor use them for another call. Only what the state has asked can be answered. Without a state a client may
//! bring answers unasked, which confirm nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::clock::unix_time;
use crate::error::Error;
use crate::jsonrpc::Json;
use crate::server::answer::Questions;
use crate::server::context::RequestContext;
use crate::server::params::{Params, wrong};
use crate::server::{Caller, PreviousRounds, Server};
use crate::tool::CONFIRMATION;

/// The purpose of the signature.
const PURPOSE: &str = "requestState";
/// The time that a client has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Serialize, Deserialize)]
struct RequestState {
    /// Expiry, in seconds since 1970.
    expires: u64,
    /// The method, the name and the arguments of the request; `None`, which no request has, if they cannot be read.
    request: Option<String>,
    /// The client of the request, if it is known.
    principal: Option<String>,
    /// Its view; `None` for the server itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<String>,
    /// Random.
    #[serde(default)]
    id: Option<String>,
    answers: Map<String, Value>,
    /// The keys of the questions that the client got with it.
    #[serde(default)]
    asked: Vec<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    memo: Value,
}

impl Server {
    /// Returns the answers of this round and, from a valid state, of earlier rounds.
    pub(super) fn open_round(
        &self,
        method: &str,
        params: &Params<'_>,
        caller: &Caller,
    ) -> Result<Arc<PreviousRounds>, Error> {
        params.check()?;
        let responses: Map<String, Value> = match params.responses {
            Some(responses) => serde_json::from_str(responses.get())
                .map_err(|_| wrong("inputResponses", "must be an object"))?,
            None => Map::new(),
        };
        if let Some((key, _)) = responses.iter().find(|(_, answer)| !answer.is_object()) {
            return Err(wrong(&format!("inputResponses.{key}"), "must be an object"));
        }
        let Some(state) = params.state else {
            let may_come_unasked = |(key, _): &(String, Value)| !key.starts_with(CONFIRMATION);
            let answers = responses.into_iter().filter(may_come_unasked).collect();
            return Ok(Arc::new(PreviousRounds {
                answers,
                ..PreviousRounds::default()
            }));
        };
        let sealed: String = serde_json::from_str(state.get())
            .map_err(|_| wrong("requestState", "must be a string"))?;
        let state = self.open_state(&sealed, identity(method, params), caller);
        let invalid = "does not belong to this client and request, or has expired";
        let state = state.ok_or_else(|| wrong("requestState", invalid))?;
        let mut round = PreviousRounds {
            answers: state.answers,
            memo: state.memo,
            state: state.id,
        };
        let is_asked = |(key, _): &(String, Value)| state.asked.contains(key);
        round.answers.extend(responses.into_iter().filter(is_asked));
        Ok(Arc::new(round))
    }

    /// The `input_required` result with `questions`.
    pub(super) fn input_required(
        &self,
        context: &RequestContext<'_>,
        questions: Questions,
    ) -> Json {
        let method = &context.request.method;
        let round = context.client.round();
        let state = RequestState {
            expires: (unix_time() + ANSWER_TIMEOUT).as_secs(),
            request: identity(method, context.params),
            principal: context.caller().name().map(ToString::to_string),
            view: context.caller().view.as_ref().map(ToString::to_string),
            id: (self.settings.random)().map(|random| format!("{random:032x}")),
            answers: round.map(|round| round.answers.clone()).unwrap_or_default(),
            asked: questions.by_key.keys().cloned().collect(),
            memo: questions.memo,
        };
        let state = json!(state).to_string();
        let state = self.settings.signer.seal(PURPOSE, state.as_bytes());
        json!({"inputRequests": questions.by_key, "requestState": state}).into()
    }

    fn open_state(
        &self,
        sealed: &str,
        request: Option<String>,
        caller: &Caller,
    ) -> Option<RequestState> {
        let payload = self.settings.signer.open(PURPOSE, sealed)?;
        let state: RequestState = serde_json::from_slice(&payload).ok()?;
        let has_expired = state.expires < unix_time().as_secs();
        let is_same = state.request.as_ref()? == &request?
            && state.principal.as_deref() == caller.name().map(|name| &**name)
            && state.view.as_deref() == caller.view.as_deref();
        (is_same && !has_expired).then_some(state)
    }
}

/// Returns a text that identifies the request; `None` if its arguments cannot be read, so that these are not all
/// the same. Computed only for a `requestState`: it costs more than most calls.
fn identity(method: &str, params: &Params<'_>) -> Option<String> {
    let text = |raw: Option<&RawValue>| raw.map_or("", RawValue::get).to_owned();
    let mut arguments: Value = serde_json::from_str(params.arguments().ok()?.get()).ok()?;
    // White space and the order of members may differ when a client builds the request again.
    arguments.sort_all_objects();
    let (name, uri) = (text(params.name), text(params.uri));
    Some(json!([method, name, uri, arguments]).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn identity_of(params: &str) -> Option<String> {
        let params: &RawValue = serde_json::from_str(params).unwrap();
        identity("tools/call", &Params::read(Some(params)))
    }

    #[test]
    fn request_is_told_by_its_arguments_and_none_if_they_cannot_be_read() {
        let one = identity_of(r#"{"name":"x","arguments":{"a":{"b":1,"c":2},"d":3}}"#);
        assert!(one.is_some());
        assert_eq!(
            one,
            identity_of(r#"{"arguments": {"d":3, "a":{"c":2,"b":1}}, "name":"x"}"#)
        );
        assert_ne!(
            one,
            identity_of(r#"{"name":"x","arguments":{"a":{"b":1,"c":3},"d":3}}"#)
        );
        assert_eq!(
            identity_of(r#"{"name":"x"}"#),
            identity_of(r#"{"name":"x","arguments":{}}"#)
        );
        assert_eq!(identity_of(r#"{"name":"x","arguments":{"a":1e999}}"#), None);
        assert_eq!(
            identity_of(r#"{"name":"x","arguments":{"a":"\ud800"}}"#),
            None
        );
    }
}
