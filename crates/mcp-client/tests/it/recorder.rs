//! A handler that records everything and gives a scripted answer.

use std::sync::{Arc, Mutex};

use mcp_client::{Handler, Reply};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// A record: `notification`, `request`, `stderr` or `renewed`; the method or line; the parameters.
pub(crate) type Seen = (&'static str, String, Value);

pub(crate) struct Recorder {
    seen: mpsc::UnboundedSender<Seen>,
    answer: Mutex<Option<Value>>,
}

/// A handler that answers all requests with `answer`, or never.
pub(crate) fn recorder(answer: Option<Value>) -> (Arc<Recorder>, mpsc::UnboundedReceiver<Seen>) {
    let (seen, all) = mpsc::unbounded_channel();
    let answer = Mutex::new(answer);
    (Arc::new(Recorder { seen, answer }), all)
}

impl Recorder {
    fn record(&self, kind: &'static str, what: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self
            .seen
            .send((kind, what.to_owned(), params.unwrap_or_default()));
    }
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        self.record("notification", method, params);
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        self.record("request", method, params);
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Some(answer) => Ok(serde_json::value::to_raw_value(&answer).unwrap()),
                None => std::future::pending().await,
            }
        })
    }

    fn stderr(&self, _peer: &str, line: &str) {
        self.record("stderr", line, None);
    }

    fn session_renewed(&self, server: &mcp_client::ServerInfo) {
        self.record("renewed", &server.protocol_version, None);
    }
}
