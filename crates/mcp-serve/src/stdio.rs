//! One client over stdin and stdout: a message a line, and nothing else on stdout.
//!
//! A thread reads, a thread writes, and calls run beside each other. What can be answered at once
//! is answered without a task of its own; the rest becomes one, so that a slow call blocks no
//! other.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use mcp_core::era::Hints;
use mcp_core::server::{Caller, Connection, FrameReply, IncomingFrame, Peer, Server};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Requests that are worked on at the same time; more wait in the pipe.
const IN_FLIGHT: usize = 512;
/// Answers and notifications that wait for a client that does not read.
const QUEUE: usize = 1024;
/// Size of the buffers of both directions, in bytes.
const BUFFER: usize = 64 * 1024;
/// From the end of the input to our own, at the most: a second is what hosts wait …
const END: Duration = Duration::from_millis(900);
/// … of which this much is for calls that are given up, and this much for the last lines.
const CLEAN_UP: Duration = Duration::from_millis(150);

/// A line to write; `None` is the end.
type Line = Option<Vec<u8>>;

/// Serves until the end of the input, a broken pipe or `stop`.
///
/// # Errors
/// When the threads cannot be started.
pub(crate) async fn serve(
    server: Arc<Server>,
    line_limit: usize,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (lines, queue) = mpsc::channel(QUEUE);
    let broken = stop.clone();
    let open = Arc::clone(&server);
    let (written, all_written) = oneshot::channel();
    std::thread::Builder::new()
        .name("stdout".into())
        .spawn(move || {
            if let Err(error) = write(queue) {
                tracing::info!(%error, "the client reads no more");
                broken.cancel();
            }
            let _ = written.send(());
        })?;

    let client = Arc::new(Client {
        server,
        connection: Arc::new(Connection::default()),
        lines,
        calls: TaskTracker::new(),
        give_up: CancellationToken::new(),
        caller: Arc::from("stdio"),
        in_flight: Arc::new(Semaphore::new(IN_FLIGHT)),
    });
    let (calls, give_up) = (client.calls.clone(), client.give_up.clone());
    let end = client.lines.clone();
    let watcher = Arc::clone(&client);
    let watch = tokio::spawn(async move {
        let outbox = Outbox(watcher.lines.clone());
        watcher.server.watch(&watcher.connection, &outbox).await;
    });
    let (read, all_read) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new()
        .name("stdin".into())
        .spawn(move || {
            if let Err(error) = client.read(line_limit, &runtime) {
                tracing::info!(%error, "the client cannot be read");
            }
            let _ = read.send(());
        })?;

    tokio::select! {
        _ = all_read => {}
        () = stop.cancelled() => {}
    }
    open.close();
    calls.close();
    let until = Instant::now() + END;
    if timeout_at(until - 2 * CLEAN_UP, calls.wait())
        .await
        .is_err()
    {
        give_up.cancel();
        let _ = timeout_at(until - CLEAN_UP, calls.wait()).await;
    }
    watch.abort();
    // After a stop the reader still holds on to the queue, which therefore does not end by itself.
    let _ = timeout_at(until, async {
        let _ = end.send(None).await;
        let _ = all_written.await;
    })
    .await;
    Ok(())
}

struct Client {
    server: Arc<Server>,
    connection: Arc<Connection>,
    lines: mpsc::Sender<Line>,
    calls: TaskTracker,
    give_up: CancellationToken,
    /// There is only one.
    caller: Arc<str>,
    in_flight: Arc<Semaphore>,
}

impl Client {
    fn read(self: Arc<Self>, limit: usize, runtime: &Handle) -> io::Result<()> {
        // What is polled here once may make timers, which need to know their runtime.
        let _entered = runtime.enter();
        let mut input = BufReader::with_capacity(BUFFER, io::stdin());
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
                self.send(too_long(limit));
                continue;
            }
            if !line.trim_ascii().is_empty() {
                self.take(line, runtime);
            }
        }
    }

    /// Answers a line, here if that takes no waiting.
    fn take(self: &Arc<Self>, line: Vec<u8>, runtime: &Handle) {
        let Ok(permit) = runtime.block_on(Arc::clone(&self.in_flight).acquire_owned()) else {
            return;
        };
        let client = Arc::clone(self);
        let mut answer = Box::pin(async move {
            let peer: Arc<dyn Peer> = Arc::new(Outbox(client.lines.clone()));
            let answer = client
                .server
                .handle(IncomingFrame {
                    frame: &line,
                    hints: Hints::default(),
                    connection: Some(Arc::clone(&client.connection)),
                    caller: Caller::new(Some(Arc::clone(&client.caller)), Some(peer))
                        .with_cancellation(client.give_up.child_token())
                        .with_disconnect(client.give_up.clone()),
                })
                .await;
            drop(permit);
            answer
        });
        // Polling it again in a task registers that task's waker.
        match pin!(&mut answer).now_or_never() {
            Some(answer) => self.answer(answer),
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

    fn answer(&self, answer: FrameReply) {
        if let Some(line) = answer.into_line() {
            self.send(line);
        }
    }

    fn send(&self, line: Vec<u8>) {
        // Waits while the client does not read: then it is asked for no more lines either.
        let _ = self.lines.blocking_send(Some(line));
    }
}

/// Notifications of running calls. They are dropped rather than waited for.
struct Outbox(mpsc::Sender<Line>);

impl Peer for Outbox {
    fn notify(&self, message: String) {
        let _ = self.0.try_send(Some(message.into_bytes()));
    }
}

/// Writes every line of the queue and flushes whenever the queue is empty.
fn write(mut queue: mpsc::Receiver<Line>) -> io::Result<()> {
    let mut output = io::BufWriter::with_capacity(BUFFER, io::stdout().lock());
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

fn too_long(limit: usize) -> Vec<u8> {
    use mcp_core::era::Era;
    use mcp_core::error::{Error, ErrorCodes};
    use mcp_core::jsonrpc::Response;
    let error = Error::TooLarge(limit).render(Era::Unversioned, ErrorCodes::Spec);
    let mut line = Vec::new();
    Response {
        id: None,
        outcome: Err(error),
    }
    .write(&mut line);
    line
}
