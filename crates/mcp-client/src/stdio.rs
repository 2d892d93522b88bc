//! The stdio transport: a child process with one JSON-RPC message per line on stdin and stdout.

use std::collections::HashMap;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mcp_core::jsonrpc::{Fault, Frame, Message, Notification, Request, ResponseIn};
use parking_lot::Mutex;
use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt, BufReader,
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::Error;
use crate::error::{StartError, unreadable_answer};
use crate::inbound::{Inbound, Outcome, cancelled_id, outcome};
use crate::message::{HeaderList, MAX_MESSAGE, Outgoing};
pub use crate::stdio::command::Command;

mod command;

/// Capacity of the send queue, in messages.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Timeout of waiting for a slot in the send queue.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A stdio transport to a child process, or another one with two directions.
pub(crate) struct Stdio {
    /// False for HTTP+SSE.
    pub(crate) is_child: bool,
    pending: Arc<Pending>,
    writer: mpsc::Sender<Queued>,
    /// Cancelled to end the child.
    stop: CancellationToken,
    /// Cancelled when the child has ended.
    ended: CancellationToken,
    /// The task that owns everything that belongs to the child.
    _supervisor: AbortOnDropHandle<()>,
}

/// A message that waits to be sent, with its id if it is a request, and the headers of its POST over HTTP+SSE; a child gets
/// none.
pub(crate) type Queued = (Option<u64>, String, HeaderList);

/// A message that is no request.
fn other(message: String) -> Queued {
    (None, message, HeaderList::new())
}

/// The ends of a connection that its task owns.
pub(crate) struct Connected {
    pub(crate) reader: Reader,
    /// The messages to send.
    pub(crate) queue: mpsc::Receiver<Queued>,
    /// Cancelled to end the connection.
    pub(crate) stop: CancellationToken,
    /// Cancelled by the task when the connection has ended.
    pub(crate) ended: CancellationToken,
}

fn runtime() -> Result<Handle, Error> {
    let missing = |_| Error::Invalid("a connection needs a Tokio runtime".to_owned());
    Handle::try_current().map_err(missing)
}

impl Stdio {
    pub(crate) fn spawn(command: Command, inbound: Arc<Inbound>) -> Result<Self, Error> {
        let peer = command.name();
        // `spawn` needs one, too.
        runtime()?;
        let child = ChildProcess::spawn(&command).map_err(|error| match command.fault(&error) {
            Some(fault) => Error::unreachable(&peer, StartError(fault)),
            None => Error::unreachable(&peer, error),
        })?;
        Self::start(peer, true, inbound, |it| supervise(child, it))
    }

    /// Starts the task that owns the connection.
    pub(crate) fn start<F>(
        peer: Arc<str>,
        is_child: bool,
        inbound: Arc<Inbound>,
        run: impl FnOnce(Connected) -> F,
    ) -> Result<Self, Error>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime()?;
        let pending = Arc::new(Pending::new(peer));
        let (writer, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let reader = Reader {
            pending: pending.clone(),
            inbound,
            // Weak, so that the queue closes although the reader still runs.
            writer: writer.downgrade(),
        };
        let life = run(Connected {
            reader,
            queue,
            stop: stop.clone(),
            ended: ended.clone(),
        });
        Ok(Self {
            is_child,
            pending,
            writer,
            stop,
            ended,
            _supervisor: AbortOnDropHandle::new(runtime.spawn(life)),
        })
    }

    pub(crate) fn peer(&self) -> &Arc<str> {
        &self.pending.peer
    }

    pub(crate) async fn exchange(&self, request: Outgoing<'_>) -> Outcome {
        let outcome = self.pending.register(request.id)?;
        let queued = (Some(request.id), request.body, request.headers);
        self.send(queued).await?;
        let ended = |_| Err(self.pending.closed("the connection was dropped"));
        outcome.await.unwrap_or_else(ended)
    }

