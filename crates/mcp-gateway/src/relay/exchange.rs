//! One request of a client, answered by a backend: sent, followed, and asked back as often as the
//! backend wants, whatever the eras of the two.

use std::sync::Arc;
use std::time::Duration;

use mcp_client::Options;
use mcp_core::era::Era;
use mcp_core::jsonrpc::{Members, string};
use mcp_core::server::{Origin, Round};
use mcp_core::tool::{Call, InputRequest, ToolError, ToolErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::during::{During, Question};
use super::parking::{Owner, Parked, Pending};
use super::{Relay, trace};
use crate::backend::Backend;
use crate::events::TraceId;

/// How often a backend may ask back within one call.
const MAX_ROUNDS: usize = 20;
/// The backend's time ends before the client's, so that the error can name it.
const MARGIN: Duration = Duration::from_millis(250);

/// A request on its way to a backend.
pub(super) struct Exchange<'a> {
    pub(super) relay: &'a Relay,
    pub(super) backend: &'a Arc<Backend>,
    pub(super) method: &'static str,
    /// What it is about: a name or a URI.
    pub(super) item: &'a str,
    pub(super) may_repeat: bool,
    pub(super) trace: TraceId,
    pub(super) call: &'a Call,
}

/// What one round of a call leaves for the next. It travels through the client, sealed.
#[derive(Serialize, Deserialize)]
struct Memo {
    /// The questions that were asked.
    keys: Vec<String>,
    /// The name of the request that waits here, where one does.
    parked: Option<String>,
    /// The backend's own `requestState`, where it has one.
    state: Option<String>,
}

/// The key of a question that a backend has asked while it worked.
const QUESTION: &str = "question";

/// A result that is none yet (2026-07-28).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired {
    #[serde(default)]
    input_requests: Map<String, Value>,
    request_state: Option<Box<RawValue>>,
}

