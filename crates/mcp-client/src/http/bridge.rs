//! Passes messages between a client on two streams, such as stdin and stdout, and a server over HTTP.

mod answer;
mod sent;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::sent::{Kind, Sent};
use super::client::HttpClient;
use super::header_params::HeaderParamCache;
use super::session::{Session, SessionHeaders};
use super::{DETACHED_TIMEOUT, Endpoint, HeaderList};
use crate::Error;
use crate::stdio::lines::{self, Line};
use crate::sync::lock;

/// Lines queued for a client that does not read.
const MAX_QUEUED_LINES: usize = 1024;

/// Lines read while an earlier one, such as `initialize`, is being sent.
const MAX_UNSENT_LINES: usize = 64;

/// Timeout of a message without an answer: longer than a restart of the server.
const POST_TIMEOUT: Duration = Duration::from_secs(20);

/// The time that a server has to come back, such as after a restart.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(250);

/// The time that calls have after the end of the input: hosts wait for a second.
const END_TIMEOUT: Duration = Duration::from_millis(900);

/// One client and one server.
struct Bridge {
    client: HttpClient,
    session: Session,
    /// The message `initialize`, which is sent again when the server has forgotten the session.
    handshake: Mutex<Option<Arc<str>>>,
    /// Held while a session is renewed.
    renewing: tokio::sync::Mutex<()>,
    header_params: HeaderParamCache,
    lines: mpsc::Sender<Vec<u8>>,
    calls: TaskTracker,
    ended: CancellationToken,
    /// The requests of the modern era in flight, by id: over HTTP they are cancelled by the end of their stream.
    modern: Mutex<HashMap<String, AbortHandle>>,
    server_stream: Mutex<Option<AbortHandle>>,
}

impl Endpoint {
    /// Passes messages between a client and this server until the input ends or the output is closed: one
    /// message a line, of any era, byte for byte except for line breaks. Opens the server's own stream,
    /// resumes broken streams, and opens a new session when the server has forgotten it. An answer that the
    /// server cannot give becomes an error.
    ///
    /// # Errors
    /// If the input cannot be read, or the TLS configuration cannot be used.
    pub async fn bridge(
        self,
        mut input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), Error> {
        let (lines, queue) = mpsc::channel(MAX_QUEUED_LINES);
        let written = tokio::spawn(write(output, queue));
        let bridge = Arc::new(Bridge {
            client: HttpClient::new(self)?,
            session: Session::default(),
            handshake: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            header_params: HeaderParamCache::default(),
            lines,
            calls: TaskTracker::new(),
            ended: CancellationToken::new(),
            modern: Mutex::default(),
            server_stream: Mutex::default(),
        });
        let read = bridge.pass_on(&mut input).await;
        drop(bridge);
        let _ = timeout(DETACHED_TIMEOUT, written).await;
        read
    }
}