    pub(crate) async fn send(&self, message: Queued) -> Result<(), Error> {
        let sent = self.writer.send_timeout(message, BUSY_TIMEOUT).await;
        sent.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => Error::Busy {
                peer: self.pending.peer.clone(),
            },
            SendTimeoutError::Closed(_) => {
                let reason = self.pending.end();
                self.pending
                    .unreachable(reason.as_deref().unwrap_or("it is shutting down"))
            }
        })
    }

    /// Sends a cancellation in the background if the queue is full: many calls may time out at the same moment.
    pub(crate) fn cancel(&self, message: String) {
        let Err(TrySendError::Full(message)) = self.writer.try_send(other(message)) else {
            return;
        };
        let (writer, peer) = (self.writer.clone(), Arc::clone(self.peer()));
        let send = async move {
            if writer.send_timeout(message, BUSY_TIMEOUT).await.is_err() {
                tracing::debug!(%peer, "cancellation not delivered");
            }
        };
        if let Ok(runtime) = runtime() {
            runtime.spawn(send);
        }
    }

    pub(crate) async fn closed(&self) -> String {
        self.ended.cancelled().await;
        self.pending.end().unwrap_or_default()
    }

    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

/// All pending requests of a child.
pub(crate) struct Pending {
    peer: Arc<str>,
    /// The requests by id, or the reason why the child is gone.
    requests: Mutex<Result<HashMap<u64, oneshot::Sender<Outcome>>, String>>,
}

impl Pending {
    pub(super) fn new(peer: Arc<str>) -> Self {
        Self {
            peer,
            requests: Mutex::new(Ok(HashMap::new())),
        }
    }

    /// Registers a request, before it is sent. An error if the child is gone.
    pub(super) fn register(&self, id: u64) -> Result<oneshot::Receiver<Outcome>, Error> {
        let (sender, outcome) = oneshot::channel();
        match &mut *self.requests.lock() {
            Ok(requests) => {
                // Requests that nobody waits for any more are forgotten.
                requests.retain(|_, waiting| !waiting.is_closed());
                requests.insert(id, sender);
            }
            Err(reason) => return Err(self.unreachable(reason)),
        }
        Ok(outcome)
    }

    /// Passes an outcome to its request; returns false if no request has this id.
    pub(crate) fn resolve(&self, id: u64, outcome: Outcome) -> bool {
        let waiting = match &mut *self.requests.lock() {
            Ok(requests) => requests.remove(&id),
            Err(_) => None,
        };
        waiting.is_some_and(|waiting| waiting.send(outcome).is_ok())
    }

    /// The reason why the child is gone.
    pub(super) fn end(&self) -> Option<String> {
        self.requests.lock().as_ref().err().cloned()
    }

    /// The error of requests that were in flight when the child ended.
    pub(super) fn closed(&self, reason: &str) -> Error {
        Error::closed(&self.peer, reason)
    }

    /// Fails all pending and later requests. The first reason stays.
    pub(crate) fn close(&self, reason: String) {
        let requests = {
            let mut requests = self.requests.lock();
            if requests.is_err() {
                return;
            }
            std::mem::replace(&mut *requests, Err(reason.clone()))
        };
        for waiting in requests.into_iter().flat_map(HashMap::into_values) {
            // The receiver may be gone by now.
            let _ = waiting.send(Err(self.closed(&reason)));
        }
    }

    /// The error of requests that can no longer be sent.
    pub(super) fn unreachable(&self, reason: &str) -> Error {
        Error::unreachable(&self.peer, reason)
    }
}

/// The kind of content that [`next`] has put into the buffer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// A line, without its end; the last one may lack it.
    Whole,
    /// The beginning of a line that exceeds the limit, one byte longer than it. The next call reads the
    /// rest.
    Part,
    /// Nothing: the stream has ended.
    End,
}

/// Reads the next line into `line`, reusing its allocation.
pub(crate) async fn next(
    reader: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    line.clear();
    // One more byte, for the line end.
    let mut bounded = reader.take(limit as u64 + 1);
    let read = bounded.read_until(b'\n', line).await?;
    if line.pop_if(|last| *last == b'\n').is_some() {
        return Ok(Line::Whole);
    }
    Ok(match read {
        0 => Line::End,
        read if read > limit => Line::Part,
        _ => Line::Whole,
    })
}

