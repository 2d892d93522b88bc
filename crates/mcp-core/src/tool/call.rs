//! The call that a tool is answering, seen from inside the tool.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::client::Nobody;
use super::input_request::check;
use super::{Client, ClientCapabilities, ClientInfo, InputRequest, LogLevel, ToolError};

/// The call that a tool is answering: its client, its cancellation, and what else is known about it.
#[derive(Clone)]
pub struct Call {
    client: Arc<dyn Client>,
    /// `None`: nobody can give it up.
    cancelled: Option<CancellationToken>,
    progress: Option<Arc<Progress>>,
    /// One value of each type.
    extensions: Vec<Arc<dyn Any + Send + Sync>>,
}

/// The `progressToken` of the request and how far the caller was told we are.
struct Progress {
    token: Box<RawValue>,
    /// Bits of an `f64`.
    last: AtomicU64,
}

impl Call {
    /// A call of `client` that ends early when `cancelled` is.
    pub fn new(client: Arc<dyn Client>, cancelled: impl Into<Option<CancellationToken>>) -> Self {
        Self {
            client,
            cancelled: cancelled.into(),
            progress: None,
            extensions: Vec::new(),
        }
    }

    /// The same call, which ends early when `cancelled` is.
    #[must_use]
    pub fn with_cancellation(self, cancelled: CancellationToken) -> Self {
        Self {
            cancelled: Some(cancelled),
            ..self
        }
    }

    /// The same call, ended by `cancelled` and made by what `wrap` makes of its client.
    pub(crate) fn moved_to(
        &self,
        cancelled: CancellationToken,
        wrap: impl FnOnce(Arc<dyn Client>) -> Arc<dyn Client>,
    ) -> Self {
        Self {
            client: wrap(Arc::clone(&self.client)),
            cancelled: Some(cancelled),
            ..self.clone()
        }
    }

    /// The same call, asked to report its progress under `token`.
    #[must_use]
    pub(crate) fn with_progress(self, token: Box<RawValue>) -> Self {
        let last = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        let progress = Some(Arc::new(Progress { token, last }));
        Self { progress, ..self }
    }

    /// The same call with one more fact about it, for tools that know its type.
    #[must_use]
    pub fn with_extension<T: Any + Send + Sync>(mut self, fact: Arc<T>) -> Self {
        self.extensions.push(fact);
        self
    }

    /// The fact of type `T` about this call, where it has one.
    pub fn extension<T: Any>(&self) -> Option<&T> {
        let mut extensions = self.extensions.iter();
        extensions.find_map(|fact| (**fact).downcast_ref())
    }

    /// Facts about the client.
    pub fn client(&self) -> &ClientInfo {
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

    /// Completes when the caller has given up. A tool that works on after that works for nobody:
    /// it should stop what it started, or let it go on where it has a handle.
    pub async fn cancelled(&self) {
        match &self.cancelled {
            Some(cancelled) => cancelled.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// True once the caller has given up.
    pub fn is_cancelled(&self) -> bool {
        let cancelled = self.cancelled.as_ref();
        cancelled.is_some_and(CancellationToken::is_cancelled)
    }

    /// Tells the caller how far the work is, if it asked to be told.
    ///
    /// `done` must grow from call to call, as the specification demands; a value that does not is
    /// not sent. `total` is in the same unit, where it is known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
        self.client.show_status(message);
        let Some(progress) = &self.progress else {
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
        // The token goes back as it came: as a `Value`, a long number would be another one.
        let token = format!(r#"{{"progressToken":{},"#, progress.token);
        self.send("notifications/progress", params, |params| {
            params.replacen('{', &token, 1)
        });
    }

    /// Lets go of the caller's connection while the call goes on, so that a long wait holds none.
    /// Only where the caller knows to come back for the rest, in sessions over HTTP from 2025-11-25
    /// on; elsewhere nothing happens.
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
        check(self.capabilities(), &requests)?;
        self.client.ask(&requests).await
    }

    /// The error by which a call ends to ask its client. `memo` is there in its next round; it
    /// travels through the client, who can read it but not change it.
    ///
    /// # Errors
    /// When the client cannot be asked for that.
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

    /// True if [`Call::ask`] gives the answer while the call goes on; false if the call has to end
    /// with the question.
    pub fn waits_for_answers(&self) -> bool {
        self.client.waits_for_answers()
    }

    /// True while a person is being waited for.
    pub(crate) fn is_asking(&self) -> bool {
        self.client.is_asking()
    }

    /// Has the request answered with a task, in which this call goes on ([`TaskSupport::Late`]).
    /// False if it is none that can.
    ///
    /// [`TaskSupport::Late`]: super::TaskSupport::Late
    pub async fn continue_as_task(&self) -> bool {
        self.client.start_task().await
    }
}

/// A call that nobody made and nobody gives up.
impl Default for Call {
    fn default() -> Self {
        Self::new(Arc::new(Nobody(ClientInfo::default())), None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>, ClientInfo);

    impl Client for Recorder {
        fn info(&self) -> &ClientInfo {
            &self.1
        }

        fn notify(&self, message: String) {
            self.0.lock().unwrap().push(message);
        }
    }

    #[test]
    fn progress_only_grows() {
        let recorder = Arc::new(Recorder::default());
        let token = RawValue::from_string("\"t\"".to_owned()).unwrap();
        let call = Call::new(recorder.clone(), None).with_progress(token);
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

    #[test]
    fn extensions_are_found_by_their_type() {
        let call = Call::default().with_extension(Arc::new(7_u8));
        assert_eq!(call.extension::<u8>(), Some(&7));
        assert_eq!(call.extension::<u16>(), None);
    }
}
