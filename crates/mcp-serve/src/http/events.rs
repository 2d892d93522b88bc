//! Server-sent events: the stream of one call, and the log from which a lost connection is resumed.

mod log;
mod resume;
mod stream;

pub(super) use resume::{ReplayPolicy, ResumableStreams, lost_request, request_digits};
pub(super) use stream::{EventStream, FirstEvent, InFlightCall, MessageSender, ServerMessage};
