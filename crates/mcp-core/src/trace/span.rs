//! A span that has ended.

use core::net::IpAddr;
use std::time::Duration;

use super::TraceContext;

/// A request that has ended, which this process has answered or sent. It holds no argument and no result.
#[derive(Debug)]
pub struct EndedSpan<'a> {
    /// The span itself.
    pub context: &'a TraceContext,
    /// The id of the span of its caller.
    pub parent: Option<u64>,
    /// Its start, since 1970-01-01.
    pub started: Duration,
    /// From its start to its end.
    pub took: Duration,
    /// The request.
    pub work: SpanWork<'a>,
    /// The reason of its failure; `None` if it succeeded.
    pub error: Option<SpanError>,
}

/// A request that this process has answered or sent.
#[derive(Clone, Copy, Debug)]
pub enum SpanWork<'a> {
    /// A request of MCP that this process has answered.
    Answered(McpRequest<'a>),
    /// A request of MCP that this process has sent, to a server with this address unless it is a child.
    Sent(McpRequest<'a>, Option<PeerAddress<'a>>),
    /// A request of HTTP that this process has sent to its service.
    Http(HttpRequest<'a>),
}

/// A request of MCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct McpRequest<'a> {
    /// Its method, if it is a known one.
    pub method: Option<&'static str>,
    /// The tool that it calls or the prompt that it gets, if it is a known one.
    pub item: Option<&'a str>,
    /// The revision of the protocol, where the peers have agreed on one.
    pub revision: Option<&'static str>,
    /// A number for its session, from which the id of the session cannot be told.
    pub session: Option<u64>,
    /// True between processes on one machine, by stdio.
    pub is_pipe: bool,
}

/// A request of HTTP. Its path is left out: it may hold values of arguments.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// Its method.
    pub method: &'a str,
    /// The server.
    pub peer: PeerAddress<'a>,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
}

/// The address of a server.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress<'a> {
    /// Name or IP address of the host, or the path of a socket.
    pub host: &'a str,
    /// The port; `None` for a socket.
    pub port: Option<u16>,
}

impl PeerAddress<'_> {
    /// True if the server is on this machine: a socket, a pipe or a loopback address.
    pub fn is_local(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let is_loopback = |address: IpAddr| address.is_loopback();
        host.starts_with(['/', '\\'])
            || host.eq_ignore_ascii_case("localhost")
            || host.parse().is_ok_and(is_loopback)
    }
}

/// The reason of a failure, of which there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanError {
    /// The tool answered that it has failed.
    Tool,
    /// A JSON-RPC error with this code.
    Code(i64),
    /// A response of HTTP with this status.
    Status(u16),
    /// It was not answered in time.
    Timeout,
    /// The caller did not wait for the end.
    Cancelled,
    /// The peer could not be reached, or gave no answer that could be read.
    NoAnswer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_local() {
        for (host, expected) in [
            ("/run/docker.sock", true),
            (r"\\.\pipe\docker_engine", true),
            ("LOCALHOST", true),
            ("127.8.0.1", true),
            ("[::1]", true),
            ("", false),
            ("192.168.0.1", false),
            ("127.0.0.1.example.org", false),
            ("localhost.example.org", false),
        ] {
            assert_eq!(
                PeerAddress { host, port: None }.is_local(),
                expected,
                "{host}"
            );
        }
    }
}
