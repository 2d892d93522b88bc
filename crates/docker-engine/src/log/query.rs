//! `GET /containers/{id}/logs`.

use crate::connector::ByteStream;
use crate::engine::Engine;
use crate::name::ContainerName;
use crate::path::Path;

/// The requested part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogQuery {
    /// Includes the standard output.
    pub stdout: bool,
    /// Includes the standard error.
    pub stderr: bool,
    /// Unix seconds.
    pub since: i64,
    /// Unix seconds; 0 for no end.
    pub until: i64,
    /// Records, counted from the newest, or [`LogQuery::ALL`].
    pub tail: u32,
    /// Puts the time before each record.
    pub timestamps: bool,
    /// Continues with new records.
    pub follow: bool,
}

impl LogQuery {
    /// The number that stands for all records.
    pub const ALL: u32 = u32::MAX;

    /// The newest records of both streams.
    pub fn newest(tail: u32) -> Self {
        Self {
            stdout: true,
            stderr: true,
            tail,
            ..Self::default()
        }
    }
}

impl Engine {
    /// The log of a container, in the engine's frames. The caller has to apply a timeout.
    pub fn logs(&self, container: &ContainerName, query: &LogQuery) -> ByteStream {
        let mut path = Path::to("/containers")
            .id(container)
            .then("/logs")
            .query("stdout", query.stdout)
            .query("stderr", query.stderr)
            .query("since", query.since)
            .query("timestamps", query.timestamps);
        if query.tail != LogQuery::ALL {
            path = path.query("tail", query.tail);
        }
        if query.until > 0 {
            path = path.query("until", query.until);
        }
        if query.follow {
            path = path.query("follow", true);
        }
        self.connector.stream(path)
    }
}
