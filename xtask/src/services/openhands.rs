//! A local OpenHands agent server and its model. It comes from PyPI, with every dependency pinned.
//! Other versions use the dependencies of the current one.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;
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

/// The current version; the requirements say the same. 1.58.1 and 1.58.2 require a version of certifi
/// that PyPI does not have.
const VERSION: &str = "1.58.0";

/// The version that `openhands-ai` 1.11 brings.
const VERSION_OF_APP: &str = "1.34.0";

/// The oldest version that the server supports.
pub(crate) const OLDEST: &str = "1.30.0";

/// The packages that other versions have in place of the current one's. Agent servers as old as 1.34 fail
/// with starlette 1.0 and newer.
const PACKAGES: [&str; 3] = ["agent-server", "sdk", "tools"];
const REPLACED: &str = "fastapi==0.128.0 starlette==0.50.0";

const REQUIREMENTS: &str = include_str!("../../backends/openhands/requirements.txt");

const START_TIMEOUT: Duration = Duration::from_secs(180);

/// An agent server of one version.
#[derive(Debug)]
pub(crate) struct OpenHands {
    name: &'static str,
    version: Cow<'static, str>,
}

pub(crate) static CURRENT: OpenHands = OpenHands {
    name: "openhands",
    version: Cow::Borrowed(VERSION),
};

pub(crate) static OF_APP: OpenHands = OpenHands {
    name: "openhands-app",
    version: Cow::Borrowed(VERSION_OF_APP),
};

/// Returns true if an OpenHands agent server answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let response = Client::new(url, Duration::from_secs(2)).get("/server_info");
    response.is_ok_and(|response| response.json["sdk_version"].is_string())
}

impl OpenHands {
    /// Creates the service for any version.
    pub(crate) fn new(version: &str) -> Self {
        Self {
            name: "openhands-other",
            version: version.to_owned().into(),
        }
    }

    fn is_current(&self) -> bool {
        self.version == VERSION
    }

    fn package<'a>(&self, layout: &'a Layout) -> Package<'a> {
        Package::new(layout, self.name, &format!("openhands-{}", self.version))
    }

    /// Installs the current version and returns its Python, which all versions use.
    pub(crate) fn install_python(layout: &Layout) -> anyhow::Result<PathBuf> {
        CURRENT.install(layout)?;
        Ok(Self::python(layout))
    }

    /// Returns the Python of all versions, which has the dependencies.
    fn python(layout: &Layout) -> PathBuf {
        CURRENT.package(layout).dir.join("bin/python")
    }

    /// Installs the packages that differ into a folder that comes first on Python's path: 7 MB and 2 s
    /// instead of 550 MB and a minute.
    fn install_over_current(&self, layout: &Layout) -> anyhow::Result<()> {
        let package = self.package(layout);
        package.install(REPLACED, |dir| {
            let own = PACKAGES.map(|name| format!("openhands-{name}=={}", self.version));
            let requirements = format!("{} {REPLACED}", own.join(" "));
            fs::write(
                dir.join("requirements.txt"),
                requirements.replace(' ', "\n"),
            )?;
            let pip = "-m pip install --no-compile --no-deps --target . -r requirements.txt";
            let step = format!("downloading OpenHands {}", self.version);
            package.run(&step, &Self::python(layout), pip)
        })
    }
}

impl Service for OpenHands {
    fn name(&self) -> &'static str {
        self.name
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
        let what = format!("OpenHands agent server {} from PyPI: {size}", self.version);
        (!self.package(layout).is_complete()).then_some(what)
    }

    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        install::install_python(&CURRENT.package(layout), REQUIREMENTS)?;
        match self.is_current() {
            true => Ok(()),
            false => self.install_over_current(layout),
        }
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let key = secrets::read_or_create(&instance.file(API_KEY), "")?;
        let model = model(instance.purpose)?;
        for folder in [WORKSPACE, "home"] {
            create_dir(&instance.file(folder))?;
        }
        let mut program = Program::new(Self::python(layout))?
            .words("-m openhands.agent_server --host 127.0.0.1 --port")
            .args([instance.port.to_string()])
            .envs(environment(instance, &key)?)
            .dir(&instance.dir);
        if !self.is_current() {
            program = program.envs([("PYTHONPATH", self.package(layout).dir)]);
        }
        let step = format!("starting OpenHands {} on {}", self.version, instance.url());
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
        // As in sandboxes. To print a formatted traceback, 1.34 stops for up to 10 s on a busy machine.
        ("LOG_JSON", "true".into()),
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
    print("no model is configured (LLM_MODEL, LLM_API_KEY, LLM_BASE_URL). The scripted model on");
    print("loopback does what lines of the task say, such as `RUN: ls` and `FINISH: done`");
    scripted_model()
}

/// Returns the settings of the scripted model, which then serves until this process ends.
pub(crate) fn scripted_model() -> anyhow::Result<Value> {
    let address = scripted_llm::serve_in_background(0)?;
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
    // Tests name that agent profile.
    client.get("/api/agent-profiles")?;
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
