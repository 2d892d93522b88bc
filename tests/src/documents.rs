//! The protocol documents: Markdown files whose request/response pairs are executed, over HTTP and over stdio.
//!
//! A document has a line `server: BINARY ARGS…`: the fixture server, or a product with its real
//! service (`seed_001.rs`). A block ` ```json request ` is sent; the block
//! ` ```json response ` after it must match what comes back, and ` ```json no response ` in place
//! of it means that there is no answer. A block ` ```json response over HTTP ` differs from the others over
//! HTTP, where these requests have no session. A request may be any text, also broken JSON.
//!
//! In a response, `"..."` matches anything, and a last `"..."` of an array any rest. An object may
//! have more members than the document shows. JSON inside of a text is compared as JSON.

use std::path::Path;

use serde_json::Value;

use crate::harness::Server;
use crate::stdio::StdioServer;

/// A request and the answer that the document shows.
struct Pair {
    line: usize,
    request: String,
    /// `None`: no answer.
    response: Option<Value>,
    /// The answer over HTTP, if it is another one.
    over_http: Option<Value>,
}

pub(crate) struct Document {
    name: String,
    /// The binary under test.
    server: String,
    args: Vec<String>,
    pairs: Vec<Pair>,
}

/// The documents for `server`.
pub(crate) fn documents(server: &str) -> Vec<Document> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("documents");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let all = paths.iter().map(|path| Document::parse(path));
    let asked: Vec<Document> = all.filter(|document| document.server == server).collect();
    assert!(!asked.is_empty(), "no document for {server}");
    asked
}

impl Document {
    fn parse(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).unwrap();
        let server = text
            .lines()
            .find_map(|line| line.strip_prefix("server: "))
            .expect("a server: line");
        let mut words = server.split_whitespace().map(str::to_owned);
        let server = words.next().expect("the name of a server");

        let mut pairs: Vec<Pair> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some(kind) = line.strip_prefix("```json ") else {
                continue;
            };
            let block: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .collect();
            let block = block.join("\n");
            let last = pairs.last_mut();
            match (kind, last) {
                ("request", _) => pairs.push(Pair {
                    line: at + 1,
                    request: block,
                    response: None,
                    over_http: None,
                }),
                ("response" | "response over HTTP", Some(pair)) => {
                    let value = serde_json::from_str(&block)
                        .unwrap_or_else(|e| panic!("{name}:{}: {e}", at + 1));
                    match kind {
                        "response" => pair.response = Some(value),
                        _ => pair.over_http = Some(value),
                    }
                }
                ("no response", Some(_)) => {}
                (other, _) => panic!("{name}:{}: unknown block {other:?}", at + 1),
            }
        }
        assert!(!pairs.is_empty(), "{name} has no pairs");
        Self {
            name,
            server,
            args: words.collect(),
            pairs,
        }
    }

    /// The document with this text in its requests in place of another one.
    pub(crate) fn with(mut self, (from, to): (&str, &str)) -> Self {
        for pair in &mut self.pairs {
            pair.request = pair.request.replace(from, to);
        }
        self
    }

    #[track_caller]
    fn check(&self, over: &str, pair: &Pair, answer: Option<&str>) {
        let place = format!("{}:{} over {over}", self.name, pair.line);
        let own = pair.over_http.as_ref().filter(|_| over == "HTTP");
        match (own.or(pair.response.as_ref()), answer) {
            (None, None) => {}
            (None, Some(answer)) => panic!("{place}: answered {answer}"),
            (Some(_), None) => panic!("{place}: no answer"),
            (Some(expected), Some(answer)) => {
                let found: Value = serde_json::from_str(answer)
                    .unwrap_or_else(|e| panic!("{place}: {e}: {answer}"));
                if let Err(difference) = matches(expected, &found, "$") {
                    panic!("{place}: {difference}\nexpected {expected:#}\nfound {found:#}");
                }
            }
        }
    }
}

/// Compares an answer with the one that is shown.
///
/// # Errors
/// The first difference, with its path.
pub(crate) fn matches(expected: &Value, found: &Value, path: &str) -> Result<(), String> {
    match (expected, found) {
        (Value::String(any), _) if any == "..." => Ok(()),
        (Value::String(expected), Value::String(found)) if expected.starts_with('{') => {
            let parse = |text: &str| {
                serde_json::from_str(text).map_err(|error| format!("{path} is no JSON: {error}"))
            };
            matches(&parse(expected)?, &parse(found)?, path)
        }
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().try_for_each(|(key, value)| {
                let path = format!("{path}.{key}");
                let found = found.get(key).ok_or_else(|| format!("{path} is missing"))?;
                matches(value, found, &path)
            })
        }
        (Value::Array(expected), Value::Array(found)) => {
            let open = expected.last().is_some_and(|last| last == "...");
            let shown = &expected[..expected.len() - usize::from(open)];
            if found.len() < shown.len() || (!open && found.len() > shown.len()) {
                return Err(format!("{path} has {} items", found.len()));
            }
            let mut pairs = shown.iter().zip(found).zip(0..);
            pairs.try_for_each(|((expected, found), at)| {
                matches(expected, found, &format!("{path}[{at}]"))
            })
        }
        _ if expected == found => Ok(()),
        _ => Err(format!("{path} is {found}")),
    }
}

impl Document {
    /// Executes it over HTTP, with a server in this environment.
    pub(crate) async fn over_http(&self, env: &[(&str, &str)]) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let server = Server::with_args(&self.server, &args, env).await;
        self.check_over_http(&server).await;
    }

    /// Executes it over HTTP, with a running server.
    pub(crate) async fn check_over_http(&self, server: &Server) {
        for pair in &self.pairs {
            let reply = server.post(pair.request.clone()).await;
            let status = if pair.response.is_some() { 200 } else { 202 };
            assert_eq!(reply.status, status, "{}:{}", self.name, pair.line);
            let answer = Some(reply.body.as_str()).filter(|body| !body.is_empty());
            self.check("HTTP", pair, answer);
        }
    }

    /// Executes it over stdio, with a server in this environment.
    pub(crate) async fn over_stdio(&self, env: &[(&str, &str)]) {
        let args = self.args.iter().map(String::as_str);
        let args: Vec<&str> = std::iter::once("--stdio").chain(args).collect();
        self.check_over_stdio(StdioServer::of(&self.server, &args, env))
            .await;
    }

    /// Executes it over stdio, with a running server.
    pub(crate) async fn check_over_stdio(&self, mut peer: StdioServer) {
        for pair in &self.pairs {
            peer.send(pair.request.replace('\n', " ")).await;
            if pair.response.is_some() {
                let answer = peer.line().await;
                self.check("stdio", pair, answer.as_deref());
            }
        }
        // An answer to a notification would be left over.
        peer.close().await;
    }
}

#[tokio::test]
async fn over_http() {
    for document in documents(fixture::NAME) {
        document.over_http(&[]).await;
    }
}

#[tokio::test]
async fn over_stdio() {
    for document in documents(fixture::NAME) {
        document.over_stdio(&[]).await;
    }
}
