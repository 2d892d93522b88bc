//! The call that a tool is answering, seen from inside the tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Where messages to the caller go while its call is still being answered.
///
/// The transports implement it: an HTTP reply becomes a stream with the first message, stdio writes
/// a line.
pub trait Peer: Send + Sync {
    /// Hands over one encoded notification, without a newline. Never blocks: a peer that does not
    /// read loses notifications, not the call.
    fn notify(&self, message: String);
}

/// The call that a tool is answering: its cancellation and its way back to the caller.
#[derive(Clone, Default)]
pub struct Call {
    cancelled: CancellationToken,
    peer: Option<Arc<dyn Peer>>,
    progress: Option<Arc<Progress>>,
}

/// The `progressToken` of the request and how far the caller was told we are.
struct Progress {
    token: Box<RawValue>,
    /// Bits of an `f64`.
    last: AtomicU64,
}

impl Call {
    /// A call that ends early when `cancelled` is, and that can speak to `peer`.
    pub fn new(cancelled: CancellationToken, peer: Option<Arc<dyn Peer>>) -> Self {
        Self {
            cancelled,
            peer,
            progress: None,
        }
    }

    /// A call that can be given up without this one, but is given up with it.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            cancelled: self.cancelled.child_token(),
            ..self.clone()
        }
    }

    /// What gives the call up.
    pub(crate) fn token(&self) -> CancellationToken {
        self.cancelled.clone()
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
        self.cancelled.cancelled().await;
    }

    /// True once the caller has given up.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Tells the caller how far the work is, if it asked to be told.
    ///
    /// `done` must grow from call to call, as the specification demands; a value that does not is
    /// not sent. `total` is in the same unit, where it is known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: &str) {
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
        let mut params =
            json!({"progressToken": progress.token, "progress": done, "message": message});
        if let Some(total) = total {
            params["total"] = json!(total);
        }
        peer.notify(notification("notifications/progress", &params));
    }

    /// Sends an encoded notification; false if this call has no way back to its caller.
    pub(crate) fn notify(&self, message: String) -> bool {
        let Some(peer) = &self.peer else { return false };
        peer.notify(message);
        true
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
