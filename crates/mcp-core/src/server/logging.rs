//! `logging/setLevel` of the legacy era.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::Server;
use super::context::Context;
use super::outcome::Outcome;
use super::params::wrong;
use crate::error::Error;
use crate::tool::LogLevel;

impl Server {
    pub(super) fn set_log_level(&self, context: &Context<'_>) -> Result<Outcome, Error> {
        #[derive(Deserialize)]
        struct Params {
            level: LogLevel,
        }
        let params: Params = serde_json::from_str(context.raw.map_or("{}", RawValue::get))
            .map_err(|error| wrong("level", &error.to_string()))?;
        if let Some(connection) = context.connection {
            connection.set_log_level(params.level);
        }
        Ok(json!({}).into())
    }
}
