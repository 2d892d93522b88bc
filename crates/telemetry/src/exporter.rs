//! The thread that sends spans and durations to their collectors.

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::OptionFuture;
use mcp_core::metrics::DurationMetric;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, sleep, timeout};

use crate::Settings;
use crate::clock::now;
use crate::collector::{Collector, Sent};
use crate::durations::DurationEncoder;
use crate::envelope::Envelope;
use crate::protobuf::Writer;
use crate::queue::{Batch, Queue};
use crate::settings::Destination;

/// Times that a batch is sent, before its spans count as lost.
const MAX_TRIES: u32 = 5;
/// The first pause before another try; it doubles each time.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause that a collector can ask for.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the last spans when the program stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Reads the durations of the process.
type ReadDurations = Box<dyn Fn() -> Vec<DurationMetric> + Send + Sync>;

/// The thread that exports.
pub struct Exporter {
    durations: Arc<OnceLock<ReadDurations>>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// Sends spans.
struct SpanExport {
    queue: Arc<Queue>,
    collector: Collector,
    envelope: Arc<Envelope>,
    /// The request that is being sent, which a stop interrupts.
    interrupted: Option<Request>,
    lost: u64,
}

/// Sends durations.
struct MetricExport {
    read: Arc<OnceLock<ReadDurations>>,
    encoder: DurationEncoder,
    collector: Collector,
    envelope: Arc<Envelope>,
}

/// Encoded spans, and their number.
#[derive(Clone)]
struct Request {
    body: Bytes,
    count: u64,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(
        queue: Arc<Queue>,
        envelope: Arc<Envelope>,
        settings: Settings,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let durations = Arc::<OnceLock<ReadDurations>>::default();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (delay, interval) = (settings.schedule_delay, settings.metric_interval);
        let collector = |place: Option<Destination>| place.map(Collector::new).transpose();
        let mut spans = collector(settings.traces)?.map(|collector| SpanExport {
            queue,
            collector,
            envelope: Arc::clone(&envelope),
            interrupted: None,
            lost: 0,
        });
        let mut metrics = collector(settings.metrics)?.map(|collector| MetricExport {
            read: Arc::clone(&durations),
            encoder: DurationEncoder::new(now()),
            collector,
            envelope,
        });
        let thread = std::thread::Builder::new().name("telemetry".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                // One does not wait for the other: their collectors fail by themselves.
                let export = async {
                    let spans = OptionFuture::from(spans.as_mut().map(|spans| spans.run(delay)));
                    let metrics = metrics.as_mut().map(|metrics| metrics.run(interval));
                    tokio::join!(spans, OptionFuture::from(metrics))
                };
                tokio::select! {
                    _ = export => {}
                    _ = stopped => {}
                }
                // What waits is sent once, in a time that no operator notices.
                let last = async {
                    let spans = OptionFuture::from(spans.as_mut().map(SpanExport::finish));
                    let metrics = metrics.as_mut().map(MetricExport::export);
                    tokio::join!(spans, OptionFuture::from(metrics))
                };
                let _ = timeout(SHUTDOWN_TIMEOUT, last).await;
                if let Some(spans) = &mut spans {
                    spans.tell_losses();
                }
            });
        })?;
        Ok(Self {
            durations,
            stop,
            thread,
        })
    }

    /// Exports the durations that `read` returns, too. Only the first call has an effect.
    pub fn export_durations(&self, read: impl Fn() -> Vec<DurationMetric> + Send + Sync + 'static) {
        let _ = self.durations.set(Box::new(read));
    }

    /// Sends what waits and ends the thread, within a few seconds.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl SpanExport {
    /// Sends full batches at once, others after a delay.
    async fn run(&mut self, delay: Duration) {
        let mut due = interval_at(Instant::now() + delay, delay);
        let queue = Arc::clone(&self.queue);
        loop {
            let all = tokio::select! {
                () = queue.full.notified() => false,
                _ = due.tick() => true,
            };
            while let Some(batch) = queue.take(false) {
                self.export(batch).await;
            }
            // Once: under load there is always another one that is not full.
            if let Some(batch) = queue.take(all) {
                self.export(batch).await;
            }
        }
    }

    /// Sends what is left, each batch once.
    async fn finish(&mut self) {
        let queue = Arc::clone(&self.queue);
        loop {
            let interrupted = self.interrupted.take();
            let next = interrupted.or_else(|| Some(self.request(queue.take(true)?)));
            let Some(Request { body, count }) = next else {
                return;
            };
            self.lost += count;
            if let Sent::Accepted { rejected } = self.collector.post(body).await {
                self.lost -= count.saturating_sub(rejected);
            }
        }
    }

    /// Sends a batch, with a few tries.
    async fn export(&mut self, batch: Batch) {
        let Request { body, count } = self.interrupted.insert(self.request(batch)).clone();
        let rejected = self.send(body).await;
        self.interrupted = None;
        self.lost += rejected.map_or(count, |rejected| rejected.min(count));
        if rejected.is_some() {
            self.tell_losses();
        }
    }

    fn request(&self, batch: Batch) -> Request {
        Request {
            body: self.envelope.request(batch.bytes),
            count: batch.count as u64,
        }
    }

    /// Sends a request until it is accepted or refused, or for the last time. Returns the number of its spans that
    /// were rejected; `None` if it was not accepted.
    async fn send(&mut self, body: Bytes) -> Option<u64> {
        let mut pause = RETRY_INTERVAL;
        for _ in 1..MAX_TRIES {
            match self.collector.post(body.clone()).await {
                Sent::Accepted { rejected } => return Some(rejected),
                Sent::Refused => return None,
                Sent::TryAgain(after) => {
                    sleep(after.unwrap_or(pause).min(MAX_RETRY_INTERVAL)).await;
                    pause *= 2;
                }
            }
        }
        match self.collector.post(body).await {
            Sent::Accepted { rejected } => Some(rejected),
            Sent::TryAgain(_) | Sent::Refused => None,
        }
    }

    fn tell_losses(&mut self) {
        self.lost += self.queue.take_dropped();
        if self.lost > 0 {
            tracing::warn!("OpenTelemetry: {} spans were not exported", self.lost);
        }
        self.lost = 0;
    }
}

impl MetricExport {
    async fn run(&mut self, interval: Duration) {
        let mut due = interval_at(Instant::now() + interval, interval);
        loop {
            due.tick().await;
            self.export().await;
        }
    }

    /// Sends the durations so far. What fails is a part of the next request.
    async fn export(&mut self) {
        let Some(read) = self.read.get() else { return };
        let mut metrics = vec![0; self.envelope.room()];
        if self
            .encoder
            .encode(now(), &read(), &mut Writer(&mut metrics))
        {
            self.collector.post(self.envelope.request(metrics)).await;
        }
    }
}