impl Exchange<'_> {
    /// Sends the request and returns its result. `params` without what is between the client and the
    /// gateway alone.
    ///
    /// # Errors
    /// What the client is told; also, in the modern era, that it must answer first.
    pub(super) async fn run(&self, mut params: Members) -> Result<Members, ToolError> {
        for ours in ["task", "inputResponses", "requestState"] {
            params.remove(ours);
        }
        let mut under_way = match self.come_back(&mut params)? {
            Some(under_way) => under_way,
            None => self.start(&params)?,
        };
        for _ in 0..MAX_ROUNDS {
            let result = self.follow(under_way).await?;
            if is_kind(&result, "task") {
                // Seldom, and large: not in every call's future.
                return Box::pin(self.see_through(result)).await;
            }
            if !is_kind(&result, "input_required") {
                return Ok(result);
            }
            let asked: InputRequired =
                serde_json::from_str(&result.encode()).map_err(unreadable)?;
            let answers = self.ask(&asked).await?;
            set_answers(&mut params, answers, asked.request_state);
            under_way = self.start(&params)?;
        }
        Err(ToolError::upstream(format!(
            "The backend {} asked back more than {MAX_ROUNDS} times.",
            self.backend.key
        )))
    }

    /// Sends the request.
    fn start(&self, params: &Members) -> Result<UnderWay, ToolError> {
        let params = self.with_log_level(params);
        let during = During::new(self.call.clone(), self.backend.notifications());
        let mut options = Options::default()
            // Here it is known how long it may take, and when a person is waited for.
            .patient()
            .handler(Arc::<During>::clone(&during))
            .traceparent(trace::parent(self.trace));
        if let Some(capabilities) = self.capabilities(&params) {
            options = options.capabilities(capabilities.into());
        }
        let (backend, method, may_repeat) =
            (Arc::clone(self.backend), self.method, self.may_repeat);
        let pending = async move { backend.request(method, &params, options, may_repeat).await };
        Ok(UnderWay {
            pending: Box::pin(pending),
            during,
        })
    }

    /// Goes on with what the client has answered a question of, if this is such a call.
    fn come_back(&self, params: &mut Members) -> Result<Option<UnderWay>, ToolError> {
        let Some(round) = self
            .call
            .extension::<Round>()
            .filter(|round| !round.memo.is_null())
        else {
            return Ok(None);
        };
        let lost = || {
            ToolError::new(
                ToolErrorKind::Conflict,
                "The call that asked for this has ended meanwhile. Look whether it took effect \
                 before you call again.",
            )
        };
        let memo: Memo = serde_json::from_value(round.memo.clone()).map_err(|_| lost())?;
        let answers = memo.keys.into_iter().filter_map(|key| {
            let answer = round.answers.get(&key)?.clone();
            Some((key, answer))
        });
        let mut answers: Map<String, Value> = answers.collect();
        let Some(name) = memo.parked else {
            let state = memo.state.map(RawValue::from_string).transpose();
            set_answers(params, answers, state.map_err(unreadable)?);
            return self.start(params).map(Some);
        };
        let parked = self.relay.parking.take(&name, &self.owner());
        let parked = parked.ok_or_else(lost)?;
        parked.during.go_on(self.call.clone());
        let answer = answers.remove(QUESTION).unwrap_or_default();
        // A backend that has given up the question gives up the call, which is seen there.
        let _ = parked.answer.send(answer);
        Ok(Some(UnderWay {
            pending: parked.pending,
            during: parked.during,
        }))
    }

    /// Waits for the result, the end of the client's patience, or a question that ends its call.
    async fn follow(&self, mut under_way: UnderWay) -> Result<Members, ToolError> {
        let key = self.backend.key.as_str();
        let mut out_of_time = Box::pin(self.out_of_time(Arc::clone(&under_way.during)));
        let result = tokio::select! {
            biased;
            result = &mut under_way.pending => result,
            question = under_way.during.question() => {
                drop(out_of_time);
                return Err(self.park(under_way, question));
            }
            () = self.call.cancelled() => {
                let words = format!("{} was cancelled; the backend {key} was told so.", self.item);
                return Err(ToolError::new(ToolErrorKind::Cancelled, words));
            }
            after = &mut out_of_time => {
                self.backend.was_silent();
                let words = format!(
                    "The backend {key} did not answer within {} s and was told to stop; it may \
                     still take effect.",
                    after.as_secs_f32().round()
                );
                return Err(ToolError::new(ToolErrorKind::Timeout, words));
            }
        };
        let result = result.map_err(|failure| failure.into_tool_error(key))?;
        Members::read(result.get()).ok_or_else(|| {
            ToolError::upstream(format!("The backend {key} answered with no object."))
        })
    }

    /// Ends the call with a question of the backend, which waits for the answer.
    fn park(&self, under_way: UnderWay, question: Question) -> ToolError {
        let Question { request, answer } = question;
        let parked = Parked {
            pending: under_way.pending,
            during: under_way.during,
            answer,
        };
        let Some(name) = self.relay.parking.park(parked, self.owner()) else {
            return too_many();
        };
        let memo = Memo {
            keys: vec![QUESTION.to_owned()],
            parked: Some(name),
            state: None,
        };
        self.ask_later(&[(QUESTION, request)], &memo)
    }

    /// Asks the client what a backend of the modern era wants to know.
    async fn ask(&self, asked: &InputRequired) -> Result<Map<String, Value>, ToolError> {
        let requests = questions(&asked.input_requests, self.backend.key.as_str())?;
        if !self.call.waits_for_answers() {
            let memo = Memo {
                keys: requests.iter().map(|(key, _)| (*key).to_owned()).collect(),
                parked: None,
                state: asked.request_state.as_ref().map(ToString::to_string),
            };
            return Err(self.ask_later(&requests, &memo));
        }
        let keys: Vec<String> = requests.iter().map(|(key, _)| (*key).to_owned()).collect();
        let answers = self.call.ask_all(requests).await?;
        Ok(keys.into_iter().zip(answers).collect())
    }

    fn ask_later(&self, requests: &[(&str, InputRequest)], memo: &Memo) -> ToolError {
        let asked = self.call.ask_later(requests, json!(memo));
        asked.unwrap_or_else(|error| error)
    }

    /// Completes when the backend has had its time, which does not run while a person is asked.
    async fn out_of_time(&self, during: Arc<During>) -> Duration {
        let given = self
            .call
            .extension::<Origin>()
            .map(|origin| origin.patience - MARGIN);
        let own = self.backend.config.timeout;
        let patience = own.into_iter().chain(given).min().unwrap_or(DEFAULT);
        for _ in 0..MAX_ROUNDS {
            tokio::time::sleep(patience).await;
            if !during.is_asking() {
                break;
            }
        }
        patience
    }

    /// What this client can be asked for, without what is between it and the gateway alone.
    fn capabilities(&self, params: &Members) -> Option<Box<RawValue>> {
        let origin = self.call.extension::<Origin>()?;
        let declared = (origin.era == Era::Modern)
            .then(|| {
                let meta = Members::read(params.get("_meta")?)?;
                Members::read(meta.get("io.modelcontextprotocol/clientCapabilities")?)
            })
            .flatten();
        if let Some(mut declared) = declared {
            declared.remove("extensions");
            if self.call.knows_tasks() {
                // Its task becomes one of the gateway's.
                declared.set("extensions", r#"{"io.modelcontextprotocol/tasks":{}}"#);
            }
            return RawValue::from_string(declared.encode()).ok();
        }
        let can = self.call.capabilities();
        let mut declared = Map::new();
        for (name, can) in [
            ("elicitation", can.elicitation),
            ("sampling", can.sampling),
            ("roots", can.roots),
        ] {
            if can {
                declared.insert(name.to_owned(), json!({}));
            }
        }
        to_raw_value(&declared).ok()
    }

    /// A modern backend has to be told which log messages are wanted, where the client has said so in
    /// another way.
    fn with_log_level(&self, params: &Members) -> Members {
        let mut params = params.clone();
        let is_modern =
            (self.call.extension::<Origin>()).is_some_and(|origin| origin.era == Era::Modern);
        let Some(level) = self.call.client().log_level.filter(|_| !is_modern) else {
            return params;
        };
        let meta = params.get("_meta").and_then(Members::read);
        let mut meta = meta.unwrap_or_default();
        let level = json!(level).to_string();
        meta.set("io.modelcontextprotocol/logLevel", &level);
        params.set("_meta", &meta.encode());
        params
    }

    fn owner(&self) -> Owner {
        Owner {
            caller: self.call.client().name.clone(),
            backend: self.backend.key.shared(),
            method: self.method.to_owned(),
            item: self.item.to_owned(),
        }
    }
}

