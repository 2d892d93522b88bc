//! Tests of the page's requests: who is admitted, and by what; its limits, and its stream.

use clap::Parser as _;
use futures_util::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use mcp_core::server::{Principal, Server};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tower_service::Service as _;

use super::*;
use crate::http::Extras;
use crate::{Command, Guard, HttpService, Limits, OwnPaths, Product, Tokens};

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
        let page = Some(Page {
            data,
            options: Vec::new(),
        });
        let extras = Extras {
            page,
            own_paths: Some(Arc::new(Counted)),
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

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        let headers = [&[("host", HOST)], headers].concat();
        self.send("GET", path, &headers, "").await
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

const TOKENS: &str = "ada s3cret-of-16-chars";
const ADA: &str = "s3cret-of-16-chars";
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;

#[tokio::test]
async fn browser_gets_the_page_and_others_the_help() {
    let site = Site::new(TOKENS);
    let html = ("accept", "text/html,application/xhtml+xml;q=0.9");
    let page = site.get("/", &[html]).await;
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    for (name, value) in HEADERS {
        assert_eq!(page.headers[name], value, "{name}");
    }
    assert_eq!(page.headers["vary"], "accept");
    let (_, script) = page.body.split_once("src=\"").unwrap();
    let script = site.get(script.split('"').next().unwrap(), &[]).await;
    assert_eq!(script.status, 200);
    let cached = script.headers["cache-control"].to_str().unwrap();
    assert!(cached.contains("immutable"), "{cached}");
    let tag = page.headers["etag"].to_str().unwrap();
    let again = site.get("/", &[html, ("if-none-match", tag)]).await;
    assert_eq!(again.status, 304);
    let help = site.get("/", &[("accept", "*/*")]).await;
    assert_eq!(
        (help.status, &help.json()["name"]),
        (404, &json!("page-test"))
    );
    assert_eq!(help.headers["vary"], "accept");
    assert_eq!(site.get("/page/none/app.js", &[]).await.status, 404);
    let put = site.send("PUT", "/page/me", &[("host", HOST)], "").await;
    assert_eq!(put.status, 405);
}

#[tokio::test]
async fn foreign_host_or_origin_gets_nothing() {
    let site = Site::new(TOKENS);
    for path in ["/", "/page/x/app.js"] {
        let headers = [("host", "evil.example"), ("accept", "text/html")];
        let got = site.send("GET", path, &headers, "").await;
        assert_eq!(got.status, 403, "{path}");
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
    // Without tokens the page is as open as the tools.
    for (tokens, token, principal) in [("", "", Value::Null), (TOKENS, ADA, json!("ada"))] {
        let site = Site::new(tokens);
        let me = site.post("/page/me", token, &[], "{}").await.json();
        assert_eq!(me["principal"], principal);
        assert_eq!(me["needs_token"], !token.is_empty());
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
    let site = Site::new(TOKENS);
    let asks = [
        ("host", HOST),
        ("origin", "http://localhost:9"),
        ("access-control-request-method", "POST"),
    ];
    let preflight = site.send("OPTIONS", "/page/mcp", &asks, "").await;
    assert_eq!(preflight.status, 405);
    assert!(
        !preflight
            .headers
            .contains_key("access-control-allow-origin")
    );
}

#[tokio::test]
async fn request_of_the_page_has_the_token_of_the_person() {
    let tokens =
        "ada s3cret-of-16-chars\nbob hunter2-of-16-chars\ncarl reader-of-16-chars role=reader";
    let site = Site::new(tokens);
    let (missing, wrong) = ("sign in with a token", "this token is not valid here");
    let nothing = "this server has nothing but its tools";
    for (path, token, status, reason) in [
        ("me", "", 401, missing),
        ("mcp", "", 401, missing),
        ("live", "", 401, missing),
        ("data/state", "", 401, missing),
        ("me", "wrong", 401, wrong),
        ("mcp/view", "wrong", 401, wrong),
        ("me", ADA, 200, ""),
        ("mcp", ADA, 200, ""),
        ("mcp/view", ADA, 404, "there is no such view"),
        ("nothing", ADA, 404, nothing),
        // As at `/mcp`: a role on a server without roles would allow more than it says.
        ("mcp", "reader-of-16-chars", 403, ""),
    ] {
        let path = format!("/page/{path}");
        let got = site.post(&path, token, &[], LIST).await;
        assert_eq!(got.status, status, "{path} {token}");
        assert!(got.body.contains(reason), "{path} {token}: {}", got.body);
    }
    for (bytes, status) in [(16 * 1024, 200), (64 * 1024, 400)] {
        let body = json!({"more": "x".repeat(bytes)}).to_string();
        for path in ["/page/me", "/own/x"] {
            let got = site.post(path, ADA, &[], &body).await;
            assert_eq!(got.status, status, "{path} {bytes}");
        }
    }
    site.tokens.replace("bob hunter2-of-16-chars").unwrap();
    assert_eq!(site.post("/page/me", ADA, &[], "{}").await.status, 401);
}

#[tokio::test]
async fn every_host_has_its_entry() {
    let site = Site::new(TOKENS);
    let address = |fields: &str| format!(r#"{{"name":"docker","url":"http://h/mcp"{fields}}}"#);
    let asked = address(r#","needs_token":true"#);
    let got = site.post("/page/hosts", ADA, &[], &asked).await.json();
    let hosts = got.as_array().unwrap();
    assert_eq!(hosts.len(), mcp_hosts::HOSTS.len());
    for host in hosts {
        let text = host["text"].as_str().unwrap();
        assert!(text.contains("http://h/mcp"), "{host}");
        assert!(!text.contains("s3cret"), "{host}");
    }
    for fields in ["", r#","needs_token":1"#] {
        let got = site.post("/page/hosts", ADA, &[], &address(fields)).await;
        assert_eq!(got.status, 400, "{fields}");
    }
    let got = site.post("/page/hosts", "", &[], &asked).await;
    assert_eq!(got.status, 401);
}

/// A service whose events are counted.
struct Counted;

impl PageData for Counted {
    fn revision(&self, _: Option<&Arc<Principal>>) -> (u64, u64) {
        (777, 3)
    }

    fn answer<'a>(
        &'a self,
        topic: &'a str,
        _: Option<&'a Arc<Principal>>,
        _: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            assert_ne!(topic, "panic");
            (200, topic.to_owned())
        })
    }
}

impl OwnPaths for Counted {
    fn prefix(&self) -> &'static str {
        "/own/"
    }

    fn post<'a>(
        &'a self,
        path: &'a str,
        _: Option<&'a Principal>,
        _: &'a [u8],
    ) -> BoxFuture<'a, (u16, String)> {
        Box::pin(async move {
            assert_ne!(path, "/own/panic");
            (200, path.to_owned())
        })
    }
}

