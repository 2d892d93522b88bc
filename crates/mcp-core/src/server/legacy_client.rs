//! The client of a call in the legacy era. A question to it is a request over its connection, and the
//! call waits for the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;

use super::{Caller, Connection};
use crate::tool::{AnswersFuture, Client, ClientInfo, InputRequest, ToolError};

/// A client that stays connected.
pub(super) struct LegacyClient {
    caller: Arc<Caller>,
    connection: Arc<Connection>,
    info: ClientInfo,
    /// True while the call waits for a person, who may take longer than a service.
    is_asking: AtomicBool,
}

impl LegacyClient {
    pub(super) fn new(caller: &Arc<Caller>, connection: &Arc<Connection>) -> Self {
        let info = ClientInfo {
            capabilities: connection.capabilities(),
            log_level: Some(connection.log_level()),
            ..caller.info().clone()
        };
        Self {
            caller: Arc::clone(caller),
            connection: Arc::clone(connection),
            info,
            is_asking: AtomicBool::new(false),
        }
    }
}

impl Client for LegacyClient {
    fn info(&self) -> &ClientInfo {
        &self.info
    }

    fn notify(&self, message: String) {
        self.caller.send(message);
    }

    fn disconnect(&self) {
        self.caller.disconnect();
    }

    fn ask<'a>(&'a self, questions: &'a [(&'a str, InputRequest)]) -> AnswersFuture<'a> {
        Box::pin(async move {
            self.is_asking.store(true, Ordering::Relaxed);
            let send = |message| self.caller.send(message);
            let answers = try_join_all(questions.iter().map(|(_, question)| {
                let (method, params) = (question.method(), question.params());
                self.connection.ask(send, method, params)
            }));
            let answers = answers.await.map_err(ToolError::upstream);
            self.is_asking.store(false, Ordering::Relaxed);
            answers
        })
    }

    fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}
