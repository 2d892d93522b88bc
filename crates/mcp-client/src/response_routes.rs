//! Routes the messages that belong to one request to their receivers.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::{CallerId, Handler, Options, Progress, meta};

/// The receivers of one request.
#[derive(Default)]
pub(crate) struct ResponseRoutes {
    pub(crate) handler: Option<Arc<dyn Handler>>,
    pub(crate) caller: Option<CallerId>,
    progress: Option<mpsc::Sender<Progress>>,
    /// The JSON of the caller's progress token.
    token: Option<String>,
    /// Set for a subscription: receives the server's acknowledgement.
    acknowledged: Option<mpsc::Sender<Option<Box<RawValue>>>>,
}

impl ResponseRoutes {
    pub(crate) fn new(options: &Options, token: Option<String>) -> Self {
        Self {
            handler: options.handler.clone(),
            caller: options.caller.clone(),
            progress: options.progress.clone(),
            token,
            acknowledged: None,
        }
    }

    /// The routes of a subscription, whose response is its end.
    pub(crate) fn subscription(acknowledged: mpsc::Sender<Option<Box<RawValue>>>) -> Self {
        Self {
            acknowledged: Some(acknowledged),
            ..Self::default()
        }
    }

    /// Returns true if progress, log messages or questions have a receiver.
    pub(crate) fn receives_messages(&self) -> bool {
        self.handler.is_some() || self.progress.is_some()
    }

    pub(crate) fn is_subscription(&self) -> bool {
        self.acknowledged.is_some()
    }

    /// Handles the acknowledgement of a subscription.
    pub(crate) fn acknowledge(&self, accepted: Option<&RawValue>) {
        if let Some(acknowledged) = &self.acknowledged {
            // Only the first one counts.
            let _ = acknowledged.try_send(accepted.map(RawValue::to_owned));
        }
    }

    /// Forwards a progress report. Dropped if the channel is full: the response matters more.
    pub(crate) fn report(&self, params: &RawValue) {
        if let Some(reports) = &self.progress
            && let Ok(report) = serde_json::from_str::<Progress>(params.get())
        {
            let _ = reports.try_send(Progress {
                raw: params.to_owned(),
                ..report
            });
        }
        if let (Some(handler), Some(token)) = (&self.handler, &self.token)
            && let Some(params) = meta::with_token(params, token)
        {
            handler.notification("notifications/progress", Some(&params));
        }
    }
}

/// The id of the request that a progress report belongs to.
pub(crate) fn progress_token(params: Option<&RawValue>) -> Option<u64> {
    #[derive(Deserialize)]
    struct About {
        #[serde(rename = "progressToken")]
        token: u64,
    }
    let about: About = serde_json::from_str(params?.get()).ok()?;
    Some(about.token)
}

/// The id of the request that opened a subscription.
pub(crate) fn subscription_id(params: Option<&RawValue>) -> Option<u64> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
        id: u64,
    }
    let params: Params = serde_json::from_str(params?.get()).ok()?;
    Some(params.meta.id)
}

/// The JSON of the id in a cancellation.
pub(crate) fn cancelled_id(params: Option<&RawValue>) -> Option<&str> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let cancelled: Cancelled<'_> = serde_json::from_str(params?.get()).ok()?;
    Some(cancelled.id.get())
}
