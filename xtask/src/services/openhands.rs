//! A local OpenHands agent server and its model. It comes from PyPI, with every dependency pinned. Other versions use the
//! dependencies of the current one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use ureq::http::Method;

use super::{Environment, Service};
use crate::http::Client;
use crate::install::{self, Package};
use crate::instance::{Instance, Purpose};
use crate::layout::{create_dir, path_with};
use crate::process::{Process, Program};
use crate::{scripted_llm, secrets};

pub(crate) const API_KEY: &str = "api-key";

/// The folder of an instance for tasks.
pub(crate) const WORKSPACE: &str = "workspace";

/// The version of the requirements. 1.58.1 and 1.58.2 require a version of certifi that PyPI does not have.
const VERSION: &str = "1.58.0";

/// The version that `openhands-ai` 1.11 brings.
pub(crate) const VERSION_OF_APP: &str = "1.34.0";

/// The oldest version that the server supports.
pub(crate) const OLDEST: &str = "1.31.2";

const PACKAGES: [&str; 3] = ["agent-server", "sdk", "tools"];

/// Packages in place of the newest ones: versions as old as 1.34 fail with starlette 1.0 and newer.
const REPLACED: &str = "fastapi==0.128.0 starlette==0.50.0";

const REQUIREMENTS: &str = include_str!("../../backends/openhands/requirements.txt");

const START_TIMEOUT: Duration = Duration::from_secs(180);

/// An agent server of this version.
pub(crate) struct OpenHands(pub(crate) &'static str);

pub(crate) static CURRENT: OpenHands = OpenHands(VERSION);

/// Returns true if an OpenHands agent server answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let response = Client::new(url, Duration::from_secs(2)).get("/server_info");
    response.is_ok_and(|response| response.json["sdk_version"].is_string())
}

impl OpenHands {
    fn is_current(&self) -> bool {
        self.0 == VERSION
    }

    fn package(&self) -> Package {
        Package::new(self.name(), &format!("openhands-{}", self.0))
    }

    /// Returns the Python of all versions, which has the dependencies.
    fn python() -> PathBuf {
        CURRENT.package().dir.join("bin/python")
    }

    /// The settings of a local one of this version.
    fn own_settings(&self) -> Environment {
        let mut settings: Environment = ["OH_ENABLE_VSCODE", "OH_ENABLE_BROWSER"]
            .map(|name| (name, "false".into()))
            .into();
        settings.push(("OPENHANDS_SUPPRESS_BANNER", "1".into()));
        if !self.is_current() {
            settings.push(("PYTHONPATH", self.package().dir.into()));
        }
        settings
    }

    /// The command with which a test starts one of its own.
    fn command(&self) -> String {
        let settings = SETTINGS.map(|(name, value)| (name, value.into()));
        let settings = settings.into_iter().chain(self.own_settings());
        let settings = settings.map(|(name, value)| format!("{name}={}", value.to_string_lossy()));
        let python = Self::python().to_string_lossy().into_owned();
        let mut command = vec!["env".to_owned()];
        command.extend(settings);
        command.push(python);
        command.extend(["-m", "openhands.agent_server"].map(str::to_owned));
        json!(command).to_string()
    }

    /// Installs what differs into a folder that comes first on Python's path: 7 MB and 2 s instead of 550 MB and a minute.
    fn install_over_current(&self) -> Result<()> {
        let package = self.package();
        package.install(REPLACED, |_| {
            let own = PACKAGES.map(|name| format!("openhands-{name}=={}", self.0));
            let pip = "-m pip install --no-compile --no-deps --target .";
            let pip = format!("{pip} {} {REPLACED}", own.join(" "));
            let step = format!("downloading OpenHands {}", self.0);
            package.run(&step, &Self::python(), &pip)
        })
    }
}

