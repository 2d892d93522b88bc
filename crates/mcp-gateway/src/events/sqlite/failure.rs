//! What SQLite's errors mean for the log.

use rusqlite::ErrorCode;

use crate::events::{Failure, Fault};

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Fault::Corrupt,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                Fault::Rejected
            }
            _ => Fault::Unavailable,
        };
        Self {
            fault,
            reason: error.to_string(),
        }
    }
}
