//! `logging/setLevel` of the legacy era.

use serde::Deserialize;
use serde_json::json;

use super::context::Context;
use super::outcome::Outcome;
use super::{Receivers, Server};
use crate::error::Error;
use crate::tool::LogLevel;

impl Server {
    pub(super) fn set_log_level(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        #[derive(Deserialize)]
        struct Params {
            level: LogLevel,
        }
        let Params { level } = context.parse("level")?;
        if let Some(connection) = context.connection {
            connection.set_log_level(level);
            // The calls of the session may be at any replica.
            if let Some(forwarding) = context.caller.forwarding() {
                // Of its own, since it may be a part of a batch.
                let (id, level) = (context.id.as_json(), json!({"level": level}));
                let alone = format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{level}}}"#
                );
                forwarding.add(Receivers::All, Some(alone.into_bytes()));
            }
        }
        Ok(json!({}).into())
    }
}
