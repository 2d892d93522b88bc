//! `logging/setLevel` of the legacy era.

use serde::Deserialize;
use serde_json::json;

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
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
        }
        Ok(json!({}).into())
    }
}
