//! Cross-origin requests (Fetch Standard, "CORS protocol"): a page of an admitted origin may call the server
//! and read its responses. The guard has refused other origins before.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, VARY,
};
use http::{Method, Response, StatusCode};

use super::reply::{self, Reply};

/// Response headers that a page may read, in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: HeaderValue =
    HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");

const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");

/// Seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Answers a preflight request; returns `None` for any other request.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Response<Reply>> {
    if !is_preflight(method, headers) {
        return None;
    }
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let allowed = response.headers_mut();
    allowed.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    allowed.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    // All of them: clients send further headers of the protocol (`Mcp-Param-…`) and trace context.
    if let Some(names) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        allowed.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    Some(response)
}

/// Returns true for a preflight request. Browsers send it without a token.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Allows a page of `origin` to read the response.
pub(super) fn allow(response: &mut Response<Reply>, origin: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        let values = fields.iter().cloned();
        values
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    /// Fetch Standard, "CORS-preflight request": `OPTIONS` with the method that will follow.
    #[test]
    fn only_a_preflight_request_is_one() {
        let asks = headers(&[(ACCESS_CONTROL_REQUEST_METHOD, "POST")]);
        for (method, headers, expected) in [
            (Method::OPTIONS, &asks, true),
            (Method::POST, &asks, false),
            (Method::OPTIONS, &HeaderMap::new(), false),
            (Method::POST, &HeaderMap::new(), false),
        ] {
            assert_eq!(is_preflight(&method, headers), expected, "{method}");
            assert_eq!(preflight(&method, headers).is_some(), expected, "{method}");
        }
    }

    #[test]
    fn preflight_allows_methods_and_the_requested_headers() {
        let names = "content-type,mcp-param-region";
        let asks = headers(&[
            (ACCESS_CONTROL_REQUEST_METHOD, "POST"),
            (ACCESS_CONTROL_REQUEST_HEADERS, names),
        ]);
        let response = preflight(&Method::OPTIONS, &asks).unwrap();
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
        let found = response.headers();
        assert_eq!(found[ACCESS_CONTROL_ALLOW_METHODS], METHODS);
        assert_eq!(found[ACCESS_CONTROL_ALLOW_HEADERS], names);
        assert_eq!(found[ACCESS_CONTROL_MAX_AGE], MAX_AGE);
    }

    /// `*` would let every page read the response; a cache must not give it to another origin.
    #[test]
    fn response_is_readable_by_its_origin_only() {
        let origin = HeaderValue::from_static("http://localhost:8080");
        let mut response = reply::empty(StatusCode::OK);
        allow(&mut response, origin.clone());
        let found = response.headers();
        assert_eq!(found[ACCESS_CONTROL_ALLOW_ORIGIN], origin);
        assert_eq!(found[VARY], "Origin");
        let exposed = found[ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        assert!(exposed.contains("Mcp-Session-Id"), "{exposed}");
    }
}