fn limited(limits: Limits) -> Site {
    Site::with(TOKENS, limits, Some(Arc::new(Counted)))
}

#[tokio::test]
async fn answers_of_the_service_count_as_requests_in_flight() {
    let site = limited(Limits {
        max_in_flight: 0,
        ..Limits::default()
    });
    for (path, status) in [("/page/me", 200), ("/page/data/x", 503), ("/own/x", 503)] {
        let got = site.post(path, ADA, &[], "{}").await;
        assert_eq!(got.status, status, "{path}");
    }
}

#[tokio::test]
async fn panic_of_any_path_is_an_answer() {
    let site = limited(Limits::default());
    for path in ["/page/data/panic", "/own/panic"] {
        let got = site.post(path, ADA, &[], "{}").await;
        assert_eq!(got.status, 500, "{path}");
        assert!(got.body.contains("internal error"), "{}", got.body);
    }
}

#[tokio::test]
async fn what_the_page_asks_by_itself_leaves_the_limit_of_calls_alone() {
    let site = limited(Limits {
        max_requests_per_second: Some(1),
        ..Limits::default()
    });
    for path in ["/page/data/x", "/page/mcp"] {
        let post = async || site.post(path, ADA, &[], LIST).await.status;
        assert_eq!(post().await, 200, "{path}");
        // The next one, unless a second has passed meanwhile.
        while post().await != 429 {}
    }
}

#[tokio::test]
async fn stream_of_changes_ends_with_the_server_and_counts_for_itself() {
    let site = limited(Limits::default());
    let close = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        site.server.close();
    };
    let live = site.post("/page/live", ADA, &[], "{}");
    let body = tokio::join!(live, close).0.body;
    assert!(body.contains(r#""lists":3"#), "{body}");
    assert!(!body.contains(":777"), "{body}");
}
