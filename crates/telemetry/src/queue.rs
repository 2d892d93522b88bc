//! The records of ended spans, the spans that wait to be sent, and the durations.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use mcp_core::trace::EndedSpan;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Settings;
use crate::histograms::Histograms;
use crate::protobuf::Writer;
use crate::record::Record;
use crate::span;

/// Limit of records that wait for the thread that exports, which takes them a few times a second.
const MAX_RECORDS: usize = 8_192;

/// Waiting spans, with a limit. A call only adds a record: the thread that exports counts and encodes it.
pub(crate) struct Queue {
    records: Mutex<Vec<Record>>,
    /// Records of calls for which there was no room.
    missed: AtomicU64,
    /// Notified when half of the room for records is taken.
    pub(crate) busy: Notify,
    content: Mutex<Content>,
    max_queued: usize,
    max_batch: usize,
    has_traces: bool,
    /// Notified when a batch is full.
    pub(crate) full: Notify,
}

#[derive(Default)]
struct Content {
    full: VecDeque<Batch>,
    open: Batch,
    queued: usize,
    dropped: u64,
    histograms: Histograms,
    /// The span that is being encoded.
    scratch: Vec<u8>,
}

/// Spans for one request.
#[derive(Default)]
pub(crate) struct Batch {
    /// The field `spans` of a `ScopeSpans`.
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

impl Queue {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            records: Mutex::default(),
            missed: AtomicU64::new(0),
            busy: Notify::new(),
            content: Mutex::default(),
            max_queued: settings.max_queued,
            max_batch: settings.max_batch,
            has_traces: settings.traces.is_some(),
            full: Notify::new(),
        }
    }

    /// Adds a span that has ended.
    pub(crate) fn add(&self, span: &EndedSpan<'_>) {
        let record = Record::from(span);
        let mut records = self.records.lock();
        if records.len() >= MAX_RECORDS {
            self.missed.fetch_add(1, Relaxed);
            return;
        }
        records.push(record);
        let is_busy = records.len() == MAX_RECORDS / 2;
        drop(records);
        if is_busy {
            self.busy.notify_one();
        }
    }

    /// Counts and encodes the records that have been added. `room` is empty memory, before and after.
    pub(crate) fn collect(&self, room: &mut Vec<Record>) {
        mem::swap(&mut *self.records.lock(), room);
        for record in room.drain(..) {
            self.encode(&record.span());
        }
    }

    /// Counts the duration of a span, and encodes it.
    fn encode(&self, span: &EndedSpan<'_>) {
        let mut content = self.content.lock();
        let Content {
            full,
            open,
            queued,
            dropped,
            histograms,
            scratch,
        } = &mut *content;
        let known = histograms.add(span);
        if !self.has_traces || !span.context.is_sampled() {
            return;
        }
        if *queued >= self.max_queued {
            *dropped += 1;
            return;
        }
        *queued += 1;
        scratch.clear();
        span::encode(span, known, &mut Writer(scratch));
        Writer(&mut open.bytes).bytes(span::IN_SCOPE, scratch);
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
        mem::take(&mut self.content.lock().dropped) + self.missed.swap(0, Relaxed)
    }

    /// Writes the durations so far; see [`Histograms::encode`].
    pub(crate) fn encode_histograms(&self, now: u64, writer: &mut Writer<'_>) -> bool {
        self.content.lock().histograms.encode(now, writer)
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
        Queue::new(&settings)
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
        queue.collect(&mut Vec::new());
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
    fn spans_that_are_not_sampled_count_in_durations_only() {
        let queue = queue();
        add(&queue, "00");
        assert!(queue.take(true).is_none());
        let mut encoded = Vec::new();
        assert!(queue.encode_histograms(0, &mut Writer(&mut encoded)));
    }

    #[test]
    fn records_have_a_limit() {
        let queue = queue();
        let context = TraceContext::for_request(None);
        for _ in 0..MAX_RECORDS + 3 {
            queue.add(&EndedSpan {
                context: &context,
                parent: None,
                started: Duration::ZERO,
                took: Duration::ZERO,
                work: SpanWork::Answered(McpRequest::default()),
                error: None,
            });
        }
        assert_eq!(queue.records.lock().len(), MAX_RECORDS);
        assert_eq!(queue.take_dropped(), 3);
        let mut room = Vec::new();
        queue.collect(&mut room);
        assert!(room.is_empty() && queue.records.lock().is_empty());
        assert_eq!(queue.take(false).unwrap().count, 2);
    }
}
