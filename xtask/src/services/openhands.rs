//! A local OpenHands agent server and its model. It comes from PyPI, with every dependency pinned.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use ureq::http::Method;

use super::{Environment, Service};
use crate::http::Client;
use crate::install::{self, Package};
use crate::instance::{Instance, Purpose};
use crate::layout::{Layout, create_dir};
use crate::process::{Process, Program};
use crate::{scripted_llm, secrets};

pub(crate) const API_KEY: &str = "api-key";

/// The folder of an instance for tasks.
pub(crate) const WORKSPACE: &str = "workspace";

/// The version that is installed; the requirements say the same.
const VERSION: &str = "1.58.0";

const REQUIREMENTS: &str = include_str!("../../backends/openhands/requirements.txt");

const START_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub(crate) struct OpenHands;

/// Returns true if an OpenHands agent server answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let response = Client::new(url, Duration::from_secs(2)).get("/server_info");
    response.is_ok_and(|response| response.json["sdk_version"].is_string())
}

fn package(layout: &Layout) -> Package<'_> {
    Package::new(layout, "openhands", &format!("openhands-{VERSION}"))
}

impl Service for OpenHands {
    fn name(&self) -> &'static str {
        "openhands"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        self.to_fetch(layout)?;
        install::find_python().is_none().then(|| {
            "no Python 3.12 or 3.13 with venv found (PATH, pyenv), and a local OpenHands needs it; \
             or set OPENHANDS_URL and OPENHANDS_API_KEY to use another one"
                .into()
        })
    }

    fn to_fetch(&self, layout: &Layout) -> Option<String> {
        let size = "about 550 MB on disk, about 1 minute";
        let what = format!("OpenHands agent server {VERSION} from PyPI: {size}");
        (!package(layout).is_complete()).then_some(what)
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        install::install_python(&package(layout), REQUIREMENTS)
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let key = secrets::read_or_create(&instance.file(API_KEY), "")?;
        let model = model(instance.purpose)?;
        for folder in [WORKSPACE, "home"] {
            create_dir(&instance.file(folder))?;
        }
        let program = Program::new(package(layout).dir.join("bin/python"))?
            .words("-m openhands.agent_server --host 127.0.0.1 --port")
            .args([instance.port.to_string()])
            .envs(environment(instance, &key)?)
            .dir(&instance.dir);
        let step = format!("starting OpenHands {VERSION} on {}", instance.url());
        let client = Client::new(&instance.url(), Duration::from_secs(10));
        let client = client.with("X-Session-API-Key", key);
        let ready = || client.is_up("/ready");
        let process = instance.start(layout, &step, START_TIMEOUT, program, ready)?;
        set_model(&client, &model).context("could not set its model")?;
        Ok(process)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        let key = secrets::read(&instance.file(API_KEY)).unwrap_or_default();
        vec![
            ("MCP_TEST_OPENHANDS_URL", instance.url().into()),
            ("MCP_TEST_OPENHANDS_API_KEY", key.into()),
        ]
    }
}

fn environment(instance: &Instance, key: &str) -> anyhow::Result<Environment> {
    let file = |name| instance.file(name).into_os_string();
    // Encrypts its settings, which are lost if the next start has another key.
    let secret_key = secrets::read_or_create(&instance.file("secret-key"), "")?;
    Ok(vec![
        ("OH_SESSION_API_KEYS_0", key.into()),
        ("OH_SECRET_KEY", secret_key.into()),
        ("OH_ENABLE_VSCODE", "false".into()),
        ("OH_ENABLE_BROWSER", "false".into()),
        ("OH_PRELOAD_TOOLS", "false".into()),
        ("OH_CONVERSATIONS_PATH", file("conversations")),
        ("OH_WORKSPACE_PATH", file(WORKSPACE)),
        ("OH_BASH_EVENTS_DIR", file("bash-events")),
        // For its settings and caches; not the home of the user.
        ("HOME", file("home")),
        ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
        ("OPENHANDS_SUPPRESS_BANNER", "1".into()),
        ("DO_NOT_TRACK", "1".into()),
        // A step and a pause hold a thread each, of a pool with four more than processors: on two
        // processors the tests fill it, and no request is answered for 10 s (Python 3.13 and newer).
        ("PYTHON_CPU_COUNT", "16".into()),
    ])
}

/// Returns the settings of the agent's model: the one that the environment names, or the scripted
/// model of this program.
fn model(purpose: Purpose) -> anyhow::Result<Value> {
    let print = |text: &str| {
        if purpose == Purpose::RunAll {
            print_as!("openhands", "{}", text);
        }
    };
    let var = |name| std::env::var(name).ok();
    let own = var("LLM_MODEL").filter(|model| !model.is_empty());
    if let (Purpose::RunAll, Some(model)) = (purpose, own) {
        print(&format!("the model is {model}, as LLM_MODEL says"));
        let (key, url) = (var("LLM_API_KEY"), var("LLM_BASE_URL"));
        return Ok(json!({ "model": model, "api_key": key, "base_url": url }));
    }
    let address = scripted_llm::serve_in_background(0)?;
    print("no model is configured (LLM_MODEL, LLM_API_KEY, LLM_BASE_URL). The scripted model on");
    print("loopback does what lines of the task say, such as `RUN: ls` and `FINISH: done`");
    Ok(json!({
        "model": "openai/scripted",
        "api_key": "none",
        "base_url": format!("http://{address}/v1"),
        "num_retries": 0,
        "reasoning_effort": "none",
    }))
}

fn set_model(client: &Client, llm: &Value) -> anyhow::Result<()> {
    let settings = json!({ "agent_settings_diff": { "llm": llm } });
    client.send(Method::PATCH, "/api/settings", &settings)?;
    // An agent profile names a model profile. Listing an empty set of agent profiles creates one that
    // names "default", so that one must exist.
    let profile = json!({ "include_secrets": true, "llm": llm });
    client.send(Method::POST, "/api/profiles/default", &profile)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_matches_the_requirements() {
        for package in ["agent-server", "sdk", "tools"] {
            let pinned = format!("openhands-{package}=={VERSION}\n");
            assert!(REQUIREMENTS.contains(&pinned), "{package}");
        }
    }
}
