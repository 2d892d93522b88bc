//! A client that does everything a server offers: what the official conformance suite drives in its
//! client scenarios.
//!
//! ```text
//! cargo build -p mcp-client --example conformance
//! conformance client --command target/debug/examples/conformance --scenario tools_call
//! ```
//!
//! The suite appends the URL of its server, and names calls to make, or credentials, in `MCP_CONFORMANCE_CONTEXT`.
//! Given a command instead of a URL, it does the same with a child. In the scenarios `auth/…` it logs in and calls every
//! tool. The login page of the suite asks nothing: a request to it takes the place of the browser.

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcp_client::oauth::{GrantType, OAuth, OAuthConfig};
use mcp_client::tls::{self, TlsFiles};
use mcp_client::{Client, ClientInfo, Command, Endpoint, Era, Error, Handler, Reply, RpcError};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

/// The address of the document about the client that the suite expects.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";
/// Logins after which the client gives up: what a login does not help with is not asked for again.
const MAX_LOGINS: u32 = 3;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let exercised = tokio::runtime::Runtime::new().map(|runtime| match &*args {
        [url] if scenario.starts_with("auth/") => runtime.block_on(log_in(url, &scenario)),
        args => runtime.block_on(exercise(args)),
    });
    match exercised {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => eprintln!("{error}: {:?}", error.rpc()),
        Err(error) => eprintln!("{error}"),
    }
    ExitCode::FAILURE
}

fn client(args: &[String]) -> Result<Client, Error> {
    let builder = Client::builder().handler(Arc::new(Willing));
    match args {
        [] => Err(Error::Invalid("no URL, and no command".to_owned())),
        [url] if url.starts_with("http") => builder.http(Endpoint::new(url)?),
        [program, args @ ..] => builder.stdio(Command::new(program).args(args)),
    }
}

async fn exercise(args: &[String]) -> Result<(), Error> {
    let client = client(args)?;
    let abilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let who = ClientInfo::new("conformance-client", "1").with_capabilities(abilities);
    let server = client.connect(&who).await?;
    eprintln!("speaks {}", server.protocol_version);

    // Servers of the legacy era ask on this stream; they may have none.
    if let Era::Legacy(_) = server.era
        && let Ok(stream) = client.listen(&json!({})).await
    {
        tokio::spawn(stream.closed());
    }
    let offers = parse(&server.capabilities);
    let tools = client.list("tools/list", "tools").await?;
    for (name, arguments) in calls(&tools) {
        let call = json!({"name": name, "arguments": arguments});
        attempt(&client, "tools/call", call).await;
    }
    if offers.get("resources").is_some() {
        for resource in client.list("resources/list", "resources").await? {
            let read = json!({"uri": parse(&resource)["uri"]});
            attempt(&client, "resources/read", read).await;
        }
    }
    if offers.get("prompts").is_some() {
        for prompt in client.list("prompts/list", "prompts").await? {
            let get = json!({"name": parse(&prompt)["name"], "arguments": {}});
            attempt(&client, "prompts/get", get).await;
        }
    }
    eprintln!("{} tools, {:?}", tools.len(), client.counters());
    client.close().await;
    Ok(())
}

/// The calls that the suite asks for, or one of every tool.
fn calls(tools: &[Box<RawValue>]) -> Vec<(Value, Value)> {
    if let Some(calls) = context()["toolCalls"].as_array() {
        let call = |call: &Value| (call["name"].clone(), call["arguments"].clone());
        return calls.iter().map(call).collect();
    }
    let tools: Vec<Value> = tools.iter().map(|tool| parse(tool)).collect();
    let call = |tool: &Value| {
        let mut arguments = example(&tool["inputSchema"]);
        if tool["name"] == "json_schema_echo" {
            // As it came: that is what the scenario is about.
            arguments = json!({"schema": tools[0]["inputSchema"]});
        }
        (tool["name"].clone(), arguments)
    };
    tools.iter().map(call).collect()
}

