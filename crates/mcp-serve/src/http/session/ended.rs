//! The sessions that were ended before their time, also by earlier processes with the same key.
//!
//! The id of a session stays validly signed after its end, so the end is kept in a file beside the key. Only the
//! processes that share a database ([`crate::SharedSessions`]) keep it there instead.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::age;
use super::{SESSION_LIFETIME, unix_time};
use crate::state::{create_private, open_for_lock, replace_private};

/// Ended sessions that are remembered. Beyond that, the oldest of the client with the most is forgotten.
const MAX_ENDED_SESSIONS: usize = 100_000;

/// Bytes of the file beyond which what is of no use any more is removed from it.
const MAX_FILE_BYTES: u64 = 2 * MAX_ENDED_SESSIONS as u64 * 64;

#[derive(Clone, Copy)]
pub(super) struct EndedSession {
    pub(super) handle: u128,
    /// Seconds since 1970.
    pub(super) issued: u64,
    /// A keyed hash of the name of the client that has ended it.
    pub(super) client: u64,
}

#[derive(Default)]
pub(super) struct EndedSessions {
    handles: HashSet<u128>,
    /// The same handles, oldest first, by client.
    by_client: HashMap<u64, VecDeque<u128>>,
}

/// The file with the sessions that were ended: a line for each. Several processes may write to it.
pub(super) struct EndedFile(PathBuf);

impl EndedSessions {
    pub(super) fn read(file: &EndedFile) -> Self {
        let mut ended = Self::default();
        match file.read() {
            Ok(all) => all.into_iter().for_each(|session| {
                ended.add(session);
            }),
            Err(error) => tracing::warn!(
                path = %file.0.display(), %error,
                "cannot read which sessions were ended: they are valid again"
            ),
        }
        ended
    }

    pub(super) fn contains(&self, handle: u128) -> bool {
        self.handles.contains(&handle)
    }

    /// Adds a session; false if it has ended before.
    pub(super) fn add(&mut self, session: EndedSession) -> bool {
        let EndedSession { handle, client, .. } = session;
        if !self.handles.insert(handle) {
            return false;
        }
        let of_client = self.by_client.entry(client).or_default();
        of_client.push_back(handle);
        if self.handles.len() > MAX_ENDED_SESSIONS {
            let largest = self.by_client.values_mut().max_by_key(|all| all.len());
            if let Some(oldest) = largest.and_then(VecDeque::pop_front) {
                self.handles.remove(&oldest);
            }
            self.by_client.retain(|_, all| !all.is_empty());
        }
        true
    }
}

impl EndedFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Adds a session. A failure is logged: the session has ended in this process all the same.
    pub(super) fn add(&self, session: EndedSession) {
        if let Err(error) = self.append(session) {
            tracing::warn!(
                path = %self.0.display(), %error,
                "cannot keep the end of a session: it is valid again after a restart"
            );
        }
    }

    fn append(&self, session: EndedSession) -> io::Result<()> {
        let _lock = self.lock()?;
        let mut file = match OpenOptions::new().append(true).open(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => create_private(&self.0)?,
            opened => opened?,
        };
        // The line end comes first, so that a line that was cut short spoils no other.
        file.write_all(format!("\n{}", line(session)).as_bytes())?;
        if file.metadata()?.len() > MAX_FILE_BYTES {
            self.shorten()?;
        }
        Ok(())
    }

    /// The sessions of the file, oldest first, whose ids would be valid.
    fn read(&self) -> io::Result<Vec<EndedSession>> {
        match self.0.try_exists()? {
            true => {
                let _lock = self.lock()?;
                self.shorten()
            }
            false => Ok(Vec::new()),
        }
    }

    /// Removes the sessions that have expired, and the oldest of too many. Returns the others.
    fn shorten(&self) -> io::Result<Vec<EndedSession>> {
        let text = std::fs::read(&self.0)?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| !line.is_empty());
        let count = lines.clone().count();
        let surplus = count.saturating_sub(MAX_ENDED_SESSIONS);
        let now = unix_time();
        let kept = lines.skip(surplus).filter_map(|line| parse(line, now));
        let kept: Vec<EndedSession> = kept.collect();
        if kept.len() < count {
            let lines: Vec<String> = kept.iter().copied().map(line).collect();
            replace_private(&self.0, lines.join("\n").as_bytes())?;
        }
        Ok(kept)
    }

    fn lock(&self) -> io::Result<File> {
        let folder = self.0.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let lock = open_for_lock(folder)?;
        lock.lock()?;
        Ok(lock)
    }
}

fn line(session: EndedSession) -> String {
    let EndedSession {
        handle,
        issued,
        client,
    } = session;
    format!("{handle:032x} {issued} {client:016x}")
}

/// The session of a line; `None` if its id has expired, or the line was cut short.
fn parse(line: &str, now: Duration) -> Option<EndedSession> {
    let mut fields = line.split(' ');
    let handle = u128::from_str_radix(fields.next()?, 16).ok()?;
    let issued = fields.next()?.parse().ok()?;
    let client = fields.next().filter(|client| client.len() == 16)?;
    let session = EndedSession {
        handle,
        issued,
        client: u64::from_str_radix(client, 16).ok()?,
    };
    // A clock that is behind must not make the server forget.
    let is_old = age(issued, now.as_secs()).is_some_and(|age| age > SESSION_LIFETIME);
    (!is_old).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(handle: u128, client: u64) -> EndedSession {
        EndedSession {
            handle,
            issued: unix_time().as_secs(),
            client,
        }
    }

    #[test]
    fn table_drops_the_oldest_of_the_client_with_the_most() {
        let mut ended = EndedSessions::default();
        assert!(ended.add(session(0, 1)) && !ended.add(session(0, 1)));
        let count = MAX_ENDED_SESSIONS as u128;
        for handle in 1..=count {
            assert!(ended.add(session(handle, 2)));
        }
        assert_eq!(ended.handles.len(), MAX_ENDED_SESSIONS);
        // That of another client stays.
        assert!(ended.contains(0) && !ended.contains(1) && ended.contains(2));
        assert!(ended.contains(count));
    }

    #[test]
    fn file_keeps_whole_lines_of_sessions_that_would_be_valid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server").join("sessions.ended");
        let file = || EndedFile::new(path.clone());
        let handles = || -> Vec<u128> {
            let sessions = file().read().unwrap();
            sessions.iter().map(|session| session.handle).collect()
        };
        assert_eq!(handles(), []);
        file().append(session(1, 7)).unwrap();
        // A full disk cuts a line short, and the next one is whole.
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"\n00000000000000000000000000000002 17");
        std::fs::write(&path, &text).unwrap();
        let old = EndedSession {
            issued: unix_time().as_secs() - SESSION_LIFETIME.as_secs() - 60,
            ..session(3, 7)
        };
        file().append(old).unwrap();
        file().append(session(4, 8)).unwrap();
        assert_eq!(handles(), [1, 4]);
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(lines.lines().count(), 2);
        let ended = EndedSessions::read(&file());
        assert!(ended.contains(1) && ended.contains(4) && !ended.contains(3));
    }
}
