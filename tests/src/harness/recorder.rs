//! A client that records what it is told, and accepts all questions.

use std::sync::Arc;

use mcp_client::{Handler, Reply};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

pub(crate) type Messages = mpsc::UnboundedReceiver<(String, Value)>;

/// Records all messages, and accepts all questions.
struct Recorder(mpsc::UnboundedSender<(String, Value)>);

pub(crate) fn recorder() -> (Arc<dyn Handler>, Messages) {
    let (sender, messages) = mpsc::unbounded_channel();
    (Arc::new(Recorder(sender)), messages)
}

/// The answer that accepts a question.
pub(crate) fn accepted(method: &str) -> Value {
    match method {
        "sampling/createMessage" => {
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "yes"}})
        }
        "elicitation/create" => {
            let content = json!({
                "username": "u", "email": "e@x.org", "name": "Ada", "color": "red",
                "step1": "x", "step2": "y", "confirmed": true,
            });
            json!({"action": "accept", "content": content})
        }
        _ => json!({"roots": [{"uri": "file:///r", "name": "r"}]}),
    }
}

impl Handler for Recorder {
    fn notification(&self, method: &str, params: Option<&RawValue>) {
        let params = params.map(|params| serde_json::from_str(params.get()).unwrap());
        let _ = self.0.send((method.to_owned(), params.unwrap_or_default()));
    }

    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        self.notification(method, params);
        let answer = to_raw_value(&accepted(method)).unwrap();
        Box::pin(async move { Ok(answer) })
    }
}
