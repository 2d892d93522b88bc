//! The thread that sends spans and durations to their collectors.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use mcp_client::Poster;
use tokio::sync::oneshot;
use tokio::time::{Instant, interval_at, sleep, timeout};

use crate::Settings;
use crate::clock::now;
use crate::protobuf::Writer;
use crate::queue::{Batch, Queue};
use crate::settings::Destination;

/// Times that a batch is sent, before its spans count as lost.
const MAX_TRIES: u32 = 5;
/// Interval in which the records of calls are encoded.
const COLLECT_INTERVAL: Duration = Duration::from_millis(100);
/// The first pause before another try; it doubles each time.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause that a collector can ask for.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the last spans when the program stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// The name of the instrumentation scope.
const SCOPE: &str = "mcp-servers";

/// The thread that exports.
pub struct Exporter {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// The state of the thread.
struct Worker {
    queue: Arc<Queue>,
    /// The `Resource` of all requests, encoded.
    resource: Vec<u8>,
    traces: Option<Target>,
    metrics: Option<Target>,
    /// The batch that is being sent, which a stop interrupts.
    interrupted: Option<Batch>,
    lost: u64,
}

/// A collector.
struct Target {
    poster: Poster,
    timeout: Duration,
    /// True if the last request failed. Only a change is logged.
    is_failing: bool,
}

/// The end of one request.
enum Sent {
    Accepted,
    /// It may succeed later, not before this time.
    TryAgain(Option<Duration>),
    Refused,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(queue: Arc<Queue>, settings: Settings) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (delay, interval) = (settings.schedule_delay, settings.metric_interval);
        let collected = Arc::clone(&queue);
        let mut worker = Worker::new(queue, settings)?;
        let thread = std::thread::Builder::new().name("telemetry".into());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = worker.run(delay, interval) => {}
                    () = collect(&collected) => {}
                    _ = stopped => {}
                }
                collected.collect(&mut Vec::new());
                // What waits is sent once, in a time that no operator notices.
                let _ = timeout(SHUTDOWN_TIMEOUT, worker.finish()).await;
                worker.tell_losses();
            });
        })?;
        Ok(Self { stop, thread })
    }

    /// Sends what waits and ends the thread, within a few seconds.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

impl Worker {
    fn new(queue: Arc<Queue>, settings: Settings) -> io::Result<Self> {
        let mut resource = Vec::new();
        for (key, value) in &settings.resource {
            Writer(&mut resource).attribute(1, key, value);
        }
        let target = |destination: Option<Destination>| destination.map(Target::new).transpose();
        Ok(Self {
            queue,
            resource,
            traces: target(settings.traces)?,
            metrics: target(settings.metrics)?,
            interrupted: None,
            lost: 0,
        })
    }

    /// Sends full batches at once, others after a delay, and the durations in an interval.
    async fn run(&mut self, delay: Duration, interval: Duration) {
        let mut spans_due = interval_at(Instant::now() + delay, delay);
        let mut metrics_due = interval_at(Instant::now() + interval, interval);
        let queue = Arc::clone(&self.queue);
        loop {
            let mut all = false;
            tokio::select! {
                () = queue.full.notified() => {}
                _ = spans_due.tick() => all = true,
                _ = metrics_due.tick() => {
                    self.export_metrics().await;
                    continue;
                }
            }
            while let Some(batch) = queue.take(false) {
                self.export(batch).await;
            }
            // Once: under load there is always another one that is not full.
            if let Some(batch) = queue.take(all) {
                self.export(batch).await;
            }
        }
    }

    /// Sends what is left.
    async fn finish(&mut self) {
        let queue = Arc::clone(&self.queue);
        self.export_metrics().await;
        while let Some(batch) = self.interrupted.take().or_else(|| queue.take(true)) {
            let body = self.body(&batch.bytes);
            let Some(target) = &mut self.traces else {
                return;
            };
            self.lost += batch.count as u64;
            if let Sent::Accepted = target.post(body).await {
                self.lost -= batch.count as u64;
            }
        }
    }

    /// Sends a batch, with a few tries.
    async fn export(&mut self, batch: Batch) {
        let (body, count) = (self.body(&batch.bytes), batch.count as u64);
        self.interrupted = Some(batch);
        let is_accepted = self.send(body).await;
        self.interrupted = None;
        if is_accepted {
            self.tell_losses();
        } else {
            self.lost += count;
        }
    }