/// Limit of one write, in bytes. More messages stay in the queue, which is bounded.
const MAX_WRITE: usize = 64 << 10;

/// Writes messages until the queue is closed, the child stops reading, or `stop`; messages that were
/// queued before `stop` are still written. Then closes the child's stdin.
pub(super) async fn write(
    mut stdin: ChildStdin,
    mut queue: mpsc::Receiver<Queued>,
    stop: CancellationToken,
) {
    let mut bytes = Vec::new();
    loop {
        let mut next = tokio::select! {
            message = queue.recv() => match message {
                None => return,
                message => message,
            },
            () = stop.cancelled(), if !queue.is_closed() => { queue.close(); continue },
        };
        bytes.clear();
        while let Some((_, message, _)) = next {
            add_line(&message, &mut bytes);
            next = match bytes.len() < MAX_WRITE {
                true => queue.try_recv().ok(),
                false => None,
            };
        }
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Adds a message with its line breaks replaced by blanks: raw values keep their line breaks, but here
/// a line break ends a message. Line breaks outside of JSON strings are white space, and within them
/// they are escaped.
fn add_line(message: &str, bytes: &mut Vec<u8>) {
    let is_break = |byte| matches!(byte, b'\n' | b'\r');
    let unbroken = |byte| if is_break(byte) { b' ' } else { byte };
    bytes.extend(message.bytes().map(unbroken));
    bytes.push(b'\n');
}

/// Limit of a line, in bytes. Longer lines are truncated.
const MAX_STDERR_LINE: usize = 4 << 10;
/// Limit of forwarded lines per [`RATE_INTERVAL`]: enough for the stack trace of a crash.
const MAX_LINES_PER_INTERVAL: u32 = 50;
const RATE_INTERVAL: Duration = Duration::from_secs(1);

/// Reads everything, so that the child never blocks, and forwards what is within the rate limit.
pub(super) async fn forward(peer: Arc<str>, inbound: Arc<Inbound>, stderr: impl AsyncRead + Unpin) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    let (mut since, mut count) = (Instant::now(), 0);
    // Whether the next part belongs to a truncated line.
    let mut is_rest = false;
    loop {
        let is_whole = match next(&mut stderr, &mut line, MAX_STDERR_LINE).await {
            Ok(Line::Whole) => true,
            Ok(Line::Part) => false,
            Ok(Line::End) | Err(_) => return,
        };
        if std::mem::replace(&mut is_rest, !is_whole) {
            continue;
        }
        if since.elapsed() >= RATE_INTERVAL {
            (since, count) = (Instant::now(), 0);
        }
        count += 1;
        if count > MAX_LINES_PER_INTERVAL {
            inbound.count(|all| &mut all.stderr_dropped);
            continue;
        }
        line.truncate(MAX_STDERR_LINE);
        let text = String::from_utf8_lossy(&line);
        inbound.handler.stderr(&peer, &text);
    }
}

/// Size of the read buffer, in bytes.
const READ_BUFFER: usize = 64 << 10;
/// Limit of the logged part of an invalid line, in bytes.
const MAX_LOGGED_BYTES: usize = 120;
/// Limit of logged invalid lines per child, so that a child cannot flood the log.
const MAX_WARNINGS: u64 = 20;

/// The reader of a child's stdout, or of the messages that stand for its lines.
pub(crate) struct Reader {
    pub(crate) pending: Arc<Pending>,
    pub(super) inbound: Arc<Inbound>,
    pub(super) writer: mpsc::WeakSender<Queued>,
}

impl Reader {
    /// Reads until the child closes its stdout. Returns the fault of the child, if that was the reason.
    pub(crate) async fn read(&self, stdout: impl AsyncRead + Unpin) -> Option<String> {
        let mut stdout = BufReader::with_capacity(READ_BUFFER, stdout);
        let mut line = Vec::new();
        loop {
            match next(&mut stdout, &mut line, MAX_MESSAGE).await {
                Ok(Line::Whole) => self.receive(&line),
                Ok(Line::Part) => {
                    return Some(format!("it wrote a line of more than {MAX_MESSAGE} bytes"));
                }
                Ok(Line::End) => return None,
                Err(error) => return Some(format!("its output cannot be read: {error}")),
            }
        }
    }

    /// Handles a line. Many servers print a banner on stdout, so invalid lines are skipped; the request that one of
    /// them answers has failed.
    pub(crate) fn receive(&self, line: &[u8]) {
        if let Err(fault) = self.take(line.trim_ascii())
            && self.inbound.count(|all| &mut all.invalid_messages) <= MAX_WARNINGS
        {
            let shown = String::from_utf8_lossy(&line[..line.len().min(MAX_LOGGED_BYTES)]);
            tracing::warn!(peer = %self.pending.peer, %fault, "not a message");
            // It may hold a secret, which the handler hides.
            self.inbound.handler.stderr(&self.pending.peer, &shown);
        }
    }

    fn take(&self, line: &[u8]) -> Result<(), Fault> {
        if line.is_empty() {
            return Ok(());
        }
        let frame = Frame::decode(line).map_err(|error| {
            if let Some((id, fault)) = unreadable_answer(line, &error.fault) {
                let failed = Err(Error::invalid_answer(&self.pending.peer, fault));
                self.inbound.calls.answered(id);
                self.pending.resolve(id, failed);
            }
            error.fault
        })?;
        match frame {
            Frame::Single(message) => self.dispatch(message),
            Frame::Batch(items) => items
                .into_iter()
                .flatten()
                .for_each(|item| self.dispatch(item)),
        }
        Ok(())
    }

    fn dispatch(&self, message: Message<'_>) {
        match message {
            Message::Response(response) => self.on_response(&response),
            Message::Notification(notification) => {
                if notification.method == "notifications/cancelled" {
                    self.end_subscription(&notification);
                }
                self.inbound.unrelated_notification(&notification);
            }
            Message::Request(request) => self.on_request(&request),
        }
    }

    fn on_request(&self, request: &Request<'_>) {
        let writer = self.writer.clone();
        let send = async move |reply: String| {
            // Dropped if the child does not read.
            if let Some(writer) = writer.upgrade() {
                let _ = writer.send_timeout(other(reply), BUSY_TIMEOUT).await;
            }
        };
        let recipient = self.inbound.calls.recipient();
        self.inbound.request(request, recipient, send);
    }

    fn on_response(&self, response: &ResponseIn<'_>) {
        let id = response.id.as_ref();
        let id: Option<u64> = id.and_then(|id| id.as_json().parse().ok());
        let outcome = outcome(response, &self.pending.peer);
        // Before the caller wakes up: the next message may be for another one.
        if let Some(id) = id {
            self.inbound.calls.answered(id);
        }
        if !id.is_some_and(|id| self.pending.resolve(id, outcome)) {
            self.inbound.count(|all| &mut all.unmatched_responses);
            tracing::debug!(peer = %self.pending.peer, "response without a request");
        }
    }

    /// Ends a subscription. In the modern era servers may cancel those, and nothing else.
    fn end_subscription(&self, notification: &Notification<'_>) {
        let id = cancelled_id(notification.params);
        let id = id.and_then(|id| id.parse().ok());
        if let Some(id) = id
            && let Some(routes) = self.inbound.calls.routes(id)
            && routes.is_subscription()
        {
            let ended = self.pending.closed("it ended the subscription");
            self.pending.resolve(id, Err(ended));
        }
    }
}

/// Grace period of a child after its stdin was closed, and again after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The standard streams of a child.
pub(super) type Streams = (ChildStdin, ChildStdout, ChildStderr);

/// A child and its group or job. Dropping it kills all of them.
pub(super) struct ChildProcess {
    process: Box<dyn ChildWrapper>,
    #[cfg(unix)]
    _guard: Option<tokio::process::Child>,
}

/// Waits for the end of its input, gives the group of `$0` the time to end by itself, and kills it.
#[cfg(unix)]
const GUARD: &str = "read _; sleep 2; kill -s KILL -- -$0";

/// Starts a shell that kills the group of a child once this process has been killed, which closes the input of the shell.
/// `None` where there is no shell.
#[cfg(unix)]
fn guard(group: Option<u32>) -> Option<tokio::process::Child> {
    let mut shell = tokio::process::Command::new("/bin/sh");
    shell.args(["-c", GUARD, &group?.to_string()]);
    shell.env_clear().current_dir("/").process_group(0);
    let quiet = std::process::Stdio::null;
    shell.stdin(std::process::Stdio::piped());
    let shell = shell.stdout(quiet()).stderr(quiet()).kill_on_drop(true);
    shell.spawn().ok()
}

impl ChildProcess {
    /// Starts the program in a group or job of its own.
    pub(super) fn spawn(command: &Command) -> io::Result<Self> {
        // Windows itself would not find `npx.cmd` for `npx`.
        let mut process = tokio::process::Command::new(command.find_program()?);
        command.configure(&mut process);
        let mut process = CommandWrap::from(process);
        #[cfg(unix)]
        process.wrap(process_wrap::tokio::ProcessGroup::leader());
        #[cfg(windows)]
        process
            .wrap(process_wrap::tokio::KillOnDrop)
            .wrap(process_wrap::tokio::JobObject);
        let process = process.spawn()?;
        Ok(Self {
            #[cfg(unix)]
            _guard: guard(process.id()),
            process,
        })
    }

    pub(super) fn streams(&mut self) -> Option<Streams> {
        Some((
            self.process.stdin().take()?,
            self.process.stdout().take()?,
            self.process.stderr().take()?,
        ))
    }

    /// Waits for the child itself, not for all that it has started.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.inner_mut().wait().await
    }

    /// Ends the child, whose stdin is being closed: waits, then sends SIGTERM where there are signals,
    /// then kills, with a grace period before each.
    pub(super) async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
            return status;
        }
        #[cfg(unix)]
        {
            let _ = self
                .process
                .signal(nix::sys::signal::Signal::SIGTERM as i32);
            if let Ok(status) = timeout(EXIT_GRACE, self.wait()).await {
                return status;
            }
        }
        self.process.start_kill()?;
        self.wait().await
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may be gone by now. Tokio reaps it.
        let _ = self.process.start_kill();
    }
}

