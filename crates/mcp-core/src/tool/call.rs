//! The call of a tool, as the tool sees it.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use smallvec::SmallVec;
use tokio_util::sync::CancellationToken;

use super::client::NoClient;
use super::input_request::check;
use super::{CallClient, ClientCapabilities, ClientFacts, InputRequest, LogLevel, ToolError};

/// The call that a tool works on: its client, its cancellation, and other facts about it.
#[derive(Clone)]
pub struct Call {
    client: Arc<dyn CallClient>,
    /// `None` if the call cannot be cancelled.
    cancelled: Option<CancellationToken>,
    progress: Option<Arc<Progress>>,
    /// Milliseconds on top of the timeout of a call.
    extra_time: Arc<AtomicU64>,
    /// One value of each type. Most calls that are relayed have one.
    extensions: SmallVec<[Arc<dyn Any + Send + Sync>; 2]>,
}

/// The `progressToken` of the request and the last progress that was sent.
struct Progress {
    token: Box<RawValue>,
    /// Bits of an `f64`.
    last: AtomicU64,
}

impl Call {
    /// A call of `client`, which the token `cancelled` cancels.
    pub fn new(
        client: Arc<dyn CallClient>,
        cancelled: impl Into<Option<CancellationToken>>,
    ) -> Self {
        Self {
            client,
            cancelled: cancelled.into(),
            progress: None,
            extra_time: Arc::default(),
            extensions: SmallVec::new(),
        }
    }

    /// Returns the call, which the token `cancelled` cancels.
    #[must_use]
    pub fn with_cancellation(mut self, cancelled: CancellationToken) -> Self {
        self.cancelled = Some(cancelled);
        self
    }

    /// A copy of the call with another cancellation and with its client wrapped by `wrap`.
    pub(crate) fn with_client(
        &self,
        cancelled: CancellationToken,
        wrap: impl FnOnce(Arc<dyn CallClient>) -> Arc<dyn CallClient>,
    ) -> Self {
        Self {
            client: wrap(Arc::clone(&self.client)),
            cancelled: Some(cancelled),
            ..self.clone()
        }
    }

    /// Returns the call, which reports its progress under `token`.
    #[must_use]
    pub(crate) fn with_progress(mut self, token: Box<RawValue>) -> Self {
        let last = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        self.progress = Some(Arc::new(Progress { token, last }));
        self
    }

