//! Requests to the agent server: its API key, a timeout, a bounded response.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use mcp_serve::Secret;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use upstream::http::header::{DATE, HeaderMap};
use upstream::http::{Client, Method, Request, Response, ServiceProfile, SetupError, Url};
use upstream::time::{Timestamp, parse_http_date};

use crate::api::event_kind;
use crate::api::failure::{ApiResult, WORDING};
use crate::api::names::TaskId;

/// The header that carries the API key.
const KEY_HEADER: &str = "X-Session-API-Key";
/// Timeout of calls that only read. They take milliseconds, unless many agents are being set up.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest response seen is a conversation with about a hundred model calls, below 1 MB.
pub(crate) const MAX_BODY: usize = 8 * 1024 * 1024;

static PROFILE: ServiceProfile = ServiceProfile {
    user_agent: concat!("openhands-mcp-server/", env!("CARGO_PKG_VERSION")),
    timeout: READ_TIMEOUT,
    max_body: MAX_BODY,
    wording: WORDING,
};

/// A client of an agent server: its address, its API key, its version.
#[derive(Clone)]
pub(crate) struct AgentServer {
    http: Client,
    /// Read before each request, since its file may change.
    key: Arc<Secret>,
    /// The version that was read last; `None` before.
    version: Arc<Mutex<Option<ServerVersion>>>,
    clock: Arc<Clock>,
}

/// The clock of an agent server, which its responses tell.
#[derive(Default)]
struct Clock {
    /// Seconds by which it is ahead of ours.
    ahead: AtomicI64,
}

/// Seconds by which clocks differ because of the way of a response, and of a time in whole seconds.
const MAX_DELAY: i64 = 2;

impl Clock {
    fn record(&self, headers: &HeaderMap, now: Timestamp) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(parse_http_date) {
            let ahead = date.as_second() - now.as_second();
            let ahead = if ahead.abs() > MAX_DELAY { ahead } else { 0 };
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    fn at(&self, now: Timestamp) -> Timestamp {
        let second = now.as_second() + self.ahead.load(Ordering::Relaxed);
        Timestamp::from_second(second).unwrap_or(now)
    }
}

/// One page of a list, and the cursor of the next one.
#[derive(Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The cursor of the next page; `None` on the last one.
    pub(crate) next_page_id: Option<String>,
}

impl AgentServer {
    /// Does not connect.
    ///
    /// # Errors
    /// `base` is not a usable URL.
    pub(crate) fn new(base: Url, key: Secret) -> Result<Self, SetupError> {
        Ok(Self {
            http: Client::new(base, &PROFILE)?,
            key: Arc::new(key),
            version: Arc::default(),
            clock: Arc::default(),
        })
    }

    /// The time by the clock of the agent server, in whole seconds.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.at(Timestamp::now())
    }

    /// A request with the API key. The segments of `path` are escaped.
    fn request(&self, method: Method, path: &[&str]) -> Request {
        let request = self.open_request(method, path);
        request.credential(KEY_HEADER, self.key.get())
    }

    /// A request without the API key, for endpoints that need none.
    fn open_request(&self, method: Method, path: &[&str]) -> Request {
        self.http.request(method, path.iter().copied())
    }

    /// A request that carries the API key as a bearer token, too: the OpenHands cloud wants it there.
    pub(crate) fn bearer_request(&self, method: Method, path: &[&str]) -> Request {
        let bearer = self.key.get();
        let bearer = bearer.map(|key| key.map(|key| format!("Bearer {key}")));
        let request = self.request(method, path);
        request.credential("Authorization", bearer)
    }

    pub(crate) fn get(&self, path: &[&str]) -> Request {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &[&str]) -> Request {
        self.request(Method::POST, path)
    }

    /// A request for one conversation; `rest` follows its id in the path.
    pub(crate) fn task_request(&self, method: Method, id: TaskId, rest: &[&str]) -> Request {
        let id_text = id.to_string();
        let mut path = vec!["api", "conversations", &*id_text];
        path.extend(rest);
        self.request(method, &path)
    }

    /// Sends a request and parses the response as JSON.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: Request) -> ApiResult<T> {
        Ok(self.response(request).await?.json()?)
    }

    /// Sends a request of which only the success counts.
    pub(crate) async fn perform(&self, request: Request) -> ApiResult<()> {
        self.send::<IgnoredAny>(request).await.map(drop)
    }

    /// Sends a request and returns the whole response.
    pub(crate) async fn response(&self, request: Request) -> ApiResult<Response> {
        let response = request.send().await?;
        self.clock.record(&response.headers, Timestamp::now());
        Ok(response)
    }
}

impl AgentServer {
    /// Sends the cheapest request that needs the API key.
    ///
    /// # Errors
    /// The agent server does not answer, or another program does: the failure names it.
    pub(crate) async fn check(&self) -> ApiResult<()> {
        let health = self.open_request(Method::GET, &["health"]);
        self.perform(health).await?;
        let count = self.get(&["api", "conversations", "count"]);
        self.send::<u64>(count).await?;
        self.read_version().await.map(drop)
    }