/// Timeout of reading the last output of a child, and of its exit after it has closed stdout.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs until the child and its group are gone.
pub(super) async fn supervise(mut process: ChildProcess, connected: Connected) {
    let Connected {
        reader,
        queue,
        stop,
        ended,
    } = connected;
    let _ended = ended.drop_guard();
    let pending = reader.pending.clone();
    let peer = pending.peer.clone();
    let Some((stdin, stdout, stderr)) = process.streams() else {
        return pending.close("it has no standard streams".to_owned());
    };

    let _writing = spawn(write(stdin, queue, stop.clone()));
    let forwarding = forward(peer.clone(), reader.inbound.clone(), stderr);
    let mut logging = spawn(forwarding);
    let mut reading = spawn(async move { reader.read(stdout).await });

    tokio::select! {
        status = process.wait() => {
            let reason = exit(status);
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            pending.close(reason);
        }
        fault = &mut reading => {
            let reason = match fault.ok().flatten() {
                Some(fault) => fault,
                None => match timeout(DRAIN_TIMEOUT, process.wait()).await {
                    Ok(status) => exit(status),
                    Err(_) => "it closed its output".to_owned(),
                },
            };
            pending.close(reason);
            stop.cancel();
            let _ = process.end().await;
            drop(process);
            let _ = timeout(DRAIN_TIMEOUT, &mut logging).await;
        }
        () = stop.cancelled() => {
            let status = process.end().await;
            drop(process);
            drain_output(&mut reading, &mut logging).await;
            tracing::debug!(peer = %peer, end = exit(status), "child ended");
            pending.close("it was closed".to_owned());
        }
    }
}

