//! The spans that wait to be sent.

use std::collections::VecDeque;
use std::mem;

use mcp_core::trace::EndedSpan;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Settings;
use crate::known_requests::KnownRequests;
use crate::span;

/// Waiting spans, with a limit. A call encodes its own: to copy it for another thread takes as long.
pub(crate) struct Queue {
    content: Mutex<Content>,
    max_queued: usize,
    max_batch: usize,
    /// The zeros with which a batch begins.
    room: usize,
    /// Notified when a batch is full.
    pub(crate) full: Notify,
}

#[derive(Default)]
struct Content {
    full: VecDeque<Batch>,
    open: Batch,
    queued: usize,
    dropped: u64,
    known: KnownRequests,
}

/// Spans for one request.
#[derive(Default)]
pub(crate) struct Batch {
    /// Room for the fields around it, then the field `spans` of a `ScopeSpans`.
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

impl Queue {
    pub(crate) fn new(settings: &Settings, room: usize) -> Self {
        Self {
            content: Mutex::default(),
            max_queued: settings.max_queued,
            max_batch: settings.max_batch,
            room,
            full: Notify::new(),
        }
    }

    /// Adds a span that has ended, if it is sampled.
    pub(crate) fn add(&self, span: &EndedSpan<'_>) {
        if !span.context.is_sampled() {
            return;
        }
        let mut content = self.content.lock();
        let Content {
            full,
            open,
            queued,
            dropped,
            known,
        } = &mut *content;
        if *queued >= self.max_queued {
            *dropped += 1;
            return;
        }
        *queued += 1;
        if open.bytes.is_empty() {
            open.bytes.resize(self.room, 0);
        }
        span::append(span, known, &mut open.bytes);
        open.count += 1;
        if open.count >= self.max_batch {
            // The next batch will be as long.
            let next = Batch {
                bytes: Vec::with_capacity(open.bytes.len()),
                count: 0,
            };
            full.push_back(mem::replace(open, next));
            drop(content);
            self.full.notify_one();
        }
    }

    /// Takes the oldest batch. Unless `all`, only a full one.
    pub(crate) fn take(&self, all: bool) -> Option<Batch> {
        let mut content = self.content.lock();
        let batch = content.full.pop_front().or_else(|| {
            let is_due = all && content.open.count > 0;
            is_due.then(|| mem::take(&mut content.open))
        })?;
        content.queued -= batch.count;
        Some(batch)
    }

    /// Returns the number of spans that were dropped since the last time.
    pub(crate) fn take_dropped(&self) -> u64 {
        mem::take(&mut self.content.lock().dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_core::trace::{McpRequest, SpanWork, TraceContext, TraceFields};

    use super::*;

    fn queue() -> Queue {
        let settings = Settings::from_variables(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "3"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ]);
        Queue::new(&settings, 100)
    }

    fn add(queue: &Queue, flags: &str) {
        let parent = format!("00-{:032x}-{:016x}-{flags}", 1, 1);
        let context = TraceContext::parse(TraceFields {
            parent: Some(&parent),
            ..TraceFields::default()
        });
        queue.add(&EndedSpan {
            context: &context.unwrap(),
            parent: None,
            started: Duration::ZERO,
            took: Duration::ZERO,
            work: SpanWork::Answered(McpRequest::default()),
            error: None,
        });
    }

    /// A call does not wait for the thread that exports: there is none.
    #[test]
    fn full_queue_drops_and_counts_spans() {
        let queue = queue();
        (0..5).for_each(|_| add(&queue, "01"));
        assert_eq!(queue.take_dropped(), 2);
        assert_eq!(queue.take(false).unwrap().count, 2);
        assert!(queue.take(false).is_none());
        assert_eq!(queue.take(true).unwrap().count, 1);
        assert!(queue.take(true).is_none());
        // There is room again.
        add(&queue, "01");
        assert_eq!(queue.take_dropped(), 0);
    }

    #[test]
    fn spans_that_are_not_sampled_are_left_out() {
        let queue = queue();
        (0..5).for_each(|_| add(&queue, "00"));
        assert!(queue.take(true).is_none());
        assert_eq!(queue.take_dropped(), 0);
    }
}