impl Service for OpenHands {
    fn name(&self) -> &'static str {
        match self.is_current() {
            true => "openhands",
            false => "openhands-other",
        }
    }

    fn obstacle(&self) -> Option<String> {
        self.to_fetch()?;
        let why = "no Python 3.12 or 3.13 with venv found (PATH, pyenv), and a local OpenHands needs it; \
                   or set OPENHANDS_URL and OPENHANDS_API_KEY to use another one";
        install::find_python().is_none().then(|| why.to_owned())
    }

    fn to_fetch(&self) -> Option<String> {
        let size = "about 550 MB on disk, 1 to 3 minutes";
        let what = format!("OpenHands agent server {} from PyPI: {size}", self.0);
        (!self.package().is_complete()).then_some(what)
    }

    fn install(&self) -> Result<()> {
        install::install_python(&CURRENT.package(), REQUIREMENTS)?;
        match self.is_current() {
            true => Ok(()),
            false => self.install_over_current(),
        }
    }

    fn start(&self, instance: &Instance) -> Result<Process> {
        let (key, client) = client(instance)?;
        let model = model(instance.purpose)?;
        for folder in [WORKSPACE, "home"] {
            create_dir(&instance.file(folder))?;
        }
        let program = Program::new(Self::python())
            .words("-m openhands.agent_server --host 127.0.0.1 --port")
            .args([instance.port.to_string()])
            .envs(environment(instance)?)
            .envs([
                ("OH_SESSION_API_KEYS_0", key.into()),
                ("OH_CONVERSATIONS_PATH", instance.file("conversations")),
                ("OH_WORKSPACE_PATH", instance.file(WORKSPACE)),
                ("OH_BASH_EVENTS_DIR", instance.file("bash-events")),
            ])
            .envs(self.own_settings())
            .dir(&instance.dir);
        let step = format!("starting OpenHands {} on {}", self.0, instance.url());
        let ready = || client.is_up("/ready");
        let process = instance.start(&step, START_TIMEOUT, program, ready)?;
        set_model(&client, &model).context("could not set its model")?;
        Ok(process)
    }

    fn test_environment(&self, instance: &Instance) -> Environment {
        vec![
            ("MCP_TEST_OPENHANDS_URL", instance.url().into()),
            ("MCP_TEST_OPENHANDS_API_KEY", instance.secret(API_KEY)),
            ("MCP_TEST_OPENHANDS_COMMAND", self.command().into()),
        ]
    }
}

/// Settings of all instances.
const SETTINGS: [(&str, &str); 6] = [
    ("OH_PRELOAD_TOOLS", "false"),
    // As in sandboxes. To print a formatted traceback, 1.34 stops for up to 10 s on a busy machine.
    ("LOG_JSON", "true"),
    ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
    ("DO_NOT_TRACK", "1"),
    // By default a terminal has a lower priority. Its shell then starts late on a busy machine, and the prompt that
    // comes late is taken for the end of the first command.
    ("OH_TERMINAL_PROCESS_PRIORITY", "none"),
    // A step and a pause hold a thread each, of a pool with four more than processors: on two
    // processors the tests fill it, and no request is answered for 10 s (Python 3.13 and newer).
    ("PYTHON_CPU_COUNT", "16"),
];

fn environment(instance: &Instance) -> Result<Environment> {
    // Encrypts its settings, which are lost if the next start has another key.
    let secret_key = secrets::read_or_create(&instance.file("secret-key"), "")?;
    let settings = SETTINGS.map(|(name, value)| (name, value.into()));
    let own = [
        ("OH_SECRET_KEY", secret_key.into()),
        // For its settings and caches; not the home of the user.
        ("HOME", instance.file("home").into()),
    ];
    Ok(settings.into_iter().chain(own).collect())
}

/// Returns a client with the key of an instance, which is created if it is missing.
fn client(instance: &Instance) -> Result<(String, Client)> {
    let key = secrets::read_or_create(&instance.file(API_KEY), "")?;
    let client = Client::at(instance.port, Duration::from_secs(10));
    let client = client.with("X-Session-API-Key", key.as_str());
    Ok((key, client))
}

