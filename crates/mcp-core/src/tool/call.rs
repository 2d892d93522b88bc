//! The call that a tool is answering, seen from inside the tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::ask::{self, Inputs};
use super::{Capabilities, InputRequest, Level, Origin, Round, Special, ToolError};
use crate::server::Task;

/// Where messages to the caller go while its call is still being answered.
///
/// The transports implement it: an HTTP reply becomes a stream with the first message, stdio writes
/// a line.
pub trait Peer: Send + Sync {
    /// Hands over one encoded notification, without a newline. Never blocks: a peer that does not
    /// read loses notifications, not the call.
    fn notify(&self, message: String);

    /// Closes the connection, but not the call: the caller comes back for the rest. Does nothing
    /// where it could not.
    fn disconnect(&self) {}
}

/// The call that a tool is answering: its cancellation and its way back to the caller.
#[derive(Clone, Default)]
pub struct Call {
    /// `None`: nobody can give it up.
    cancelled: Option<CancellationToken>,
    peer: Option<Arc<dyn Peer>>,
    progress: Option<Arc<Progress>>,
    /// Messages that are less severe are not wanted; `None`: none are.
    log_level: Option<Level>,
    inputs: Inputs,
    /// Who calls, where that is known; what the call leaves behind is for them alone.
    caller: Option<Arc<str>>,
    /// The caller reads no more, which before the modern era gives nothing up.
    left: Option<CancellationToken>,
    /// The client may be answered with a task (2026-07-28).
    knows_tasks: bool,
    /// How the request came; only on servers that pass calls on.
    origin: Option<Arc<Origin>>,
    /// What earlier rounds have left; only in the modern era.
    round: Option<Arc<Round>>,
}

/// The `progressToken` of the request and how far the caller was told we are.
struct Progress {
    token: Box<RawValue>,
    /// Bits of an `f64`.
    last: AtomicU64,
}

impl Call {
    /// A call that ends early when `cancelled` is, and that can speak to `peer`.
    pub fn new(
        cancelled: impl Into<Option<CancellationToken>>,
        peer: Option<Arc<dyn Peer>>,
    ) -> Self {
        Self {
            cancelled: cancelled.into(),
            peer,
            ..Self::default()
        }
    }

    /// The same call of `caller`: a name that no other caller has. `left` is cancelled once nobody
    /// waits for the answer any more.
    #[must_use]
    pub fn of(self, caller: Option<Arc<str>>, left: CancellationToken) -> Self {
        Self {
            caller,
            left: Some(left),
            ..self
        }
    }

    /// A call that can be given up without this one, but is given up with it; and what gives it up.
    pub(crate) fn cancellable(&self) -> (Self, CancellationToken) {
        let token = match &self.cancelled {
            Some(cancelled) => cancelled.child_token(),
            None => CancellationToken::new(),
        };
        let call = Self {
            cancelled: Some(token.clone()),
            ..self.clone()
        };
        (call, token)
    }

    /// The same call, asked to report its progress under `token`.
    #[must_use]
    pub fn with_progress(&self, token: Box<RawValue>) -> Self {
        let last = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        let progress = Some(Arc::new(Progress { token, last }));
        Self {
            progress,
            ..self.clone()
        }
    }

    /// Completes when the caller has given up. A tool that works on after that works for nobody:
    /// it should stop what it started, or let it go on where it has a handle.
    pub async fn cancelled(&self) {
        over(self.cancelled.as_ref()).await;
    }

