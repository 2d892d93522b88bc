//! Who takes what belongs to one request.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::{Handler, Options, Progress, meta};

/// The receivers of one request.
#[derive(Default)]
pub(crate) struct Sink {
    pub(crate) handler: Option<Arc<dyn Handler>>,
    progress: Option<mpsc::Sender<Progress>>,
    /// The JSON of the progress token that the caller used.
    token: Option<String>,
    /// It listens: told once when the server has agreed to.
    listens: Option<mpsc::Sender<Option<Box<RawValue>>>>,
}

impl Sink {
    pub(crate) fn new(options: &Options, token: Option<String>) -> Self {
        Self {
            handler: options.handler.clone(),
            progress: options.progress.clone(),
            token,
            listens: None,
        }
    }

    /// Of a request whose answer is the end of what it opens.
    pub(crate) fn listening(opened: mpsc::Sender<Option<Box<RawValue>>>) -> Self {
        Self {
            listens: Some(opened),
            ..Self::default()
        }
    }

    pub(crate) fn listens(&self) -> bool {
        self.listens.is_some()
    }

    /// The server has opened what was asked for; `accepted` is what it said about it.
    pub(crate) fn opened(&self, accepted: Option<&RawValue>) {
        if let Some(opened) = &self.listens {
            // Once is enough.
            let _ = opened.try_send(accepted.map(RawValue::to_owned));
        }
    }

    /// Hands a progress report on. A full channel loses it; the answer matters more.
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

/// The request that a progress report is about.
pub(crate) fn progress_token(params: Option<&RawValue>) -> Option<u64> {
    #[derive(Deserialize)]
    struct About {
        #[serde(rename = "progressToken")]
        token: u64,
    }
    let about: About = serde_json::from_str(params?.get()).ok()?;
    Some(about.token)
}

/// The request by which a notification was subscribed to.
pub(crate) fn subscription(params: Option<&RawValue>) -> Option<u64> {
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
