//! Joins and displays URLs.

use std::net::IpAddr;

use reqwest::Url;

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

/// Returns true for loopback addresses, which a proxy cannot reach.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
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

    #[test]
    fn loopback_is_recognised_by_name_and_by_address() {
        for (url, loopback) in [
            ("http://localhost:1", true),
            ("http://127.1.2.3", true),
            ("http://[::1]:1", true),
            ("http://localhost.example", false),
            ("http://127.evil.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), loopback, "{url}");
        }
    }
}