fn exit(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => format!("its exit status cannot be read: {error}"),
    }
}

/// Reads the rest of an ended child's output. A process that still holds the pipes has left the group
/// on purpose, and is not waited for.
async fn drain_output(
    reading: &mut AbortOnDropHandle<Option<String>>,
    logging: &mut AbortOnDropHandle<()>,
) {
    let both = async { tokio::join!(reading, logging) };
    let _ = timeout(DRAIN_TIMEOUT, both).await;
}

fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> AbortOnDropHandle<T> {
    AbortOnDropHandle::new(tokio::spawn(work))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::handler::DefaultHandler;
    use crate::inbound::{Recipient, ResponseRoutes};

    #[tokio::test]
    async fn dropped_requests_are_removed() {
        let pending = Pending::new("child".into());
        drop(pending.register(1).unwrap());
        let _waiting = pending.register(2).unwrap();
        let requests = pending.requests.lock();
        assert!(requests.as_ref().unwrap().keys().eq([&2]));
    }

    #[tokio::test(start_paused = true)]
    async fn cancellations_that_find_a_full_queue_are_sent_later() {
        let inbound = Arc::new(Inbound::new(Arc::new(DefaultHandler), Duration::ZERO));
        let (give, taken) = oneshot::channel();
        let run = |connected: Connected| async move { drop(give.send(connected)) };
        let stdio = Stdio::start("p".into(), true, inbound, run).unwrap();
        (0..100).for_each(|n| stdio.cancel(n.to_string()));
        let mut queue = taken.await.ok().unwrap().queue;
        for _ in 0..100 {
            assert!(queue.recv().await.is_some());
        }
    }

    async fn read(input: &str, capacity: usize, limit: usize) -> Vec<(Line, String)> {
        let mut reader = BufReader::with_capacity(capacity, input.as_bytes());
        let mut line = Vec::new();
        let mut lines = Vec::new();
        loop {
            match next(&mut reader, &mut line, limit).await.unwrap() {
                Line::End => return lines,
                kind => lines.push((kind, String::from_utf8(line.clone()).unwrap())),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_whole_or_come_in_parts_with_any_buffer_size() {
        let whole = |line: &str| (Line::Whole, line.to_owned());
        let part = (Line::Part, "abcd".to_owned());
        for capacity in 1..12 {
            let lines = read("ab\n\ncdef\ng", capacity, 4).await;
            assert_eq!(lines, ["ab", "", "cdef", "g"].map(whole), "{capacity}");
            let lines = read("abcdefg\nh\n", capacity, 3).await;
            assert_eq!(
                lines,
                [part.clone(), whole("efg"), whole("h")],
                "{capacity}"
            );
        }
    }

    #[test]
    fn messages_are_one_line_and_keep_their_other_bytes() {
        let mut bytes = b"{}\n".to_vec();
        add_line("{\"n\":1e400,\r\n \"t\":\"a\\nä\"}", &mut bytes);
        let lines = "{}\n{\"n\":1e400,   \"t\":\"a\\nä\"}\n";
        assert_eq!(bytes, lines.as_bytes());
    }

    #[tokio::test]
    async fn any_answer_ends_a_call_that_was_left() {
        for (answer, ends) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, true),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"x":NaN}}"#, true),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, false),
            ("a banner", false),
        ] {
            let inbound = Arc::new(Inbound::new(
                Arc::new(DefaultHandler),
                Duration::from_secs(60),
            ));
            let reader = Reader {
                pending: Arc::new(Pending::new("p".into())),
                inbound: inbound.clone(),
                writer: mpsc::channel(1).0.downgrade(),
            };
            let options = Options::default().handler(Arc::new(DefaultHandler));
            let routes = Arc::new(ResponseRoutes::new(&options, None));
            inbound.calls.enter(7, &routes);
            inbound.calls.abandon(7);
            reader.read(answer.as_bytes()).await;
            let is_over = matches!(inbound.calls.recipient(), Recipient::Client);
            assert_eq!(is_over, ends, "{answer}");
        }
    }
}
