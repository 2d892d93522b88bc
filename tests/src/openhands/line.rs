//! A line between our server and the agent server that notes what is asked, and can be cut.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::harness::real::OpenHands;

/// What the request for an event socket begins with.
const SOCKET: &str = "GET /sockets/";

/// Ends with the test.
pub(super) struct Line {
    /// The agent server, through the line.
    pub(super) real: OpenHands,
    state: Arc<State>,
}

struct State {
    is_cut: watch::Sender<bool>,
    sockets: watch::Sender<Sockets>,
    /// Answers requests for event sockets itself: there are none.
    refuses_sockets: bool,
    /// The first lines of requests, and when they came.
    asked: Mutex<Vec<(String, Instant)>>,
}

/// Event sockets that went through.
#[derive(Clone, Copy, Default)]
pub(super) struct Sockets {
    pub(super) open: usize,
    /// Open at the same time.
    pub(super) most: usize,
    pub(super) ever: usize,
}

impl Line {
    pub(super) async fn to(real: OpenHands) -> Self {
        Self::start(real, false).await
    }

    /// One through which no event socket goes.
    pub(super) async fn without_sockets(real: OpenHands) -> Self {
        Self::start(real, true).await
    }

    async fn start(real: OpenHands, refuses_sockets: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = real.url.trim_start_matches("http://").to_owned();
        let state = Arc::new(State {
            is_cut: watch::Sender::new(false),
            sockets: watch::Sender::default(),
            refuses_sockets,
            asked: Mutex::default(),
        });
        let line = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if *line.is_cut.borrow() {
                    continue;
                }
                let (target, line) = (target.clone(), Arc::clone(&line));
                tokio::spawn(async move {
                    let far = TcpStream::connect(target).await.unwrap();
                    let mut cut = line.is_cut.subscribe();
                    tokio::select! {
                        () = carry(near, far, &line) => {}
                        _ = cut.wait_for(|cut| *cut) => {}
                    }
                });
            }
        });
        let real = OpenHands { url, ..real };
        Self { real, state }
    }

    pub(super) fn cut(&self) {
        self.state.is_cut.send_replace(true);
    }

    pub(super) fn mend(&self) {
        self.state.is_cut.send_replace(false);
    }

    /// When something was asked for that begins with `what`.
    pub(super) fn asked(&self, what: &str) -> Vec<Instant> {
        let asked = self.state.asked.lock().unwrap();
        let asked = asked.iter().filter(|(first, _)| first.starts_with(what));
        asked.map(|(_, when)| *when).collect()
    }

    /// Waits until this holds of the event sockets.
    pub(super) async fn sockets(&self, holds: impl Fn(&Sockets) -> bool) -> Sockets {
        let mut sockets = self.state.sockets.subscribe();
        let found = sockets.wait_for(holds);
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        *found.expect("the sockets are as they should be").unwrap()
    }
}

/// Counts an event socket for as long as it is open.
struct Open<'a>(&'a State);

impl<'a> Open<'a> {
    fn new(line: &'a State) -> Self {
        line.sockets.send_modify(|sockets| {
            sockets.open += 1;
            sockets.ever += 1;
            sockets.most = sockets.most.max(sockets.open);
        });
        Self(line)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.sockets.send_modify(|sockets| sockets.open -= 1);
    }
}

/// Carries what both sides say until one has nothing more to say.
async fn carry(mut near: TcpStream, mut far: TcpStream, line: &State) {
    let (mut from_near, mut to_near) = near.split();
    let (mut from_far, mut to_far) = far.split();
    let mut open = None;
    let forth = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = from_near.read(&mut bytes).await.unwrap_or_default();
            // A request is written at once, and the next one only after its answer.
            let text = String::from_utf8_lossy(&bytes[..count]);
            let first = text.lines().next().unwrap_or_default();
            if first.ends_with("HTTP/1.1") {
                line.asked
                    .lock()
                    .unwrap()
                    .push((first.to_owned(), Instant::now()));
            }
            if first.starts_with(SOCKET) {
                if line.refuses_sockets {
                    return true;
                }
                open = Some(Open::new(line));
            }
            if count == 0 || to_far.write_all(&bytes[..count]).await.is_err() {
                return false;
            }
        }
    };
    let refused = tokio::select! {
        refused = forth => refused,
        _ = copy(&mut from_far, &mut to_near) => false,
    };
    if refused {
        let answer = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let _ = to_near.write_all(answer).await;
    }
}
