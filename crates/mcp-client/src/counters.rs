//! Counters of server messages that are skipped or refused.

use std::ops::AddAssign;

/// Numbers of skipped and refused messages since the client was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Responses without a waiting request: the id is unknown, of the wrong type, already answered, or
    /// that of a cancelled request.
    pub unmatched_responses: u64,
    /// Lines on stdout, or events of a stream, that are not JSON-RPC messages: banners, for example.
    pub invalid_messages: u64,
    /// Requests of the server that were refused because their caller is not certain.
    pub refused_requests: u64,
    /// Log messages that reached no caller because theirs is not certain.
    pub unattributed_logs: u64,
    /// Lines on stderr that were dropped by the rate limit.
    pub stderr_dropped: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.unmatched_responses += other.unmatched_responses;
        self.invalid_messages += other.invalid_messages;
        self.refused_requests += other.refused_requests;
        self.unattributed_logs += other.unattributed_logs;
        self.stderr_dropped += other.stderr_dropped;
    }
}
