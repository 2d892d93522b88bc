//! Requests to the engine and their replies.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Method};
use mcp_core::tool::ToolError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use upstream::redact::Redactor;

use crate::engine::address::{self, Address};
use crate::engine::connector::{ByteStream, Connector};
use crate::engine::error::EngineError;
use crate::engine::events::{self, Event, EventStream, KINDS};
use crate::engine::local::{self, LocalFacts};
use crate::engine::log::{
    Line, LineFilter, LineReader, Log, LogQuery, MAX_SEARCHED_RECORDS, MIN_RECORDS_FOR_ONE_STREAM,
    Window,
};
use crate::engine::model::{ContainerDetails, ContainerSummary, ImageSummary, Network, Volume};
use crate::engine::name::{ContainerName, ObjectName, Path};
use crate::json::text;

/// The counters of a container at one time, as the engine writes them.
pub(crate) type Counters = Value;

/// The header with the description of a file of a container.
const PATH_STAT: &str = "x-docker-container-path-stat";
/// The bit of a link in the mode of a file, as Go writes it.
const LINK_BIT: u64 = 1 << 27;
/// Most past events that are kept; Docker remembers 256, Podman has no limit.
const MAX_PAST_EVENTS: usize = 10_000;
/// Most bytes of a list; an entry has about 1 KB.
const MAX_LIST_BYTES: u64 = 32 << 20;
const MAX_OBJECT_BYTES: u64 = 4 << 20;
/// The time for which Podman 5 waits for a container to end before it removes it by force.
const REMOVAL_GRACE: Duration = Duration::from_secs(10);

/// A client of one Docker Engine. Keeps no connection open.
#[derive(Clone)]
pub(crate) struct Engine {
    address: Address,
    pub(super) connector: Connector,
    /// For pulls, pushes and commands in containers; the head of `engine` says why.
    pub(crate) streams: bollard::Docker,
    timeout: Duration,
}