/// Where no client says how long it waits.
const DEFAULT: Duration = Duration::from_secs(30);

/// A request that was sent, and what comes of it.
struct UnderWay {
    pending: Pending,
    during: Arc<During>,
}

/// True for a result of this type (2026-07-28, `resultType`).
pub(super) fn is_kind(result: &Members, kind: &str) -> bool {
    let found = result.get("resultType").and_then(string);
    found.is_some_and(|found| found == kind)
}

/// The questions of a backend, as they can be asked on.
pub(super) fn questions<'a>(
    asked: &'a Map<String, Value>,
    backend: &str,
) -> Result<Vec<(&'a str, InputRequest)>, ToolError> {
    let request = |(key, request): (&'a String, &Value)| {
        let method = request["method"].as_str().unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        let request = InputRequest::imported(method, params).ok_or_else(|| {
            ToolError::upstream(format!(
                "The backend {backend} asks for something that clients are never asked."
            ))
        })?;
        Ok((key.as_str(), request))
    };
    asked.iter().map(request).collect()
}

fn set_answers(params: &mut Members, answers: Map<String, Value>, state: Option<Box<RawValue>>) {
    params.set("inputResponses", &Value::Object(answers).to_string());
    match state {
        Some(state) => params.set("requestState", state.get()),
        None => params.remove("requestState"),
    }
}

fn too_many() -> ToolError {
    ToolError::unavailable("Too many calls wait for answers of their users; try again later.")
}

pub(super) fn unreadable(error: serde_json::Error) -> ToolError {
    ToolError::upstream("The request could not be written as JSON.").caused_by(error)
}
