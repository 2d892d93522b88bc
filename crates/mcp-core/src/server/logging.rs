//! `logging/setLevel` of the handshake era.

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Connection, Outcome, Server};
use crate::error::{BadParam, Error};
use crate::tool::Level;

impl Server {
    pub(super) fn set_log_level(
        &self,
        params: Option<&RawValue>,
        connection: Option<&Connection>,
    ) -> Result<Outcome, Error> {
        #[derive(Deserialize)]
        struct Params {
            level: Level,
        }
        let params: Params = serde_json::from_str(params.map_or("{}", RawValue::get))
            .map_err(|error| Error::InvalidParams(BadParam::new("level", error.to_string())))?;
        if let Some(connection) = connection {
            connection.set_log_level(params.level);
        }
        Ok(json!({}).into())
    }
}
