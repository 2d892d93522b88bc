//! Which trace a request belongs to (W3C Trace Context).

use mcp_core::jsonrpc::{Members, string};
use mcp_core::server::Origin;
use mcp_core::tool::Call;

use crate::events::TraceId;
use crate::random;

/// The trace that the client's request says it is part of, in its headers or its `_meta`; a new one
/// where it says nothing that can be read.
pub(super) fn of(call: &Call) -> TraceId {
    let origin = call.extension::<Origin>();
    let in_header = origin.and_then(|origin| origin.traceparent.as_deref().and_then(parse));
    let in_meta = || {
        let meta = origin?.params.get("_meta")?;
        if !meta.contains("traceparent") {
            return None;
        }
        let meta = Members::read(meta)?;
        parse(&string(meta.get("traceparent")?)?)
    };
    in_header.or_else(in_meta).unwrap_or_else(TraceId::random)
}

/// The `traceparent` for a request that is made in the course of this trace.
pub(super) fn parent(trace: TraceId) -> String {
    trace.parent(random::number())
}

/// `00-TRACE-SPAN-FLAGS`.
fn parse(traceparent: &str) -> Option<TraceId> {
    let mut parts = traceparent.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let is_legal = version.len() == 2 && version != "ff" && trace.len() == 32;
    is_legal.then(|| TraceId::parse(trace)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_goes_on() {
        let trace = parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        assert!(
            trace
                .parent(1)
                .contains("-4bf92f3577b34da6a3ce929d0e0e4736-")
        );
        assert_eq!(parse(&parent(trace)), Some(trace));
        for bad in [
            "",
            "00-0-0-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
