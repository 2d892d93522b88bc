//! A TCP proxy between a gateway and its database, which can be made to end connections, or to carry nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// The time after which a quiet connection notices another mode.
const MODE_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Open = 0,
    /// Connections end, and new ones end at once: the server is away.
    Away = 1,
    /// Connections stay, and carry nothing: a partition.
    Silent = 2,
}

#[derive(Clone, Debug)]
pub(super) struct Proxy {
    pub(super) port: u16,
    target: u16,
    mode: Arc<AtomicU8>,
}

impl Proxy {
    pub(super) fn start(target: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let proxy = Self {
            port: listener.local_addr()?.port(),
            target,
            mode: Arc::default(),
        };
        let own = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                own.clone().connect(client);
            }
        });
        Ok(proxy)
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    fn is(&self, mode: Mode) -> bool {
        self.mode.load(Ordering::Relaxed) == mode as u8
    }

    fn connect(self, client: TcpStream) {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target));
        let (Ok(server), false) = (server, self.is(Mode::Away)) else {
            return;
        };
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let own = self.clone();
        thread::spawn(move || own.copy(from, to));
        thread::spawn(move || self.copy(server, client));
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 << 10];
        let _ = from.set_read_timeout(Some(MODE_INTERVAL));
        while !self.is(Mode::Away) {
            let read = match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    continue;
                }
                Err(_) => break,
            };
            while self.is(Mode::Silent) {
                thread::sleep(MODE_INTERVAL);
            }
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