/// Returns the settings of the agent's model: the scripted one, or for a person the one that the environment names.
fn model(purpose: Purpose) -> Result<Value> {
    if purpose == Purpose::Test {
        return scripted_model();
    }
    let var = |name| std::env::var(name).ok();
    if let Some(model) = var("LLM_MODEL").filter(|model| !model.is_empty()) {
        print_as!("openhands", "the model is {model}, as LLM_MODEL says");
        let (key, url) = (var("LLM_API_KEY"), var("LLM_BASE_URL"));
        return Ok(json!({ "model": model, "api_key": key, "base_url": url }));
    }
    let line =
        "no model is configured (LLM_MODEL, LLM_API_KEY, LLM_BASE_URL). The scripted model on";
    print_as!("openhands", "{line}");
    let line = "loopback does what lines of the task say, such as `RUN: ls` and `FINISH: done`";
    print_as!("openhands", "{line}");
    scripted_model()
}

/// Returns the settings of the scripted model, which then serves until this process ends.
fn scripted_model() -> Result<Value> {
    let address = scripted_llm::serve_in_background()?;
    Ok(json!({
        "model": "openai/scripted",
        "api_key": "none",
        "base_url": format!("http://{address}/v1"),
        "num_retries": 0,
        "reasoning_effort": "none",
    }))
}

fn set_model(client: &Client, llm: &Value) -> Result<()> {
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

const APP_VERSION: &str = "1.11.0";

/// The program that starts the app server, which says what it changes for sandboxes as processes on loopback.
const START: &str = include_str!("../../backends/openhands-app/start.py");
const AGENT_SERVER: &str = include_str!("../../backends/openhands-app/agent_server_on_loopback.py");

/// A stub of the browser that its agents need for web pages only.
const STUB: &str = "#!/bin/sh\nexit 1\n";

/// The V1 app server of OpenHands, with its sandboxes as processes on loopback.
pub(crate) struct OpenHandsApp;

fn app_package() -> Package {
    Package::new("openhands", &format!("openhands-ai-{APP_VERSION}"))
}

impl Service for OpenHandsApp {
    fn name(&self) -> &'static str {
        "openhands-ai"
    }

    /// It pins most of its dependencies itself.
    fn install(&self) -> Result<()> {
        let requirements = format!("openhands-ai=={APP_VERSION}\n");
        install::install_python(&app_package(), &requirements).map(drop)
    }

    fn start(&self, instance: &Instance) -> Result<Process> {
        let (key, client) = client(instance)?;
        for folder in ["bin", "data", "home", "sandboxes", "tmux"] {
            create_dir(&instance.file(folder))?;
        }
        fs::write(instance.file("start.py"), START)?;
        fs::write(instance.file("agent_server_on_loopback.py"), AGENT_SERVER)?;
        let stub = instance.file("bin/chromium");
        fs::write(&stub, STUB)?;
        fs::set_permissions(&stub, Permissions::from_mode(0o755))?;
        let program = Program::new(app_package().dir.join("bin/python"))
            .args(["start.py", &instance.port.to_string()])
            .envs(environment(instance)?)
            .envs([
                ("PATH", path_with([instance.file("bin")])?.into()),
                ("PYTHONPATH", instance.dir.clone()),
                ("RUNTIME", "process".into()),
                ("SERVE_FRONTEND", "false".into()),
                ("SESSION_API_KEY", key.into()),
                ("OH_PERSISTENCE_DIR", instance.file("data")),
                ("TMPDIR", instance.file("sandboxes")),
            ])
            .dir(&instance.dir);
        let step = format!("starting openhands-ai {APP_VERSION} on {}", instance.url());
        let ready = || client.is_up("/api/v1/app-conversations/count");
        let process = instance.start(&step, START_TIMEOUT, program, ready)?;
        let settings = json!({ "agent_settings_diff": { "llm": scripted_model()? } });
        let set = client.send(Method::POST, "/api/v1/settings", &settings);
        set.context("could not set its model")?;
        Ok(process)
    }

    fn test_environment(&self, instance: &Instance) -> Environment {
        vec![
            ("MCP_TEST_OPENHANDS_APP_URL", instance.url().into()),
            ("MCP_TEST_OPENHANDS_APP_API_KEY", instance.secret(API_KEY)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_matches_the_requirements() {
        for package in PACKAGES {
            let pinned = format!("openhands-{package}=={VERSION}\n");
            assert!(REQUIREMENTS.contains(&pinned), "{package}");
        }
    }
}
