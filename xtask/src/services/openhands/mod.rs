//! A local OpenHands agent server and the model that it thinks with.

pub(crate) mod install;

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use ureq::http::Method;

use crate::console::{self, Heartbeat};
use crate::http::Client;
use crate::layout::{Layout, create_dir};
use crate::process::{GRACE, Process, Program};
use crate::services::{Place, Purpose, wait_ready};
use crate::{scripted_llm, secrets};

/// Where the agent server listens unless told otherwise.
pub(crate) const DEFAULT_PORT: u16 = 8000;

/// The file in the place that holds the session API key.
pub(crate) const API_KEY: &str = "api-key";

/// The folder in the place that tasks work in.
pub(crate) const WORKSPACE: &str = "workspace";

/// True when an OpenHands agent server answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let answer = Client::new(url, Duration::from_secs(2)).get("/server_info");
    answer.is_ok_and(|answer| answer.status == 200 && answer.json["sdk_version"].is_string())
}

/// Starts it and tells it which model to use.
pub(crate) fn start(layout: &Layout, place: &Place) -> anyhow::Result<Process> {
    let key = secrets::read_or_create(&place.file(API_KEY), secrets::random)?;
    let model = Model::choose(place.purpose)?;
    let mut beat = Heartbeat::start(
        "openhands",
        format!("starting OpenHands {} on {}", install::VERSION, place.url()),
    );
    let log = layout.fresh_log(&format!("openhands-{}", place.port))?;
    for folder in [WORKSPACE, "home"] {
        create_dir(&place.file(folder))?;
    }
    let mut process = Program::guarded(install::python(layout), GRACE, Some(&place.pid_path()))?
        .args([
            "-m",
            "openhands.agent_server",
            "--host",
            "127.0.0.1",
            "--port",
            &place.port.to_string(),
        ])
        .envs(environment(place, &key)?)
        .dir(&place.dir)
        .log_to(&log)?
        .spawn()?;
    let client = Client::new(&place.url(), Duration::from_secs(10)).with("X-Session-API-Key", key);
    wait_ready(
        &mut process,
        &layout.stop,
        &log,
        Duration::from_secs(180),
        || {
            beat.beat();
            client.is_up("/ready")
        },
    )?;
    model.set(&client).context("could not set its model")?;
    Ok(process)
}

fn environment(place: &Place, key: &str) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    // Encrypts what it keeps; without the same one next time its settings are lost.
    let secret_key = secrets::read_or_create(&place.file("secret-key"), secrets::random)?;
    Ok(vec![
        ("OH_SESSION_API_KEYS_0", key.into()),
        ("OH_SECRET_KEY", secret_key.into()),
        ("OH_ENABLE_VSCODE", "false".into()),
        ("OH_ENABLE_BROWSER", "false".into()),
        ("OH_PRELOAD_TOOLS", "false".into()),
        ("OH_CONVERSATIONS_PATH", place.file("conversations").into()),
        ("OH_WORKSPACE_PATH", place.file(WORKSPACE).into()),
        ("OH_BASH_EVENTS_DIR", place.file("bash-events").into()),
        // Its settings and caches go with its place, not into the home of the user.
        ("HOME", place.file("home").into()),
        ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
        ("OPENHANDS_SUPPRESS_BANNER", "1".into()),
        ("DO_NOT_TRACK", "1".into()),
    ])
}

/// What the agent asks for its next step.
enum Model {
    /// The one that the user named in the environment.
    Own(Value),
    /// The endpoint of this program that plays back the prompt.
    Scripted(Value),
}

impl Model {
    fn choose(purpose: Purpose) -> anyhow::Result<Self> {
        let own = std::env::var("LLM_MODEL")
            .ok()
            .filter(|model| !model.is_empty());
        if let (Purpose::RunAll, Some(model)) = (purpose, own) {
            console::say(
                "openhands",
                format_args!("the model is {model}, as LLM_MODEL says"),
            );
            let optional = |name| {
                std::env::var(name)
                    .ok()
                    .map(Value::from)
                    .unwrap_or_default()
            };
            return Ok(Self::Own(
                json!({ "model": model, "api_key": optional("LLM_API_KEY"), "base_url": optional("LLM_BASE_URL") }),
            ));
        }
        let address = scripted_llm::serve_in_background(0)?;
        if purpose == Purpose::RunAll {
            console::say(
                "openhands",
                "no model is configured (LLM_MODEL, LLM_API_KEY, LLM_BASE_URL): a scripted one on loopback",
            );
            console::say(
                "openhands",
                "stands in, which does what the task says in lines like `RUN: ls` and `FINISH: done`",
            );
        }
        Ok(Self::Scripted(json!({
            "model": "openai/scripted",
            "api_key": "none",
            "base_url": format!("http://{address}/v1"),
            "num_retries": 0,
            "reasoning_effort": "none",
        })))
    }

    fn set(self, client: &Client) -> anyhow::Result<()> {
        let (Self::Own(llm) | Self::Scripted(llm)) = self;
        client.send(
            Method::PATCH,
            "/api/settings",
            &json!({ "agent_settings_diff": { "llm": llm } }),
        )?;
        // The agent profile points at a model profile by name, and looking at agent profiles
        // before there is any makes one that points at "default"; so that one has to exist.
        client.send(
            Method::POST,
            "/api/profiles/default",
            &json!({ "include_secrets": true, "llm": llm }),
        )?;
        Ok(())
    }
}
