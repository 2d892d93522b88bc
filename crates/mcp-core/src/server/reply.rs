//! What goes back over the transport.

use super::Negotiated;
use crate::jsonrpc::Response;

/// The answer to one frame.
#[derive(Debug)]
pub struct FrameReply {
    /// The HTTP status that the era demands; stdio ignores it.
    pub status: u16,
    /// The encoded response or batch of responses, without a newline; `None` if the frame wanted no
    /// answer.
    pub body: Option<Vec<u8>>,
    /// What `initialize` agreed on, for the transport to remember.
    pub negotiated: Option<Negotiated>,
}

/// The answer to one message.
pub(super) struct MessageReply<'a> {
    pub(super) response: Response<'a>,
    pub(super) status: u16,
    pub(super) succeeded: bool,
    pub(super) negotiated: Option<Negotiated>,
}

impl FrameReply {
    /// The body as one line. Results of services may be spread over several lines; inside of JSON a
    /// line break can only be white space.
    pub fn into_line(self) -> Option<Vec<u8>> {
        let mut line = self.body?;
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        Some(line)
    }

    /// The end of a stream that answers nothing.
    pub fn nothing() -> Self {
        Self::accepted()
    }

    pub(super) fn accepted() -> Self {
        Self {
            status: 202,
            body: None,
            negotiated: None,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a reply is answered once")]
    pub(super) fn single(reply: MessageReply<'_>) -> Self {
        let mut body = Vec::new();
        reply.response.write(&mut body);
        Self {
            status: reply.status,
            body: Some(body),
            negotiated: reply.negotiated,
        }
    }

    pub(super) fn batch<'a>(replies: impl Iterator<Item = MessageReply<'a>>) -> Self {
        let mut body = Vec::new();
        for reply in replies {
            body.push(if body.is_empty() { b'[' } else { b',' });
            reply.response.write(&mut body);
        }
        if body.is_empty() {
            return Self::accepted();
        }
        body.push(b']');
        Self {
            status: 200,
            body: Some(body),
            negotiated: None,
        }
    }
}
