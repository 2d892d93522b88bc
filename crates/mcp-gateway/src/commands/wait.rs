//! `mcp-gateway wait`: waits until backends of a running gateway are ready.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use gateway_approvals::pins::printable;
use mcp_client::{Client, ClientInfo, Endpoint};
use mcp_core::suggestion::suggestion;
use mcp_serve::Secret;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::print;

/// The time between two questions.
const INTERVAL: Duration = Duration::from_millis(300);

/// Timeout of one question, if the whole time does not end before.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The time that a question has at least, whatever `--timeout` says.
const MIN_QUESTION_TIME: Duration = Duration::from_secs(2);

/// A time without an end.
const MAX_TIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Waits until backends of a running gateway are ready; without a name, all that are not disabled.
///
/// Exit code: 0 when all are ready, 1 at the end of the time, with the reason of each.
#[derive(Parser)]
pub(super) struct Wait {
    /// Names of backends.
    #[arg(value_name = "BACKEND")]
    backends: Vec<String>,
    /// The longest time, such as 60s or 5m.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// URL of the gateway.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3455/mcp")]
    url: String,
    /// Variable with a token of the gateway.
    #[arg(long, value_name = "NAME", default_value = "MCP_TOKEN")]
    token_env: String,
    /// File with a token of the gateway.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The answer of the tool `gateway_status`.
#[derive(Deserialize)]
struct GatewayStatus {
    backends: BTreeMap<String, BackendStatus>,
}

#[derive(Deserialize)]
struct BackendStatus {
    status: String,
    /// The protocol version, once it has been connected.
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    last_error: Option<String>,
}

/// Runs the command.
pub(super) fn run(wait: Wait) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let missing = match runtime {
        Ok(runtime) => runtime.block_on(wait.wait()),
        Err(error) => vec![format!("cannot wait: {error}")],
    };
    missing.iter().for_each(|line| print(&printable(line)));
    match missing.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

impl Wait {
    /// Returns a line for each backend that is not ready at the end.
    async fn wait(&self) -> Vec<String> {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return vec![format!("{error:#}")],
        };
        let until = end(self.timeout);
        // With `--timeout 0s` the state of now is asked for.
        let answered = until.max(Instant::now() + MIN_QUESTION_TIME);
        let mut shown = BTreeMap::new();
        let mut last =
            BTreeMap::from([("gateway".to_owned(), Some("it does not answer".to_owned()))]);
        loop {
            let states = match timeout_at(answered, self.states(&client)).await {
                Ok(Ok(states)) => states,
                Ok(Err(error)) => BTreeMap::from([("gateway".to_owned(), Some(error))]),
                Err(_) => last,
            };
            last = states.clone();
            for (name, reason) in &states {
                if shown.get(name) != Some(reason) {
                    let state = reason.as_deref().unwrap_or("ready");
                    print(&printable(&format!("{name}: {state}")));
                    shown.insert(name.clone(), reason.clone());
                }
            }
            let missing = states
                .into_iter()
                .filter_map(|(name, reason)| Some((name, reason?)));
            let missing: Vec<_> = missing
                .map(|(name, reason)| {
                    format!(
                        "not ready after {} s: {name}: {reason}",
                        self.timeout.as_secs()
                    )
                })
                .collect();
            if missing.is_empty() || Instant::now() >= until {
                return missing;
            }
            tokio::time::sleep_until(until.min(Instant::now() + INTERVAL)).await;
        }
    }

    fn client(&self) -> anyhow::Result<Client> {
        let mut endpoint = Endpoint::new(&self.url)?;
        let variable = std::env::var(&self.token_env).ok();
        let token = match &self.token_file {
            Some(file) => Secret::new(None, Some(file.clone())),
            None => Secret::new(variable, None),
        };
        if let Some(token) = token.get()? {
            endpoint = endpoint.bearer(&token)?;
        }
        Ok(Client::builder().timeout(QUESTION_TIMEOUT).http(endpoint)?)
    }

    /// The backends that are waited for, each with the reason why it is not ready.
    async fn states(&self, client: &Client) -> Result<BTreeMap<String, Option<String>>, String> {
        let asked = async {
            if client.server().is_none() {
                let own = ClientInfo::new("mcp-gateway wait", env!("CARGO_PKG_VERSION"));
                client.connect(&own).await?;
            }
            client.call_tool("gateway_status", &json!({})).await
        };
        let answer = asked.await.map_err(|error| error.to_string())?;
        if answer.is_error {
            return Err(answer.text());
        }
        let status: GatewayStatus = serde_json::from_str(&answer.text())
            .map_err(|_| "the answer is not that of a gateway: check --url".to_owned())?;
        if self.backends.is_empty() {
            let used = status.backends.into_iter();
            let used = used.filter(|(_, backend)| backend.status != "disabled");
            return Ok(used
                .map(|(name, backend)| (name, backend.reason()))
                .collect());
        }
        let state = |name: &String| match status.backends.get(name) {
            Some(backend) => (name.clone(), backend.reason()),
            None => {
                let known = status.backends.keys().map(String::as_str);
                let reason = format!("no backend has this name{}", suggestion(name, known));
                (name.clone(), Some(reason))
            }
        };
        Ok(self.backends.iter().map(state).collect())
    }
}

impl BackendStatus {
    fn reason(&self) -> Option<String> {
        // Without requests it stops; the next call starts it.
        let is_idle = self.status == "stopped" && self.protocol.is_some();
        (self.status != "running" && !is_idle).then(|| match &self.last_error {
            Some(error) => format!("{}: {error}", self.status),
            None => self.status.clone(),
        })
    }
}

/// The end of a time, which may be longer than the clock can count.
fn end(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now + MAX_TIME)
}

/// Parses a time such as 500ms, 60s or 5m; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, &'static str> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits
        .parse()
        .map_err(|_| "must be a time such as 60s or 5m")?;
    match &text[digits.len()..] {
        "ms" => Ok(Duration::from_millis(number)),
        "" | "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        "h" => Ok(Duration::from_secs(number.saturating_mul(3600))),
        _ => Err("must be a time such as 60s or 5m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_may_be_longer_than_the_clock_counts() {
        for time in ["18446744073709551615s", "99999999999999999h"] {
            let time = duration(time).unwrap();
            assert!(end(time) > Instant::now() + Duration::from_secs(3600));
        }
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        for wrong in ["", "s", "1d", "-1s", "1 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
