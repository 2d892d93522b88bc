//! JSON-RPC 2.0 as MCP uses it: one message per line, no `Content-Length` framing (seed 002).
//!
//! * [`decode()`] reads one message, [`Frame::decode`] one message or a batch. Both borrow from the
//!   input: ids, params and results stay the exact bytes that the peer sent.
//! * [`Response::write`] writes a response.

mod build;
mod decode;
mod members;
mod message;

pub use build::{ErrorObject, Json, Response};
pub use decode::{DecodeError, Fault, Frame, MAX_BATCH, decode};
pub(crate) use members::Entries;
pub use members::{MAX_NESTING, Members, is_too_deep, member, members, quoted, string};
pub use message::{Id, Message, Notification, Request, ResponseIn};

/// Invalid JSON was received.
pub const PARSE_ERROR: i32 = -32700;
/// The JSON is not a valid request object.
pub const INVALID_REQUEST: i32 = -32600;
/// The method does not exist or is not available.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The method's parameters are invalid.
pub const INVALID_PARAMS: i32 = -32602;
/// An internal error of the server.
pub const INTERNAL_ERROR: i32 = -32603;
