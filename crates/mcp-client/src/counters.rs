//! Counters of server faults that are skipped because they do no harm.

/// Numbers of skipped messages since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Responses without a waiting request: the id is unknown, of the wrong type, already answered, or
    /// that of a cancelled request.
    pub unmatched_responses: u64,
    /// Lines on stdout, or events of a stream, that are not JSON-RPC messages: banners, for example.
    pub invalid_messages: u64,
    /// Lines on stderr that were dropped by the rate limit.
    pub stderr_dropped: u64,
}