    /// Returns the call with one more fact about it, for tools that know its type.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(mut self, fact: Arc<T>) -> Self {
        self.extensions.push(fact);
        self
    }

    /// The fact of type `T` about this call, if it has one.
    pub fn extension<T: Any>(&self) -> Option<&T> {
        let mut extensions = self.extensions.iter();
        extensions.find_map(|fact| (**fact).downcast_ref())
    }

    /// Facts about the client.
    pub fn client(&self) -> &ClientFacts {
        self.client.info()
    }

    /// The capabilities that the client has declared.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.client().capabilities
    }

    /// True if the request may be answered with a task (2026-07-28).
    pub fn supports_tasks(&self) -> bool {
        self.client().supports_tasks
    }

    /// Raises the timeout of the call by the time that its arguments ask for, so that the tool's own
    /// bound ends it, and not the server's.
    pub fn extend_timeout(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.extra_time.fetch_max(by, Ordering::Relaxed);
    }

    /// The time that [`Call::extend_timeout`] has added.
    pub(crate) fn extra_time(&self) -> Duration {
        Duration::from_millis(self.extra_time.load(Ordering::Relaxed))
    }

    /// Completes when the call is cancelled. The caller no longer waits for the result, so the tool
    /// should stop its work, or leave it running if it can be found again.
    pub async fn cancelled(&self) {
        match &self.cancelled {
            Some(cancelled) => cancelled.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// True once the call is cancelled.
    pub fn is_cancelled(&self) -> bool {
        let cancelled = self.cancelled.as_ref();
        cancelled.is_some_and(CancellationToken::is_cancelled)
    }

    /// True if the call is cancelled because the server stops. Work that goes on at the service should
    /// then go on: its client finds it after the restart.
    pub fn is_closing(&self) -> bool {
        self.client.is_closing()
    }

    /// Sends a progress notification, if the client asked for progress. In a task, `message` becomes
    /// the status message.
    ///
    /// `done` must increase from call to call, as the specification demands; other values are not
    /// sent. `total` is in the same unit, if it is known.
    ///
    /// ```
    /// # fn import(files: &[&str], call: &mcp_core::tool::Call) {
    /// let total = files.len() as f64;
    /// for (at, file) in files.iter().enumerate() {
    ///     call.progress(at as f64, Some(total), &format!("importing {file}"));
    /// }
    /// # }
    /// ```
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.client.show_status(message);
        let Some(progress) = &self.progress else {
            return;
        };
        let increased = |last: u64| (done > f64::from_bits(last)).then(|| done.to_bits());
        let last = &progress.last;
        let updated = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increased);
        if updated.is_err() {
            return;
        }
        let mut params = json!({"progress": done});
        if !message.is_empty() {
            params["message"] = json!(message);
        }
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        // The token keeps its bytes: a `Value` would change a long number.
        let token = format!(r#"{{"progressToken":{},"#, progress.token);
        self.send("notifications/progress", params, |params| {
            params.replacen('{', &token, 1)
        });
    }

    /// Closes the caller's connection while the call continues, so that a long wait holds none. Does
    /// nothing unless the caller can resume the stream: in sessions over HTTP from 2025-11-25 on.
    pub fn disconnect(&self) {
        self.client.disconnect();
    }

    /// Sends a log message to the client, if it asked for messages of this severity.
    pub fn log(&self, level: LogLevel, logger: &str, data: &Value) {
        let wanted = self.client().log_level;
        if wanted.is_some_and(|wanted| level >= wanted) {
            let params = json!({"level": level, "logger": logger, "data": data});
            self.send("notifications/message", params, |params| params);
        }
    }

    /// Sends a notification about this call, whose encoded parameters `finish` completes.
    fn send(&self, method: &str, mut params: Value, finish: impl FnOnce(String) -> String) {
        if let Some(meta) = &self.client().message_meta {
            params["_meta"] = Value::clone(meta);
        }
        let params = finish(params.to_string());
        self.client.notify(format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#
        ));
    }

    /// Asks the client one question; `key` names it among the questions of this call.
    ///
    /// ```
    /// use mcp_core::tool::{Call, InputRequest, ToolError};
    /// use serde_json::json;
    ///
    /// async fn ask_for_name(call: &Call) -> Result<Option<String>, ToolError> {
    ///     let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    ///     let question = InputRequest::elicit("What is the new workflow's name?", schema);
    ///     let answer = call.ask("name", question).await?;
    ///     Ok(answer["content"]["name"].as_str().map(str::to_owned))
    /// }
    /// ```
    ///
    /// # Errors
    /// The client does not support the question, or does not answer. In the modern era also an error
    /// that ends this round, so the tool must return every error.
    pub async fn ask(&self, key: &str, request: InputRequest) -> Result<Value, ToolError> {
        let mut answers = self.ask_all(vec![(key, request)]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Asks several questions at once. The answers are in the order of the questions; an answer to a form
    /// has content of the requested schema.
    ///
    /// # Errors
    /// As [`Call::ask`].
    pub async fn ask_all(
        &self,
        requests: Vec<(&str, InputRequest)>,
    ) -> Result<Vec<Value>, ToolError> {
        check(self.capabilities(), &requests)?;
        let answers = self.client.ask(&requests).await?;
        for ((key, request), answer) in requests.iter().zip(&answers) {
            request.check_answer(answer).map_err(|fault| {
                let detail = format!("The client's answer to {key:?} is not valid: {fault}.");
                ToolError::invalid_argument(detail)
            })?;
        }
        Ok(answers)
    }

    /// Returns the error with which a call ends to ask its client (2026-07-28, "Multi Round-Trip
    /// Requests"). The next round gets `memo`; the client stores it and can read it, but not change
    /// it.
    ///
    /// # Errors
    /// The client does not support one of the questions.
    pub fn require_input(
        &self,
        requests: &[(&str, InputRequest)],
        memo: Value,
    ) -> Result<ToolError, ToolError> {
        check(self.capabilities(), requests)?;
        let questions = requests.iter();
        let questions = questions.map(|(key, request)| ((*key).to_owned(), request.to_json()));
        Ok(self.client.require_input(Map::from_iter(questions), memo))
    }

    /// True if [`Call::ask`] waits for the answer; false if the call has to end with the question.
    pub fn waits_for_answers(&self) -> bool {
        self.client.waits_for_answers()
    }

    /// True while the call waits for a person.
    pub(crate) fn is_asking(&self) -> bool {
        self.client.is_asking()
    }

    /// Answers the request with a task, in which this call continues ([`TaskSupport::Late`]). Returns
    /// false if the call cannot become a task.
    ///
    /// [`TaskSupport::Late`]: super::TaskSupport::Late
    pub async fn continue_as_task(&self) -> bool {
        self.client.start_task().await
    }
}

/// A call without a client, which is never cancelled.
impl Default for Call {
    fn default() -> Self {
        Self::new(Arc::new(NoClient(ClientFacts::default())), None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>, ClientFacts);

    impl CallClient for Recorder {
        fn info(&self) -> &ClientFacts {
            &self.1
        }

        fn notify(&self, message: String) {
            self.0.lock().unwrap().push(message);
        }
    }

    #[test]
    fn only_increasing_progress_is_sent() {
        let recorder = Arc::new(Recorder::default());
        let token = RawValue::from_string("\"t\"".to_owned()).unwrap();
        let call = Call::new(recorder.clone(), None).with_progress(token);
        for done in [0.0, 1.0, 1.0, 0.5, 2.0] {
            call.progress(done, Some(2.0), "step");
        }
        let sent = recorder.0.lock().unwrap();
        assert_eq!(sent.len(), 3);
        let last: Value = serde_json::from_str(&sent[2]).unwrap();
        let expected =
            json!({"progressToken": "t", "progress": 2.0, "total": 2.0, "message": "step"});
        assert_eq!(last["params"], expected);
    }

    #[test]
    fn extensions_are_found_by_their_type() {
        let call = Call::default().with_extension(Arc::new(7_u8));
        assert_eq!(call.extension::<u8>(), Some(&7));
        assert_eq!(call.extension::<u16>(), None);
    }
}