impl Engine {
    /// A client of the engine at `address`, with a `timeout` for each reply.
    /// Errors when the address can never work.
    pub(crate) fn new(address: Address, timeout: Duration) -> anyhow::Result<Self> {
        let connector = Connector::new(&address)?;
        Ok(Self {
            streams: connector.bollard().map_err(address::at("DOCKER_HOST"))?,
            connector,
            address,
            timeout,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the engine's files and processes are visible to this program.
    pub(crate) fn is_beside_us(&self) -> bool {
        self.address.is_local() && !local::in_container()
    }

    /// Facts that this machine shows of a container, if the engine runs beside this program.
    pub(crate) async fn local_facts(&self, container: &ContainerDetails) -> Option<LocalFacts> {
        if !self.is_beside_us() || !container.state.runs() {
            return None;
        }
        let id = container.id.clone();
        let read = tokio::task::spawn_blocking(move || LocalFacts::read(&id));
        read.await.ok().flatten()
    }

    /// The engine's version, with the timeout `limit`. It is the shortest reply that distinguishes a
    /// Docker Engine from any other HTTP server.
    pub(crate) async fn version(&self, limit: Duration) -> Result<String, ToolError> {
        let reply: Value = self.get_within(limit, Path::to("/version")).await?;
        match (reply["Version"].as_str(), reply["ApiVersion"].as_str()) {
            (Some(version), Some(api)) => Ok(format!("{version}, API {api}")),
            _ => Err(self.explain(EngineError::unreadable("a version without a number"))),
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: Path) -> Result<T, ToolError> {
        self.get_within(self.timeout, path).await
    }

    /// The directory of the host that a volume is, if its options make it one.
    pub(crate) async fn host_path_of_volume(
        &self,
        volume: &str,
    ) -> Result<Option<String>, ToolError> {
        let Ok(name) = ObjectName::new(volume) else {
            return Ok(None);
        };
        let volume: Volume = self.get(Path::to("/volumes").id(&name)).await?;
        Ok(volume.host_path().map(str::to_owned))
    }

    /// The JSON at `path` as `T`, with the timeout `limit`.
    pub(crate) async fn get_within<T: DeserializeOwned>(
        &self,
        limit: Duration,
        path: Path,
    ) -> Result<T, ToolError> {
        let read = within(limit, self.read(path, MAX_LIST_BYTES)).await;
        read.map_err(|failure| self.explain(failure))
    }

    /// As [`Engine::get`], for callers that handle the error.
    pub(crate) async fn try_get<T: DeserializeOwned>(&self, path: Path) -> Result<T, EngineError> {
        within(self.timeout, self.read(path, MAX_LIST_BYTES)).await
    }

    /// Posts `body`, or nothing. `duration` is the time that the change itself takes; it is added to
    /// the timeout of the reply. Returns `Null` if the reply is empty.
    pub(crate) async fn try_post(
        &self,
        path: Path,
        body: Option<&Value>,
        duration: Duration,
    ) -> Result<Value, EngineError> {
        let body = body.map_or_else(String::new, Value::to_string);
        let reply = self.try_change(Method::POST, path, body.into(), duration);
        match reply.await? {
            empty if empty.is_empty() => Ok(Value::Null),
            reply => serde_json::from_slice(&reply)
                .map_err(|error| EngineError::unreadable(error).of_change()),
        }
    }

    pub(crate) async fn try_delete(&self, path: Path) -> Result<(), EngineError> {
        let change = self.try_change(Method::DELETE, path, Bytes::new(), REMOVAL_GRACE);
        change.await.map(drop)
    }

    pub(crate) async fn try_put(&self, path: Path, archive: Vec<u8>) -> Result<(), EngineError> {
        let change = self.try_change(Method::PUT, path, archive.into(), Duration::ZERO);
        change.await.map(drop)
    }

    /// Sends a change, and completes it even if the caller cancels: when the connection closes, some
    /// engines kill at once a container that they were asked to stop gracefully.
    async fn try_change(
        &self,
        method: Method,
        path: Path,
        content: Bytes,
        duration: Duration,
    ) -> Result<Bytes, EngineError> {
        let (connector, limit) = (self.connector.clone(), self.timeout + duration);
        let change = async move {
            let fetch = connector.fetch(method, path, content, MAX_LIST_BYTES);
            within(limit, fetch).await
        };
        let done = tokio::spawn(change).await;
        let done = done.unwrap_or_else(|error| Err(EngineError::unreadable(error)));
        done.map_err(EngineError::of_change)
    }

    /// The tool error of a request that concerns no particular object.
    pub(crate) fn explain(&self, failure: EngineError) -> ToolError {
        failure.explain(&self.address)
    }

    async fn read<T: DeserializeOwned>(&self, path: Path, limit: u64) -> Result<T, EngineError> {
        let fetch = self.connector.fetch(Method::GET, path, Bytes::new(), limit);
        let value = serde_json::from_slice(&fetch.await?).map_err(EngineError::unreadable)?;
        parse(value).map_err(EngineError::unreadable)
    }

    /// The running containers, or `all`, in the engine's order.
    pub(crate) async fn containers(&self, all: bool) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("all", all);
        Ok(summaries(self.get(path).await?))
    }

    /// The newest containers, stopped ones included.
    pub(crate) async fn newest_containers(
        &self,
        most: usize,
    ) -> Result<Vec<ContainerSummary>, ToolError> {
        let path = Path::to("/containers/json").query("limit", most);
        Ok(summaries(self.get(path).await?))
    }

    pub(crate) async fn try_inspect(
        &self,
        container: &ContainerName,
    ) -> Result<ContainerDetails, EngineError> {
        let path = Path::container(container, "/json");
        within(self.timeout, self.read(path, MAX_OBJECT_BYTES)).await
    }

    /// The archive of what a container has at `path`. The caller has to apply a timeout.
    pub(crate) fn download(&self, container: &ContainerName, path: &str) -> ByteStream {
        let path = Path::container(container, "/archive").query("path", path);
        self.connector.stream(path)
    }

    /// Where the link at `path` of a container leads to in it; `None` if there is no link.
    pub(crate) async fn link_target(
        &self,
        container: &ContainerName,
        path: &str,
    ) -> Result<Option<String>, EngineError> {
        let path = Path::container(container, "/archive").query("path", path);
        let head = within(self.timeout, self.connector.head(path)).await;
        let head = match head {
            Err(EngineError::Refused { status: 404, .. }) => return Ok(None),
            head => head?,
        };
        let stat = head.get(PATH_STAT).map_or(&[][..], HeaderValue::as_bytes);
        let stat = STANDARD.decode(stat).map_err(EngineError::unreadable)?;
        let stat: Value = serde_json::from_slice(&stat).map_err(EngineError::unreadable)?;
        // Podman has a target for all files.
        let is_link = stat["mode"].as_u64().unwrap_or_default() & LINK_BIT != 0;
        let target = stat["linkTarget"].as_str().filter(|_| is_link);
        Ok(target.map(str::to_owned))
    }

    pub(crate) async fn images(&self) -> Result<Vec<ImageSummary>, ToolError> {
        self.get(Path::to("/images/json")).await
    }

    /// The networks, without their containers.
    pub(crate) async fn networks(&self) -> Result<Vec<Network>, ToolError> {
        self.get(Path::to("/networks")).await
    }

    pub(crate) async fn volumes(&self) -> Result<Vec<Volume>, ToolError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct List {
            #[serde(default)]
            volumes: Vec<Volume>,
        }
        let list: List = self.get(Path::to("/volumes")).await?;
        Ok(list.volumes)
    }

    /// All events with an effect since `since` (unix nanoseconds) that the engine remembers, then new
    /// ones as they happen. Ends only with the connection.
    pub(crate) fn events(&self, since: i64) -> EventStream {
        let filters = json!({"type": KINDS, "event": events::actions().collect::<Vec<_>>()});
        let (seconds, nanos) = (since / 1_000_000_000, since % 1_000_000_000);
        let path = Path::to("/events")
            .query("filters", filters)
            .query("since", format!("{seconds}.{nanos:09}"));
        EventStream::new(self.connector.stream(path))
    }

    /// The newest events with an effect between two times (unix seconds, `until` with a fraction) that
    /// the engine remembers and that pass `filters`, oldest first. The caller has to apply a timeout.
    /// An `until` in the future delays the reply until then.
    pub(crate) async fn past_events(
        &self,
        (since, until): (i64, &str),
        filters: Value,
    ) -> Result<VecDeque<Event>, EngineError> {
        let path = Path::to("/events")
            .query("since", since)
            .query("until", until)
            .query("filters", filters);
        let mut events = EventStream::new(self.connector.stream(path));
        let mut past = VecDeque::new();
        while let Some(event) = events.next().await? {
            if past.len() == MAX_PAST_EVENTS {
                past.pop_front();
            }
            past.push_back(event);
        }
        Ok(past)
    }

    /// The log of a container, in the engine's frames. The caller has to apply a timeout.
    pub(crate) fn logs(&self, container: &ContainerName, query: &LogQuery) -> ByteStream {
        let since = match query.since {
            (seconds, 0) => seconds.to_string(),
            (seconds, nanoseconds) => format!("{seconds}.{nanoseconds:09}"),
        };
        let mut path = Path::container(container, "/logs")
            .query("stdout", query.stdout)
            .query("stderr", query.stderr)
            .query("since", since)
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

    /// Reads the last lines of a container's log, at most `bytes` bytes in all as they are shown, with the timeout
    /// `limit`. Memory use does not depend on the length of the log. With a `filter`, reads the lines that pass it:
    /// among the newest [`MAX_SEARCHED_RECORDS`], or, before `until`, among as many as the timeout allows.
    pub(crate) async fn read_log(
        &self,
        container: &ContainerDetails,
        mut query: LogQuery,
        bytes: usize,
        limit: Duration,
        redactor: Redactor,
        mut filter: Option<LineFilter<'_>>,
    ) -> Result<Log, EngineError> {
        let lines = query.tail as usize;
        query.tail = if query.until > 0 {
            // The engine counts records from the newest one, even if `until` is long before it.
            LogQuery::ALL
        } else if filter.is_some() {
            MAX_SEARCHED_RECORDS
        } else if query.stdout && query.stderr {
            // One more than requested shows whether there are older ones, and the name of a value in the next line.
            query.tail + 1
        } else {
            // The engine counts the records of both streams before it selects one stream.
            let records = query.tail.saturating_mul(2);
            records.max(MIN_RECORDS_FOR_ONE_STREAM)
        };
        let mut reply = self.logs(&container.id, &query);
        let mut reader = LineReader::new(container.config.tty, query.timestamps);
        let (mut window, mut searched) = (Window::new(lines, bytes), 0);
        let mut keep = |mut line: Line| {
            searched += usize::from(filter.is_some());
            if filter.as_mut().is_none_or(|passes| passes(&mut line)) {
                window.push(line);
            }
        };
        let collect = async {
            while let Some(chunk) = reply.next().await {
                reader.push(&chunk?, &mut keep)?;
            }
            Ok::<(), EngineError>(())
        };
        let is_complete = match tokio::time::timeout(limit, collect).await {
            Ok(done) => done.map(|()| true)?,
            Err(_) => false,
        };
        let has_begun = reader.has_begun();
        reader.finish(&mut keep);
        if !is_complete && !has_begun {
            return Err(EngineError::Timeout(limit));
        }
        Ok(Log {
            incomplete: !is_complete,
            searched,
            is_partly_searched: searched >= MAX_SEARCHED_RECORDS as usize,
            ..window.into_log(redactor)
        })
    }

    pub(crate) async fn counters(
        &self,
        container: &ContainerName,
    ) -> Result<Counters, EngineError> {
        let path = Path::container(container, "/stats").query("stream", false);
        self.try_get(path.query("one-shot", true)).await
    }
}

/// Shares of CPU periods from which on they count, in percent, and the periods from which on a share is meaningful.
const THROTTLED_PERCENT: u64 = 25;
const MIN_PERIODS: u64 = 20;

/// The CPU periods in which the container was stopped by its limit, and all in which it had work.
pub(crate) fn throttling(counters: &Counters) -> (u64, u64) {
    let data = &counters["cpu_stats"]["throttling_data"];
    let of = |name: &str| data[name].as_u64().unwrap_or_default();
    (of("throttled_periods"), of("periods"))
}

/// The share of the periods in which its limit stopped it, in percent, if that is much.
pub(crate) fn throttled_percent(counters: &Counters) -> Option<u64> {
    let (throttled, periods) = throttling(counters);
    let percent = (throttled * 100).checked_div(periods)?;
    (periods >= MIN_PERIODS && percent >= THROTTLED_PERCENT).then_some(percent)
}

/// Runs `future` with a timeout.
/// Errors with [`EngineError::Timeout`] when it takes longer than `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let done = tokio::time::timeout(limit, future).await;
    done.unwrap_or(Err(EngineError::Timeout(limit)))
}

/// Parses a reply. The engine writes null for an empty list and for a missing member.
fn parse<T: DeserializeOwned>(mut value: Value) -> serde_json::Result<T> {
    strip_nulls(&mut value);
    serde_json::from_value(value)
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // An exposed port that is not published has null for its bindings: keep the key.
            for (key, member) in members.iter_mut() {
                if member.is_null() && key.contains('/') {
                    *member = Value::Array(Vec::new());
                }
            }
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// The containers of a list. One that cannot be parsed keeps its id and does not fail the list.
fn summaries(listed: Vec<Value>) -> Vec<ContainerSummary> {
    let summary = |container: Value| {
        let id = ContainerName::new(text(&container["Id"]));
        parse(container).unwrap_or_else(|error| {
            tracing::warn!(?id, %error, "a container of the list cannot be parsed");
            ContainerSummary {
                id: id.unwrap_or_default(),
                state: "unknown".to_owned(),
                ..ContainerSummary::default()
            }
        })
    };
    listed.into_iter().map(summary).collect()
}
