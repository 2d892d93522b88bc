//! One client over stdin and stdout: one message per line, and nothing else on stdout.
//!
//! One thread reads, one thread writes, and calls run concurrently. A call that can be answered at once
//! is answered on the reading thread; any other becomes a task, so that a slow call blocks no other.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mcp_core::era::Era;
use mcp_core::error::{Error, ErrorCodes};
use mcp_core::server::{Caller, Connection, FrameReply, IncomingFrame, Peer, Server};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Lines queued for a client that does not read.
const MAX_QUEUED_LINES: usize = 1024;
/// Bytes of the buffer of each direction.
const BUFFER_BYTES: usize = 64 * 1024;
/// Limit from the end of the input to the end of the process: hosts wait for a second …
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(900);
/// … of which this part is for cancelled calls, and the same again for the last lines.
const CLEANUP_TIMEOUT: Duration = Duration::from_millis(150);

/// A line to write; `None` ends the writer.
type Line = Option<Vec<u8>>;

/// Serves until the end of the input, a broken pipe or `stop`.
pub(crate) async fn serve(
    server: Arc<Server>,
    line_limit: usize,
    view: Option<Arc<str>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (lines, queue) = mpsc::channel(MAX_QUEUED_LINES);
    let broken = stop.clone();
    let open = Arc::clone(&server);
    let (written, all_written) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdout".into())
        .spawn(move || {
            if let Err(error) = write(queue) {
                tracing::info!(%error, "the client has closed stdout");
                broken.cancel();
            }
            let _ = written.send(());
        })?;

    let client = Arc::new(StdioClient {
        server,
        connection: Arc::new(Connection::default()),
        lines,
        calls: TaskTracker::new(),
        cancel: Arc::default(),
        left: Arc::default(),
        name: Arc::from("stdio"),
        view,
    });
    let (calls, cancel) = (client.calls.clone(), client.cancel.clone());
    let left = Arc::clone(&client.left);
    let end = client.lines.clone();
    let watcher = Arc::clone(&client);
    let watch = async move {
        let sender = NotificationSender(watcher.lines.clone());
        let caller = Caller {
            view: watcher.view.clone(),
            ..Caller::default()
        };
        let watch = watcher.server.watch(&watcher.connection, &caller, &sender);
        watch.await;
    };
    let mut watch = Box::pin(watch.fuse());
    // Polled before the first line is read, so that no change is missed that a request causes.
    let _ = (&mut watch).now_or_never();
    let watch = tokio::spawn(watch);
    let (read, all_read) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            if let Err(error) = client.read(line_limit, &runtime) {
                tracing::info!(%error, "cannot read stdin");
            }
            let _ = read.send(());
        })?;

    tokio::select! {
        _ = all_read => {}
        () = stop.cancelled() => {}
    }
    open.close();
    calls.close();
    left.cancel();
    let until = Instant::now() + SHUTDOWN_TIMEOUT;
    if timeout_at(until - 2 * CLEANUP_TIMEOUT, calls.wait())
        .await
        .is_err()
    {
        cancel.cancel();
        let _ = timeout_at(until - CLEANUP_TIMEOUT, calls.wait()).await;
    }
    watch.abort();
    // After a stop signal the reader still owns a sender of the queue, so the queue does not end by itself.
    let _ = timeout_at(until, async {
        let _ = end.send(None).await;
        let _ = all_written.await;
    })
    .await;
    Ok(())
}

struct StdioClient {
    server: Arc<Server>,
    connection: Arc<Connection>,
    lines: mpsc::Sender<Line>,
    calls: TaskTracker,
    cancel: Arc<CancellationToken>,
    /// Cancelled when the client has closed stdin. Calls still have a while to be answered.
    left: Arc<CancellationToken>,
    /// The name of the only client.
    name: Arc<str>,
    /// The view that it uses.
    view: Option<Arc<str>>,
}

impl StdioClient {
    fn read(self: Arc<Self>, limit: usize, runtime: &Handle) -> io::Result<()> {
        // Polling a call may create timers, which need the runtime.
        let _entered = runtime.enter();
        let mut input = BufReader::with_capacity(BUFFER_BYTES, io::stdin());
        loop {
            let mut line = Vec::new();
            let read = input
                .by_ref()
                .take(limit as u64 + 1)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            if read > limit && !line.ends_with(b"\n") {
                input.skip_until(b'\n')?;
                let error = Error::TooLarge(limit);
                let reply = FrameReply::failed("null", Era::Unversioned, &error, ErrorCodes::Spec);
                self.send(reply.into_line().unwrap_or_default());
                continue;
            }
            if !line.trim_ascii().is_empty() {
                self.handle_line(line);
            }
        }
    }

    /// Answers a line, on this thread if the answer is ready at once.
    fn handle_line(self: &Arc<Self>, line: Vec<u8>) {
        let client = Arc::clone(self);
        let mut answer = Box::pin(async move {
            let peer: Arc<dyn Peer> = Arc::new(NotificationSender(client.lines.clone()));
            client
                .server
                .handle(IncomingFrame {
                    frame: &line,
                    headers: None,
                    is_old_transport: false,
                    connection: Some(Arc::clone(&client.connection)),
                    caller: Caller {
                        view: client.view.clone(),
                        cancelled: Some(Arc::clone(&client.cancel)),
                        disconnected: Some(Arc::clone(&client.left)),
                        ..Caller::new(Some(Arc::clone(&client.name)), Some(peer))
                    },
                })
                .await
        });
        // The task polls it again, which registers the task's waker.
        match pin!(&mut answer).now_or_never() {
            Some(answer) => {
                if let Some(line) = answer.into_line() {
                    self.send(line);
                }
            }
            None => {
                let client = Arc::clone(self);
                self.calls.spawn(async move {
                    let answer = answer.await;
                    if let Some(line) = answer.into_line() {
                        let _ = client.lines.send(Some(line)).await;
                    }
                });
            }
        }
    }

    fn send(&self, line: Vec<u8>) {
        // Blocks while the client does not read, so that no more lines are read from it: back pressure.
        let _ = self.lines.blocking_send(Some(line));
    }
}

/// Sends the notifications of running calls; drops them if the queue is full.
struct NotificationSender(mpsc::Sender<Line>);

impl Peer for NotificationSender {
    fn notify(&self, message: String) {
        let _ = self.0.try_send(Some(message.into_bytes()));
    }
}

/// Writes every line of the queue and flushes whenever the queue is empty.
fn write(mut queue: mpsc::Receiver<Line>) -> io::Result<()> {
    let mut output = io::BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    while let Some(line) = queue.blocking_recv() {
        let mut next = Some(line);
        while let Some(line) = next {
            let Some(line) = line else {
                return output.flush();
            };
            output.write_all(&line)?;
            output.write_all(b"\n")?;
            next = queue.try_recv().ok();
        }
        output.flush()?;
    }
    Ok(())
}