    /// True once the caller has given up.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
            .as_ref()
            .is_some_and(CancellationToken::is_cancelled)
    }

    /// Tells the caller how far the work is, if it asked to be told.
    ///
    /// `done` must grow from call to call, as the specification demands; a value that does not is
    /// not sent. `total` is in the same unit, where it is known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        if let Inputs::Task(task) = &self.inputs {
            task.say(message);
        }
        let (Some(peer), Some(progress)) = (&self.peer, &self.progress) else {
            return;
        };
        let grows = |last: u64| (done > f64::from_bits(last)).then(|| done.to_bits());
        if progress
            .last
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grows)
            .is_err()
        {
            return;
        }
        let mut params = json!({"progress": done});
        if !message.is_empty() {
            params["message"] = json!(message);
        }
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        self.relate(&mut params);
        // The token goes back as it came: as a `Value`, a long number would be another one.
        let params = params.to_string().replacen(
            '{',
            &format!(r#"{{"progressToken":{},"#, progress.token),
            1,
        );
        peer.notify(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#
        ));
    }

    /// Lets go of the caller's connection while the call goes on, so that a long wait holds none.
    /// Only where the caller knows to come back for the rest, in sessions over HTTP from 2025-11-25
    /// on; elsewhere nothing happens.
    pub fn disconnect(&self) {
        if let Some(peer) = &self.peer {
            peer.disconnect();
        }
    }

    /// Sends a log message to the client, if it asked for messages of this severity.
    pub fn log(&self, level: Level, logger: &str, data: &Value) {
        if self.log_level.is_some_and(|wanted| level >= wanted) {
            let mut params = json!({"level": level, "logger": logger, "data": data});
            self.relate(&mut params);
            self.notify(notification("notifications/message", &params));
        }
    }

    /// What the client says that it can be asked for.
    pub fn capabilities(&self) -> Capabilities {
        self.inputs.capabilities()
    }

    /// Asks the client one question; `key` names it among the questions of this call.
    ///
    /// # Errors
    /// When the client cannot be asked for that, or does not answer. Also, in the modern era, to end
    /// this round: pass every error on.
    pub async fn ask(&self, key: &str, request: InputRequest) -> Result<Value, ToolError> {
        let mut answers = self.ask_all(vec![(key, request)]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Asks several questions at once; the answers come in the order of the questions.
    ///
    /// # Errors
    /// As [`Call::ask`].
    pub async fn ask_all(
        &self,
        requests: Vec<(&str, InputRequest)>,
    ) -> Result<Vec<Value>, ToolError> {
        self.inputs.check(&requests)?;
        match &self.inputs {
            Inputs::Rounds { answers, .. } => Inputs::answered(answers, &requests),
            Inputs::Connection {
                connection,
                is_asking,
            } => {
                is_asking.store(true, Ordering::Relaxed);
                let asked = requests.into_iter().map(|(_, request)| {
                    ask::over(connection, |message| self.notify(message), request)
                });
                let answers = futures_util::future::try_join_all(asked).await;
                is_asking.store(false, Ordering::Relaxed);
                answers
            }
            Inputs::Task(task) => task.ask_all(&requests).await,
            Inputs::Nobody => Ok(Vec::new()),
        }
    }

    /// True while a person is being waited for.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(&self.inputs, Inputs::Connection { is_asking, .. } if is_asking.load(Ordering::Relaxed))
    }

    /// This call as `task` goes on with it: for as long as the task is wanted, not the request. In
    /// the modern era it has no way to its caller but the task.
    pub(crate) fn in_task(&self, task: &Arc<Task>, keeps_peer: bool) -> Self {
        Self {
            cancelled: Some(task.token()),
            peer: self.peer.clone().filter(|_| keeps_peer),
            inputs: Inputs::Task(Arc::clone(task)),
            ..self.clone()
        }
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The same call, which came like this.
    pub(crate) fn with_origin(self, origin: Origin) -> Self {
        Self {
            origin: Some(Arc::new(origin)),
            ..self
        }
    }

    /// How the request came; `None` on servers that pass nothing on.
    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    pub(crate) fn with_round(self, round: Arc<Round>) -> Self {
        Self {
            round: Some(round),
            ..self
        }
    }

    /// What earlier rounds of this call have left, where clients answer by repeating the request.
    pub fn round(&self) -> Option<&Round> {
        self.round.as_deref()
    }

    /// True if [`Call::ask`] gives the answer while the call goes on; false if the call has to end
    /// with the question.
    pub fn waits_for_answers(&self) -> bool {
        self.inputs.waits()
    }

    /// The error by which a call ends to ask its client. `memo` is there in its next [`Round`]; it
    /// travels through the client, who can read it but not change it.
    ///
    /// # Errors
    /// When the client cannot be asked for that.
    pub fn ask_later(
        &self,
        requests: &[(&str, InputRequest)],
        memo: Value,
    ) -> Result<ToolError, ToolError> {
        self.inputs.check(requests)?;
        let questions = requests
            .iter()
            .map(|(key, request)| ((*key).to_owned(), request.to_json()))
            .collect();
        Ok(ToolError::special(
            "The client must answer first.",
            Special::InputRequired { questions, memo },
        ))
    }

    /// Has the request answered with a task, in which this call goes on ([`TaskSupport::Late`]).
    /// False if it is none that can.
    ///
    /// [`TaskSupport::Late`]: super::TaskSupport::Late
    pub async fn go_on_as_task(&self) -> bool {
        match &self.inputs {
            Inputs::Task(task) => {
                task.ask_out().await;
                true
            }
            _ => false,
        }
    }

    /// The least severe log message that the client wants; `None`: none.
    pub fn log_level(&self) -> Option<Level> {
        self.log_level
    }

    /// True if the request may be answered with a task (2026-07-28).
    pub fn knows_tasks(&self) -> bool {
        self.knows_tasks
    }

    /// Who calls, where that is known: a name that no other caller has.
    pub fn caller(&self) -> Option<&Arc<str>> {
        self.caller.as_ref()
    }

    pub(crate) fn with_tasks(self, knows_tasks: bool) -> Self {
        Self {
            knows_tasks,
            ..self
        }
    }

    /// Completes when nobody waits for the answer any more.
    pub(crate) async fn left(&self) {
        over(self.left.as_ref()).await;
    }

    /// True if a message has a way to the caller.
    pub(crate) fn can_speak(&self) -> bool {
        self.peer.is_some()
    }

    /// Messages of a task say so (2025-11-25, "Related Task Metadata").
    fn relate(&self, params: &mut Value) {
        if let Inputs::Task(task) = &self.inputs {
            params["_meta"] = task.related();
        }
    }

    pub(crate) fn with_inputs(self, inputs: Inputs) -> Self {
        Self { inputs, ..self }
    }

    pub(crate) fn with_log_level(self, log_level: Option<Level>) -> Self {
        Self { log_level, ..self }
    }

    /// Sends an encoded notification; false if this call has no way back to its caller.
    pub(crate) fn notify(&self, message: String) -> bool {
        let Some(peer) = &self.peer else { return false };
        peer.notify(message);
        true
    }
}

/// Completes once `token` is cancelled: never, where there is none.
async fn over(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

fn notification(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);
    impl Peer for Recorder {
        fn notify(&self, message: String) {
            self.0.lock().unwrap().push(message);
        }
    }

    #[test]
    fn progress_only_grows() {
        let recorder = Arc::new(Recorder::default());
        let token = RawValue::from_string("\"t\"".to_owned()).unwrap();
        let call = Call::new(CancellationToken::new(), Some(recorder.clone())).with_progress(token);
        for done in [0.0, 1.0, 1.0, 0.5, 2.0] {
            call.progress(done, Some(2.0), "step");
        }
        let sent = recorder.0.lock().unwrap();
        assert_eq!(sent.len(), 3);
        let last: Value = serde_json::from_str(&sent[2]).unwrap();
        assert_eq!(
            last["params"],
            json!({"progressToken": "t", "progress": 2.0, "total": 2.0, "message": "step"})
        );
    }
}
