//! Errors of other servers, in numbers that the client's era allows.

use crate::era::Era;
use crate::jsonrpc::{
    ErrorObject, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR,
};

/// 2026-07-28 has given up the number for a missing resource, and the earlier revisions do not know
/// those that it has added.
pub(super) fn render(error: &ErrorObject, era: Era) -> ErrorObject {
    let code = match (error.code, era) {
        (-32002, Era::Modern) => INVALID_PARAMS,
        (-32029..=-32020, Era::Plain | Era::Handshake(_)) => INTERNAL_ERROR,
        (code, _) => code,
    };
    ErrorObject {
        code,
        ..error.clone()
    }
}

/// The HTTP status that the specification's table gives the code.
pub(super) fn modern_status(error: &ErrorObject) -> u16 {
    match error.code {
        METHOD_NOT_FOUND => 404,
        PARSE_ERROR | INVALID_REQUEST | -32029..=-32020 => 400,
        _ => 200,
    }
}
