//! The tracer of the process: the clock of spans, the sampler and the queue.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mcp_core::trace::{EndedSpan, TraceContext, Tracer};

use crate::queue::Queue;
use crate::sampler::Sampler;

pub(crate) struct SpanQueue {
    queue: Arc<Queue>,
    sampler: Sampler,
    /// The time since 1970 at `since`, so that spans never go back in time.
    epoch: Duration,
    since: Instant,
}

impl SpanQueue {
    pub(crate) fn new(queue: Arc<Queue>, sampler: Sampler) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            queue,
            sampler,
            epoch: now.unwrap_or_default(),
            since: Instant::now(),
        }
    }
}

impl Tracer for SpanQueue {
    fn now(&self) -> Duration {
        self.epoch + self.since.elapsed()
    }

    fn samples(&self, trace_id: u128, parent: Option<&TraceContext>) -> bool {
        self.sampler.samples(trace_id, parent)
    }

    fn ended(&self, span: &EndedSpan<'_>) {
        self.queue.add(span);
    }
}
