//! A client of one service: its connections and its address.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};

use super::failure::{FailureTexts, Fault, HttpFailure, Peer};
use super::request::Request;

/// Timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The reason why a client cannot be made.
pub use mcp_client::Error as SetupError;

/// A client of one service. Clones share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<Url>,
    peer: Peer,
    profile: &'static ServiceProfile,
}

impl Client {
    /// Makes a client of the service at `base`. Does not connect.
    ///
    /// # Errors
    /// When `base` is not an `http` or `https` URL with a host, or TLS cannot be set up.
    pub fn new(base: Url, profile: &'static ServiceProfile) -> Result<Self, SetupError> {
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(unusable("not an http or https URL with a host"));
        }
        let builder = mcp_client::http_client(&base).map_err(unusable)?;
        let builder = builder
            .user_agent(profile.user_agent)
            .connect_timeout(CONNECT_TIMEOUT);
        Ok(Self {
            http: builder.build().map_err(unusable)?,
            peer: Peer::new(&base, &profile.wording),
            base: Arc::new(base),
            profile,
        })
    }

    /// The URL of the service, with its credentials.
    pub fn base(&self) -> &Url {
        &self.base
    }

    /// The URL of the service without credentials, which may be shown.
    pub fn address(&self) -> &str {
        self.peer.address()
    }

    /// Makes a failure of this service that does not come from a request.
    pub fn failure(&self, fault: Fault) -> HttpFailure {
        self.peer.failure(fault)
    }

    /// Makes a request to a path, whose segments are escaped.
    pub fn request<S: Into<String>>(
        &self,
        method: Method,
        path: impl IntoIterator<Item = S>,
    ) -> Request {
        let path = path.into_iter().map(Into::into).collect();
        let url = join_path(&self.base, &path);
        let builder = self.http.request(method.clone(), url);
        Request::new(builder, self.peer.clone(), self.profile, (method, path))
    }

    /// Makes a `GET` request.
    pub fn get<S: Into<String>>(&self, path: impl IntoIterator<Item = S>) -> Request {
        self.request(Method::GET, path)
    }

    /// Makes a `POST` request.
    pub fn post<S: Into<String>>(&self, path: impl IntoIterator<Item = S>) -> Request {
        self.request(Method::POST, path)
    }
}

fn unusable(problem: impl Display) -> SetupError {
    SetupError::Invalid(format!("cannot set up HTTP: {problem}"))
}

/// A kind of service: settings of requests and the texts for failures. A constant of each server.
#[derive(Debug)]
pub struct ServiceProfile {
    /// The name that requests carry, such as `n8n-mcp-server/0.1.0`.
    pub user_agent: &'static str,
    /// The default timeout of a request, from connecting to the last byte.
    pub timeout: Duration,
    /// The default limit of a response, in bytes.
    pub max_body: usize,
    /// The texts for failures.
    pub wording: FailureTexts,
}

/// Appends path segments to `base`, each of them escaped: a segment cannot change the path. Without segments
/// the path stays as it is.
pub fn join_path<S: AsRef<str>>(base: &Url, segments: impl IntoIterator<Item = S>) -> Url {
    let mut url = base.clone();
    let mut segments = segments.into_iter().peekable();
    if segments.peek().is_none() {
        return url;
    }
    // Fails only for URLs without a host, for which there is no client.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty();
        for segment in segments {
            path.push(match segment.as_ref() {
                // Unescaped, these would be resolved and change the path.
                "." => "%2E",
                ".." => "%2E%2E",
                segment => segment,
            });
        }
    }
    url
}

/// The URL without credentials, query and fragment, which may be shown.
pub fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail only for URLs without a host, which have no credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.as_str().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(base: &str, segments: &[&str]) -> String {
        join_path(&Url::parse(base).unwrap(), segments).into()
    }

    #[test]
    fn base_paths_may_end_with_a_slash() {
        for (base, expected) in [
            ("http://h:5678", "http://h:5678/api/v1"),
            ("http://h:5678/", "http://h:5678/api/v1"),
            ("http://h/n8n", "http://h/n8n/api/v1"),
            ("http://h/n8n/", "http://h/n8n/api/v1"),
        ] {
            assert_eq!(joined(base, &["api", "v1"]), expected);
        }
        assert_eq!(joined("http://h/x/?y=z", &[]), "http://h/x/?y=z");
    }

    #[test]
    fn segments_cannot_change_the_path() {
        for (segments, expected) in [
            (
                &["a/b", "c?d#e", "ä"][..],
                "http://h/a%2Fb/c%3Fd%23e/%C3%A4",
            ),
            (&["x", "..", "y"], "http://h/x/%252E%252E/y"),
            (&["x", "."], "http://h/x/%252E"),
            (&["%2e%2e"], "http://h/%252e%252e"),
        ] {
            assert_eq!(joined("http://h", segments), expected);
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = Url::parse("https://user:secret@n8n.example/p/?key=k#f").unwrap();
        assert_eq!(display_url(&url), "https://n8n.example/p");
    }
}