    /// Asks the agent server for its version.
    pub(crate) async fn read_version(&self) -> ApiResult<ServerVersion> {
        #[derive(Deserialize)]
        struct ServerInfo {
            version: Option<String>,
        }
        let request = self.open_request(Method::GET, &["server_info"]);
        let version = match self.send::<ServerInfo>(request).await {
            Ok(info) => ServerVersion(info.version),
            Err(failure) if failure.is_transient() => return Err(failure),
            // Another program, or a version without this path.
            Err(_) => ServerVersion(None),
        };
        let mut known = self.version.lock();
        if known.as_ref() != Some(&version) {
            match version.warning() {
                Some(warning) => tracing::warn!("{warning}"),
                None => tracing::debug!(%version, "the agent server answers"),
            }
            *known = Some(version.clone());
        }
        Ok(version)
    }

    /// The version that was read last.
    pub(crate) async fn known_version(&self) -> ApiResult<ServerVersion> {
        let known = self.version.lock().clone();
        match known {
            Some(known) => Ok(known),
            None => self.read_version().await,
        }
    }
}

/// The oldest and the newest version with which all tests pass.
const OLDEST_TESTED: [u32; 3] = [1, 31, 2];
const NEWEST_TESTED: [u32; 2] = [1, 58];

/// The version that an agent server reports; `None` if it reports none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerVersion(Option<String>);

impl ServerVersion {
    /// Its three numbers.
    fn release(&self) -> Option<[u32; 3]> {
        let mut parts = self.0.as_ref()?.splitn(3, '.');
        let mut number = || parts.next()?.parse().ok();
        let (major, minor) = (number()?, number()?);
        // The last may have a suffix.
        Some([major, minor, number().unwrap_or(0)])
    }

    /// Says that this version is not tested; `None` if it is.
    pub(crate) fn warning(&self) -> Option<String> {
        let is_tested =
            |release: [u32; 3]| release >= OLDEST_TESTED && release[..2] <= NEWEST_TESTED[..];
        if self.release().is_some_and(is_tested) {
            return None;
        }
        let ([major, minor, patch], [_, newest]) = (OLDEST_TESTED, NEWEST_TESTED);
        Some(format!(
            "The agent server has {self}; this server is tested with {major}.{minor}.{patch} to \
             {major}.{newest}."
        ))
    }

    /// Returns true if tasks start although an MCP server of theirs is down: not up to 1.34 at least, but in
    /// 1.58.
    pub(crate) fn ignores_dead_servers(&self) -> bool {
        let is_newest = |release: [u32; 3]| release[..2] >= NEWEST_TESTED[..];
        self.release().is_some_and(is_newest)
    }

    /// The name by which this version filters events of `kind`. Up to 1.46 at least it compares the
    /// whole name of the class, 1.58 knows both, and only the short name is documented.
    pub(crate) fn kind_filter(&self, kind: &str) -> String {
        let release = self.release();
        if release.is_some_and(|release| release[..2] > NEWEST_TESTED[..]) {
            return kind.to_owned();
        }
        // It is the same in all tested versions.
        let module = match kind {
            event_kind::ACTION => "llm_convertible.action",
            event_kind::MESSAGE => "llm_convertible.message",
            event_kind::STATE => "conversation_state",
            event_kind::RUN_ERROR => "conversation_error",
            event_kind::PAUSED | event_kind::INTERRUPT => "user_action",
            // Results of actions, errors and refusals, too.
            _ => "llm_convertible.observation",
        };
        format!("openhands.sdk.event.{module}.{kind}")
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(version) => write!(f, "version {}", upstream::text::one_line(version, 40)),
            None => f.write_str("an unknown version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_that_of_the_agent_server() {
        let clock = Clock::default();
        // Sun, 06 Nov 1994 08:49:37 GMT.
        for (own, second) in [
            (784_111_777, 784_111_777),
            (784_111_778, 784_111_778),
            (784_111_717, 784_111_777),
        ] {
            let own = Timestamp::from_second(own).unwrap();
            let date = "Sun, 06 Nov 1994 08:49:37 GMT".parse().unwrap();
            clock.record(&HeaderMap::from_iter([(DATE, date)]), own);
            assert_eq!(clock.at(own).as_second(), second);
            clock.record(&HeaderMap::new(), own);
            assert_eq!(clock.at(own).as_second(), second);
        }
    }

    #[test]
    fn kinds_have_the_names_that_the_version_knows() {
        let version = |text: &str| ServerVersion(Some(text.into()));
        let full = "openhands.sdk.event.user_action.PauseEvent";
        for (text, name, is_tested) in [
            ("1.31.2", full, true),
            ("1.31.1", full, false),
            ("1.58.3", full, true),
            ("1.59.0", "PauseEvent", false),
            ("2.0.0", "PauseEvent", false),
            ("unknown", full, false),
        ] {
            assert_eq!(version(text).kind_filter("PauseEvent"), name, "{text}");
            assert_eq!(version(text).warning().is_none(), is_tested, "{text}");
        }
        assert!(version("1.58.2").ignores_dead_servers());
        assert!(!version("1.34.0").ignores_dead_servers());
        let newer = version("1.59.0").warning().unwrap();
        assert!(newer.contains("version 1.59.0; this server is tested with 1.31.2 to 1.58."));
        assert!(ServerVersion(None).warning().unwrap().contains("unknown"));
    }
}
