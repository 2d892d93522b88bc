//! Tests of the page's requests: who is admitted, and by what.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tower_service::Service as _;

use crate::http::Extras;
use crate::{Command, Guard, HttpService, Limits, Product, Tokens};
use clap::Parser as _;
use mcp_core::server::Server;

use super::*;

mod limits;

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
}

struct Site {
    service: HttpService,
    server: Arc<Server>,
    tokens: Arc<Tokens>,
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
        let page = Some(PageContent {
            data,
            options: Vec::new(),
        });
        let extras = Extras {
            page,
            ..Extras::default()
        };
        let server_of_page = Arc::clone(&server);
        let service = HttpService::with(server_of_page, guard, signer, limits, registry, extras);
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
        let response = self.service.router().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// Sends a request of the page, with a token if this is not empty.
    async fn post(&self, path: &str, token: &str, changed: &[(&str, &str)], body: &str) -> Got {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("host", HOST),
            ("origin", ORIGIN),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/json"),
        ];
        headers.extend((!token.is_empty()).then_some(("authorization", &*bearer)));
        headers.retain(|(name, _)| changed.iter().all(|(other, _)| other != name));
        headers.extend(changed.iter().filter(|(_, value)| !value.is_empty()));
        self.send("POST", path, &headers, body).await
    }
}

const ADA: &str = "s3cret-of-16-chars";
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
    for changed in [
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
    ] {
        let got = site.post("/page/me", ADA, &[changed], "{}").await;
        assert_eq!(got.status, 403, "{changed:?}");
        assert!(got.headers.get("access-control-allow-origin").is_none());
    }
}

/// A page of another port or site can neither say that it is the same origin, nor send a token or JSON without a preflight
/// request, which is not answered here.
#[tokio::test]
async fn only_the_page_itself_may_post() {
    for (tokens, token) in [("", ""), ("ada s3cret-of-16-chars", ADA)] {
        let site = Site::new(tokens);
        for (site_of_sender, status) in [
            ("same-origin", 200),
            ("cross-site", 403),
            ("same-site", 403),
            ("none", 403),
            ("", 403),
        ] {
            let changed = [("sec-fetch-site", site_of_sender)];
            for path in ["/page/me", "/page/mcp"] {
                let got = site.post(path, token, &changed, LIST).await;
                assert_eq!(got.status, status, "{path} {changed:?}");
            }
        }
    }
    let site = Site::new("ada s3cret-of-16-chars");
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
async fn request_of_the_page_has_the_token_of_the_person() {
    let site = Site::new("ada s3cret-of-16-chars\nbob hunter2-of-16-chars");
    for (path, token, status, reason) in [
        ("/page/me", "", 401, "sign in with a token"),
        ("/page/mcp", "", 401, "sign in with a token"),
        ("/page/live", "", 401, "sign in with a token"),
        ("/page/data/state", "", 401, "sign in with a token"),
        ("/page/me", "wrong", 401, "this token is not valid here"),
        (
            "/page/mcp/view",
            "wrong",
            401,
            "this token is not valid here",
        ),
        ("/page/me", ADA, 200, ""),
        ("/page/mcp", ADA, 200, ""),
        ("/page/mcp/view", ADA, 404, "there is no such view"),
        (
            "/page/nothing",
            ADA,
            404,
            "this server has nothing but its tools",
        ),
    ] {
        let got = site.post(path, token, &[], LIST).await;
        assert_eq!(got.status, status, "{path} {token}");
        assert!(got.body.contains(reason), "{path} {token}: {}", got.body);
    }
    let me = site.post("/page/me", ADA, &[], "{}").await;
    assert_eq!(me.json()["principal"], "ada");
    assert_eq!(me.json()["needs_token"], true);
    site.tokens.replace("bob hunter2-of-16-chars").unwrap();
    assert_eq!(site.post("/page/me", ADA, &[], "{}").await.status, 401);
}

#[tokio::test]
async fn page_without_tokens_is_as_open_as_the_tools() {
    let site = Site::new("");
    let me = site.post("/page/me", "", &[], "{}").await;
    assert_eq!((me.status, &me.json()["principal"]), (200, &Value::Null));
    assert_eq!(me.json()["needs_token"], false);
    assert_eq!(site.post("/page/mcp", "", &[], LIST).await.status, 200);
}

#[tokio::test]
async fn page_has_the_limits_of_its_client() {
    let site = Site::new("ada s3cret-of-16-chars role=reader");
    // As at `/mcp`: a role on a server without roles would allow more than it says.
    assert_eq!(site.post("/page/mcp", ADA, &[], LIST).await.status, 403);
}