/// A request whose failure fails nothing else; what the server asks for in between is given.
async fn attempt(client: &Client, method: &str, mut params: Value) {
    for round in 0..5 {
        let result = match client.request(method, &params).await {
            Ok(result) => parse(&result),
            Err(error) => return eprintln!("{method}: {error}"),
        };
        if result["resultType"] != "input_required" {
            return;
        }
        if round == 0 {
            // Something else in between, which must not carry what belongs to this one.
            let other = json!({"name": "test_mrtr_unrelated", "arguments": {}});
            let _ = client.request("tools/call", &other).await;
        }
        let asked = result["inputRequests"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let answers: Map<String, Value> = asked
            .into_iter()
            .map(|(key, asked)| (key, answer(asked["method"].as_str(), &asked["params"])))
            .collect();
        params["inputResponses"] = Value::Object(answers);
        match result.get("requestState") {
            Some(state) => params["requestState"] = state.clone(),
            None => drop(
                params
                    .as_object_mut()
                    .map(|params| params.remove("requestState")),
            ),
        }
    }
}

/// Says yes to everything.
struct Willing;

impl Handler for Willing {
    fn request(&self, method: &str, params: Option<&RawValue>) -> Reply {
        let answer = answer(Some(method), &params.map(parse).unwrap_or_default());
        let answer =
            to_raw_value(&answer).map_err(|error| RpcError::new(-32603, error.to_string()));
        Box::pin(std::future::ready(answer))
    }
}

fn answer(method: Option<&str>, params: &Value) -> Value {
    match method {
        Some("elicitation/create") => {
            json!({"action": "accept", "content": example(&params["requestedSchema"])})
        }
        Some("sampling/createMessage") => json!({
            "role": "assistant", "model": "none", "stopReason": "endTurn",
            "content": {"type": "text", "text": "yes"},
        }),
        Some("roots/list") => json!({"roots": []}),
        _ => json!({}),
    }
}

/// A value of this schema: its default where it has one.
fn example(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("object") | None => {
            let properties = schema["properties"].as_object();
            let properties = properties.into_iter().flatten();
            let members = properties.map(|(name, schema)| (name.clone(), example(schema)));
            Value::Object(members.collect())
        }
        Some("string") => schema["enum"]
            .get(0)
            .cloned()
            .unwrap_or_else(|| json!("text")),
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some(_) => Value::Null,
    }
}

fn parse(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// The context of the scenario, as the suite gives it.
fn context() -> Value {
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    serde_json::from_str(&context).unwrap_or_default()
}

/// Calls every tool of a server that asks for tokens.
async fn log_in(url: &str, scenario: &str) -> Result<(), Error> {
    let context = context();
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let config = OAuthConfig {
        server: Endpoint::new(url)?,
        grant: match scenario.contains("client-credentials") {
            true => GrantType::ClientCredentials,
            false => GrantType::Login,
        },
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata: Some(CLIENT_METADATA.to_owned()),
        scope: None,
        issuer: text("issuer"),
        tls: TlsFiles::default(),
        redirect_port: 0,
        how_to_login: "log in".to_owned(),
    };
    let oauth = Arc::new(OAuth::new(config, None));
    let client = Client::http(oauth.endpoint())?;
    let logins = Logins {
        oauth,
        left: Cell::new(MAX_LOGINS),
    };
    let info = ClientInfo::new("conformance-client", "1");
    logins
        .retry(async || client.connect(&info).await.map(drop))
        .await?;
    let list = async || client.list("tools/list", "tools").await;
    for tool in logins.retry(list).await? {
        let call = json!({"name": parse(&tool)["name"], "arguments": {}});
        logins
            .retry(async || client.request("tools/call", &call).await)
            .await?;
    }
    client.close().await;
    Ok(())
}

struct Logins {
    oauth: Arc<OAuth>,
    left: Cell<u32>,
}

impl Logins {
    /// Repeats an action after a login, if it needs one.
    async fn retry<T>(&self, action: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let left = self.left.get();
            match action().await {
                Err(error @ Error::Unauthorized { .. }) if left > 0 => eprintln!("{error}"),
                done => return done,
            }
            self.left.set(left - 1);
            self.oauth.login(Duration::from_secs(10), open).await?;
        }
    }
}

/// Opens a page, and follows its redirect.
fn open(page: &str) {
    let page = page.to_owned();
    tokio::spawn(async move {
        let Ok(tls) = tls::config_for("http") else {
            return;
        };
        let builder = reqwest::Client::builder().no_proxy();
        match builder.tls_backend_preconfigured(tls).build() {
            Ok(browser) => drop(browser.get(page).send().await),
            Err(error) => eprintln!("{error}"),
        }
    });
}
