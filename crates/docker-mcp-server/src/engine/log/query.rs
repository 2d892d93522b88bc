//! `GET /containers/{id}/logs`.

use crate::engine::client::Engine;
use crate::engine::connector::ByteStream;
use crate::engine::name::ContainerName;
use crate::engine::path::Path;

/// The requested part of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogQuery {
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    /// Unix seconds.
    pub(crate) since: i64,
    /// Unix seconds; 0 for no end.
    pub(crate) until: i64,
    /// Records, counted from the newest, or [`LogQuery::ALL`].
    pub(crate) tail: u32,
    /// Puts the time before each record.
    pub(crate) timestamps: bool,
    /// Continues with new records.
    pub(crate) follow: bool,
}

impl LogQuery {
    /// The number that stands for all records.
    pub(crate) const ALL: u32 = u32::MAX;

    /// The newest records of both streams.
    pub(crate) fn newest(tail: u32) -> Self {
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
    pub(crate) fn logs(&self, container: &ContainerName, query: &LogQuery) -> ByteStream {
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