    /// Sends a request with spans until it is accepted or refused, or for the last time.
    async fn send(&mut self, body: Bytes) -> bool {
        let mut pause = RETRY_INTERVAL;
        for tries in 1..=MAX_TRIES {
            let Some(target) = &mut self.traces else {
                break;
            };
            match target.post(body.clone()).await {
                Sent::Accepted => return true,
                Sent::TryAgain(after) if tries < MAX_TRIES => {
                    sleep(after.unwrap_or(pause).min(MAX_RETRY_INTERVAL)).await;
                    pause *= 2;
                }
                Sent::TryAgain(_) | Sent::Refused => break,
            }
        }
        false
    }

    /// Sends the durations so far. What fails is a part of the next request.
    async fn export_metrics(&mut self) {
        let mut metrics = Vec::new();
        let has_some = self
            .queue
            .encode_histograms(now(), &mut Writer(&mut metrics));
        if !has_some {
            return;
        }
        let body = self.body(&metrics);
        if let Some(target) = &mut self.metrics {
            target.post(body).await;
        }
    }

    /// A request with this content of its scope: `ExportTraceServiceRequest` and `ExportMetricsServiceRequest` have
    /// the same fields around it.
    fn body(&self, content: &[u8]) -> Bytes {
        let mut scope = Vec::new();
        Writer(&mut scope).message(1, |scope| {
            scope.bytes(1, SCOPE.as_bytes());
            scope.bytes(2, env!("CARGO_PKG_VERSION").as_bytes());
        });
        let mut start = Vec::new();
        let mut writer = Writer(&mut start);
        writer.bytes(1, &self.resource);
        writer.start(2, scope.len() + content.len());
        start.extend(scope);
        let len = start.len() + content.len();
        let mut body = Vec::with_capacity(len + 10);
        Writer(&mut body).start(1, len);
        body.extend(start);
        body.extend_from_slice(content);
        body.into()
    }

    fn tell_losses(&mut self) {
        self.lost += self.queue.take_dropped();
        if self.lost > 0 {
            tracing::warn!("OpenTelemetry: {} spans were not exported", self.lost);
        }
        self.lost = 0;
    }
}

impl Target {
    fn new(destination: Destination) -> io::Result<Self> {
        let poster = Poster::new(destination.endpoint, "application/x-protobuf");
        Ok(Self {
            poster: poster.map_err(io::Error::other)?,
            timeout: destination.timeout,
            is_failing: false,
        })
    }

    /// Sends a request. The log tells a first failure, and its end.
    async fn post(&mut self, body: Bytes) -> Sent {
        let answered = timeout(self.timeout, self.poster.post(body)).await;
        let (sent, problem) = match answered {
            Ok(Ok(answer)) => match answer.status {
                200..300 => (Sent::Accepted, None),
                status @ (429 | 502..=504) => {
                    let problem = format!("it answered with status {status}");
                    (Sent::TryAgain(answer.retry_after), Some(problem))
                }
                status => (
                    Sent::Refused,
                    Some(format!("it answered with status {status}")),
                ),
            },
            // Names the address and the kind of failure, and no header.
            Ok(Err(error)) => (Sent::TryAgain(None), Some(error.to_string())),
            Err(_) => (
                Sent::TryAgain(None),
                Some("it did not answer in time".to_owned()),
            ),
        };
        let peer = self.poster.peer();
        match (problem, self.is_failing) {
            (Some(problem), false) => tracing::warn!(
                "OpenTelemetry: cannot export to {peer}: {problem}. Calls are not affected; spans are dropped \
                 when too many wait"
            ),
            (None, true) => tracing::info!("OpenTelemetry: {peer} accepts the export again"),
            _ => {}
        }
        self.is_failing = !matches!(sent, Sent::Accepted);
        sent
    }
}

/// Takes the records of calls, also while a collector does not answer.
async fn collect(queue: &Queue) {
    let mut room = Vec::new();
    loop {
        // A timeout is no failure: the interval is over.
        let _ = timeout(COLLECT_INTERVAL, queue.busy.notified()).await;
        queue.collect(&mut room);
    }
}
