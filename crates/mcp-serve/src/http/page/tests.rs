//! Tests of the page's requests: who is admitted, and by what.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tower_service::Service as _;

use crate::{Command, Guard, HttpService, Limits, Product, Tokens};
use clap::Parser as _;
use mcp_core::server::Server;

use super::*;

mod limits;
mod links;

const ORIGIN: &str = "http://127.0.0.1:3455";
const HOST: &str = "127.0.0.1:3455";

struct Got {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The sign-in: the cookie, without its attributes, and the key.
    fn signed(&self) -> Signed {
        let cookie = self.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let key = self.json()["key"].as_str().unwrap().to_owned();
        Signed { cookie, key }
    }
}

struct Site {
    service: HttpService,
    server: Arc<Server>,
    tokens: Arc<Tokens>,
}

struct Signed {
    cookie: String,
    key: String,
}

impl Site {
    fn new(tokens: &str) -> Self {
        Self::with(tokens, Limits::default(), None)
    }

    fn with(tokens: &str, limits: Limits, data: Option<Arc<dyn PageData>>) -> Self {
        let tokens = Arc::new(Tokens::parse(tokens).unwrap());
        let running = Product::new("page-test", "1", "Tests the page.");
        let key = crate::Key::load("page-test", Some("a key for tests")).unwrap();
        let command = Command::try_parse_from(["x", "--toolsets", "all"]).unwrap();
        let server: Arc<Server> = running.assemble(command, &key).unwrap().server;
        let guard = Guard::new(Arc::clone(&tokens), &["page.example".to_owned()]);
        let (signer, registry) = (key.signer(), Registry::default());
        let service = HttpService::new(Arc::clone(&server), guard, signer, limits, registry);
        let content = PageContent {
            data,
            options: Vec::new(),
        };
        service.serve_page(Some(format!("{ORIGIN}/")), content);
        Self {
            service,
            server,
            tokens,
        }
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        let response = self.service.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    async fn post(
        &self,
        path: &str,
        signed: Option<&Signed>,
        changed: &[(&str, &str)],
        body: &str,
    ) -> Got {
        let (cookie, key) = signed.map_or(("", "new"), |signed| (&*signed.cookie, &*signed.key));
        let mut headers = vec![
            ("host", HOST),
            ("origin", ORIGIN),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/json"),
            ("x-page-key", key),
            ("cookie", cookie),
        ];
        headers.retain(|(name, _)| changed.iter().all(|(other, _)| other != name));
        headers.extend(changed.iter().filter(|(_, value)| !value.is_empty()));
        self.send("POST", path, &headers, body).await
    }

    async fn sign_in(&self, token: &str) -> Signed {
        let body = json!({"token": token}).to_string();
        let got = self.post("/page/sign-in", None, &[], &body).await;
        assert_eq!(got.status, 200, "{}", got.body);
        got.signed()
    }
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[tokio::test]
async fn browser_gets_the_page_and_others_the_help() {
    let site = Site::new("ada s3cret-of-16-chars");
    let html = ("accept", "text/html,application/xhtml+xml;q=0.9");
    let page = site.send("GET", "/", &[("host", HOST), html], "").await;
    assert_eq!(
        (page.status, &page.headers["content-type"]),
        (200, &HeaderValue::from_static("text/html; charset=utf-8"))
    );
    for (name, value) in HEADERS {
        assert_eq!(page.headers[name], value, "{name}");
    }
    assert_eq!(page.headers["vary"], "accept");
    let script = page
        .body
        .split("src=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let script = site.send("GET", script, &[("host", HOST)], "").await;
    assert_eq!(script.status, 200);
    assert!(
        script.headers["cache-control"]
            .to_str()
            .unwrap()
            .contains("immutable")
    );
    let tag = page.headers["etag"].to_str().unwrap();
    let again = [("host", HOST), html, ("if-none-match", tag)];
    assert_eq!(site.send("GET", "/", &again, "").await.status, 304);
    let help = site
        .send("GET", "/", &[("host", HOST), ("accept", "*/*")], "")
        .await;
    assert_eq!(
        (help.status, help.json()["name"].as_str()),
        (404, Some("page-test"))
    );
    assert_eq!(help.headers["vary"], "accept");
    assert_eq!(
        site.send("GET", "/page/none/app.js", &[("host", HOST)], "")
            .await
            .status,
        404
    );
    assert_eq!(
        site.send("PUT", "/page/me", &[("host", HOST)], "")
            .await
            .status,
        405
    );
}

#[tokio::test]
async fn foreign_host_or_origin_gets_nothing() {
    let site = Site::new("ada s3cret-of-16-chars");
    for path in ["/", "/page/x/app.js"] {
        let headers = [("host", "evil.example"), ("accept", "text/html")];
        assert_eq!(
            site.send("GET", path, &headers, "").await.status,
            403,
            "{path}"
        );
    }
    let signed = site.sign_in("s3cret-of-16-chars").await;
    for changed in [
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let got = site.post("/page/me", Some(&signed), &[changed], "{}").await;
        assert_eq!(got.status, 403, "{changed:?}");
        assert!(got.headers.get("access-control-allow-origin").is_none());
    }
}

/// A page of another port or site sends the cookie of the same host; it can neither say that it is the same origin
/// nor send the header without a preflight request, which is not answered here.
#[tokio::test]
async fn only_the_page_itself_may_post() {
    let site = Site::new("ada s3cret-of-16-chars");
    let signed = site.sign_in("s3cret-of-16-chars").await;
    assert_eq!(
        site.post("/page/me", Some(&signed), &[], "{}").await.status,
        200
    );
    for (changed, status) in [
        (("sec-fetch-site", "cross-site"), 403),
        (("sec-fetch-site", "same-site"), 403),
        (("sec-fetch-site", "none"), 403),
        (("sec-fetch-site", ""), 403),
        (("x-page-key", ""), 403),
        (("x-page-key", "00000000000000000000000000000000"), 401),
        (("cookie", ""), 401),
    ] {
        for path in ["/page/me", "/page/mcp", "/page/live", "/page/data/state"] {
            let got = site.post(path, Some(&signed), &[changed], LIST).await;
            assert_eq!(got.status, status, "{path} {changed:?}");
        }
    }
    let asks = [
        ("host", HOST),
        ("origin", "http://localhost:9"),
        ("access-control-request-method", "POST"),
    ];
    let preflight = site.send("OPTIONS", "/page/mcp", &asks, "").await;
    assert_eq!(preflight.status, 405);
    assert!(
        preflight
            .headers
            .get("access-control-allow-origin")
            .is_none()
    );
}

#[tokio::test]
async fn cookie_opens_the_page_only() {
    let site = Site::new("ada s3cret-of-16-chars");
    let signed = site.sign_in("s3cret-of-16-chars").await;
    let listed = site.post("/page/mcp", Some(&signed), &[], LIST).await;
    assert_eq!(
        (listed.status, listed.json()["result"]["tools"].is_array()),
        (200, true)
    );
    for path in ["/mcp", "/metrics"] {
        let method = if path == "/mcp" { "POST" } else { "GET" };
        let headers = [
            ("host", HOST),
            ("cookie", &*signed.cookie),
            ("x-page-key", &*signed.key),
        ];
        assert_eq!(
            site.send(method, path, &headers, LIST).await.status,
            401,
            "{path}"
        );
    }
    // And a token opens nothing of the page.
    let bearer = ("authorization", "Bearer s3cret-of-16-chars");
    let got = site.post("/page/me", None, &[bearer], "{}").await;
    assert_eq!(got.status, 401);
}

#[tokio::test]
async fn cookie_is_of_its_page_and_cannot_be_changed() {
    let site = Site::new("ada s3cret-of-16-chars\nbob hunter2-of-16-chars");
    let got = site
        .post(
            "/page/sign-in",
            None,
            &[("origin", "https://page.example"), ("host", "page.example")],
            r#"{"token":"s3cret-of-16-chars"}"#,
        )
        .await;
    let cookie = got.headers["set-cookie"].to_str().unwrap();
    for part in [
        "mcp-page=",
        "; Path=/page/",
        "; HttpOnly",
        "; SameSite=Strict",
        "; Secure",
        "; Max-Age=28",
    ] {
        assert!(cookie.contains(part), "{part}: {cookie}");
    }
    let (ada, bob) = (
        site.sign_in("s3cret-of-16-chars").await,
        site.sign_in("hunter2-of-16-chars").await,
    );
    assert!(ada.cookie.starts_with("mcp-page-3455="));
    let me = site.post("/page/me", Some(&ada), &[], "{}").await;
    assert_eq!(me.json()["principal"], "ada");
    let mixed = Signed {
        cookie: ada.cookie.clone(),
        key: bob.key,
    };
    assert_eq!(
        site.post("/page/me", Some(&mixed), &[], "{}").await.status,
        401
    );
    for at in ada.cookie.find('=').unwrap() + 1..ada.cookie.len() {
        let mut forged = ada.cookie.clone().into_bytes();
        forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
        let forged = Signed {
            cookie: String::from_utf8(forged).unwrap(),
            key: ada.key.clone(),
        };
        let got = site.post("/page/me", Some(&forged), &[], "{}").await;
        // The last bits of base64 may say nothing.
        assert!(got.status == 401 || at + 1 == ada.cookie.len(), "{at}");
    }
    let other = Site::new("ada s3cret-of-16-chars\nbob hunter2-of-16-chars");
    assert_eq!(
        other.post("/page/me", Some(&ada), &[], "{}").await.status,
        200,
        "both have the key"
    );
}

#[tokio::test]
async fn sign_in_ends_with_its_token() {
    let site = Site::new("ada s3cret-of-16-chars\nbob hunter2-of-16-chars");
    let signed = site.sign_in("s3cret-of-16-chars").await;
    site.tokens
        .replace("ada other-0123456789a\nbob hunter2-of-16-chars")
        .unwrap();
    assert_eq!(
        site.post("/page/me", Some(&signed), &[], "{}").await.status,
        401
    );
    // The same token of another owner is another sign-in.
    site.tokens.replace("eve s3cret-of-16-chars").unwrap();
    assert_eq!(
        site.post("/page/me", Some(&signed), &[], "{}").await.status,
        401
    );
    let wrong = site
        .post("/page/sign-in", None, &[], r#"{"token":"wrong"}"#)
        .await;
    assert_eq!(
        (wrong.status, wrong.headers.contains_key("set-cookie")),
        (401, false)
    );
}

#[tokio::test]
async fn page_has_the_limits_of_its_client() {
    let site = Site::new("ada s3cret-of-16-chars role=reader");
    let body = r#"{"token":"s3cret-of-16-chars"}"#;
    let signed = site.post("/page/sign-in", None, &[], body).await.signed();
    // As at `/mcp`: a role on a server without roles would allow more than it says.
    assert_eq!(
        site.post("/page/mcp", Some(&signed), &[], LIST)
            .await
            .status,
        403
    );
}