impl Bridge {
    /// Passes messages on until the input ends or the output is closed.
    async fn pass_on(
        self: &Arc<Self>,
        input: &mut (impl AsyncBufRead + Unpin),
    ) -> Result<(), Error> {
        let (queue, mut unsent) = mpsc::channel::<Vec<u8>>(MAX_UNSENT_LINES);
        // One after the other, since a session begins with `initialize`. The end of the input is noticed meanwhile.
        let mut taken = pin!(async {
            while let Some(line) = unsent.recv().await {
                self.take(&line).await;
            }
        });
        let mut is_taken = false;
        let mut reading = pin!(self.read(input, queue));
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = &mut taken, if !is_taken => is_taken = true,
                () = self.lines.closed() => break Ok(()),
            }
        };
        let until = Instant::now() + END_TIMEOUT;
        if !is_taken && !self.lines.is_closed() {
            let _ = timeout_at(until, taken).await;
        }
        self.end(until).await;
        read
    }

    /// Reads lines into the queue until the input ends.
    async fn read(
        &self,
        input: &mut (impl AsyncBufRead + Unpin),
        queue: mpsc::Sender<Vec<u8>>,
    ) -> Result<(), Error> {
        let limit = self.client.max_message();
        let mut line = Vec::new();
        let mut skips = false;
        loop {
            let read = lines::next(input, &mut line, limit).await;
            let read = read.map_err(|error| self.client.closed(&format!("the input: {error}")))?;
            match read {
                Line::End => return Ok(()),
                Line::Part if !skips => {
                    skips = true;
                    let fault = format!("a message is longer than {limit} bytes");
                    let error = self.client.protocol_error(fault);
                    self.write(sent::failure("null", &error)).await;
                }
                Line::Part => {}
                Line::Whole if std::mem::take(&mut skips) || line.trim_ascii().is_empty() => {}
                Line::Whole => {
                    // The other end is open as long as this one.
                    let _ = queue.send(std::mem::take(&mut line)).await;
                }
            }
        }
    }

    /// Passes a message on. Requests are answered by tasks, so that a slow one blocks no other.
    async fn take(self: &Arc<Self>, line: &[u8]) {
        let sent = match Sent::read(line) {
            Ok(sent) => sent,
            Err(answer) => return self.write(answer).await,
        };
        if let Kind::Cancellation(id) = &sent.kind
            && let Some(call) = lock(&self.modern).remove(id)
        {
            return call.abort();
        }
        match &sent.kind {
            Kind::Handshake(_) => {
                *lock(&self.handshake) = Some(Arc::clone(&sent.text));
                self.answer(sent).await;
            }
            Kind::Request(id) => {
                let (id, is_modern) = (id.clone(), sent.version.is_some());
                let bridge = Arc::clone(self);
                let call = self.calls.spawn(bridge.answer_until_end(sent));
                if is_modern {
                    let mut modern = lock(&self.modern);
                    modern.retain(|_, call| !call.is_finished());
                    modern.insert(id, call.abort_handle());
                }
            }
            Kind::Batch(_) => {
                self.calls.spawn(Arc::clone(self).answer_until_end(sent));
            }
            Kind::Initialized => {
                self.post(sent).await;
                let stream = tokio::spawn(Arc::clone(self).follow_server());
                let before = lock(&self.server_stream).replace(stream.abort_handle());
                if let Some(before) = before {
                    before.abort();
                }
            }
            Kind::Other | Kind::Cancellation(_) => self.post(sent).await,
        }
    }

    async fn answer_until_end(self: Arc<Self>, sent: Sent) {
        self.ended.run_until_cancelled(self.answer(sent)).await;
    }

    /// Sends a request and writes its answer.
    async fn answer(&self, sent: Sent) {
        let answered = match self.send(&sent).await {
            Ok(response) => self.response(&sent, response).await,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            tracing::debug!(%error, "a request was not answered");
            for id in sent.ids() {
                self.write(sent::failure(id, &error)).await;
            }
        }
    }

    /// Sends a message without an answer.
    async fn post(&self, sent: Sent) {
        match timeout(POST_TIMEOUT, self.send(&sent)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a message was not delivered"),
            Err(_) => tracing::warn!("a message was not accepted in time"),
        }
    }

    /// Sends a message: again as long as the server is not there, and in a new session if it has forgotten the
    /// old one. Both mean that it has not accepted the message.
    async fn send(&self, sent: &Sent) -> Result<http::Response<super::Body>, Error> {
        let until = Instant::now() + RECONNECT_TIMEOUT;
        let mut is_renewed = false;
        loop {
            let session = match sent.has_session() {
                true => self.session.headers(),
                false => SessionHeaders::default(),
            };
            let headers = sent.headers(&self.header_params);
            let posted = self
                .client
                .post(sent.text.to_string(), headers, &session)
                .await;
            match posted {
                Ok(response) => {
                    if matches!(sent.kind, Kind::Handshake(_)) {
                        self.session.clear();
                        self.session.open(response.headers());
                    }
                    return Ok(response);
                }
                Err(Error::Unreachable { .. }) if Instant::now() < until => {
                    sleep(RECONNECT_INTERVAL).await;
                }
                Err(Error::SessionLost { .. }) if !is_renewed => {
                    is_renewed = true;
                    self.renew(&session).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a session in place of one that the server has forgotten.
    async fn renew(&self, lost: &SessionHeaders) -> Result<(), Error> {
        let _one = self.renewing.lock().await;
        if self.session.headers().id != lost.id {
            return Ok(());
        }
        let handshake = lock(&self.handshake).clone();
        let Some(mut sent) = handshake.and_then(|text| Sent::read(text.as_bytes()).ok()) else {
            return Err(self.client.closed("it does not know the session"));
        };
        sent.is_silent = true;
        // Boxed, since it sends too.
        let response = Box::pin(self.send(&sent)).await?;
        self.response(&sent, response).await?;
        let session = self.session.headers();
        let initialized = sent::INITIALIZED.to_owned();
        self.client
            .post(initialized, HeaderList::new(), &session)
            .await?;
        tracing::info!(peer = %self.client.peer(), "the session was renewed");
        Ok(())
    }

    async fn write(&self, line: Vec<u8>) {
        // The client has gone.
        let _ = self.lines.send(line).await;
    }

    /// Ends the calls, those that run at `until` without an answer, and the session.
    async fn end(&self, until: Instant) {
        self.calls.close();
        let _ = timeout_at(until, self.calls.wait()).await;
        self.ended.cancel();
        if let Some(stream) = lock(&self.server_stream).take() {
            stream.abort();
        }
        let session = self.session.headers();
        if session.id.is_some() {
            let _ = timeout(END_TIMEOUT, self.client.delete(&session)).await;
        }
    }
}

/// Writes lines until there are no more, or the client is gone.
async fn write(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}
