//! The V1 app server of OpenHands, with its sandboxes as processes on loopback. `start.py` says what it
//! changes for that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use ureq::http::Method;

use super::openhands::{API_KEY, scripted_model};
use super::{Environment, Service};
use crate::http::Client;
use crate::install::{self, Package};
use crate::instance::Instance;
use crate::layout::{Layout, create_dir, path_with};
use crate::process::{Process, Program};
use crate::secrets;

const VERSION: &str = "1.11.0";

const START: &str = include_str!("../../backends/openhands-app/start.py");
const AGENT_SERVER: &str = include_str!("../../backends/openhands-app/agent_server_on_loopback.py");

/// The first start migrates the database.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A stub of the browser that its agents need for web pages only.
const STUB: &str = "#!/bin/sh\nexit 1\n";

#[derive(Debug)]
pub(crate) struct OpenHandsApp;

fn package(layout: &Layout) -> Package<'_> {
    Package::new(layout, "openhands", &format!("openhands-ai-{VERSION}"))
}

impl Service for OpenHandsApp {
    fn name(&self) -> &'static str {
        "openhands-ai"
    }

    fn obstacle(&self, layout: &Layout) -> Option<String> {
        self.to_fetch(layout)?;
        let is_missing = install::find_python().is_none();
        is_missing.then(|| "no Python 3.12 or 3.13 with venv found (PATH, pyenv)".into())
    }

    fn to_fetch(&self, layout: &Layout) -> Option<String> {
        let what =
            format!("openhands-ai {VERSION} from PyPI: about 1.4 GB on disk, about 5 minutes");
        (!package(layout).is_complete()).then_some(what)
    }

    /// It pins most of its dependencies itself.
    fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        install::install_python(&package(layout), &format!("openhands-ai=={VERSION}\n"))
    }

    fn start(&self, layout: &Layout, instance: &Instance) -> anyhow::Result<Process> {
        let key = secrets::read_or_create(&instance.file(API_KEY), "")?;
        let secret_key = secrets::read_or_create(&instance.file("secret-key"), "")?;
        for folder in ["bin", "data", "home", "sandboxes", "tmux"] {
            create_dir(&instance.file(folder))?;
        }
        fs::write(instance.file("start.py"), START)?;
        fs::write(instance.file("agent_server_on_loopback.py"), AGENT_SERVER)?;
        let stub = instance.file("bin/chromium");
        fs::write(&stub, STUB)?;
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755))?;
        let file = |name| instance.file(name).into_os_string();
        let program = Program::new(package(layout).dir.join("bin/python"))?
            .args([file("start.py"), instance.port.to_string().into()])
            .envs([
                ("PATH", path_with([instance.file("bin")])?),
                ("PYTHONPATH", instance.dir.clone().into()),
                ("RUNTIME", "process".into()),
                ("SERVE_FRONTEND", "false".into()),
                ("SESSION_API_KEY", key.clone().into()),
                ("OH_SECRET_KEY", secret_key.into()),
                ("OH_PERSISTENCE_DIR", file("data")),
                ("TMPDIR", file("sandboxes")),
                ("HOME", file("home")),
                ("OH_PRELOAD_TOOLS", "false".into()),
                ("LOG_JSON", "true".into()),
                ("LITELLM_LOCAL_MODEL_COST_MAP", "True".into()),
                ("DO_NOT_TRACK", "1".into()),
                ("PYTHON_CPU_COUNT", "16".into()),
            ])
            .dir(&instance.dir);
        let step = format!("starting openhands-ai {VERSION} on {}", instance.url());
        let client = Client::new(&instance.url(), Duration::from_secs(10));
        let client = client.with("X-Session-API-Key", key);
        let ready = || client.is_up("/api/v1/app-conversations/count");
        let process = instance.start(layout, &step, START_TIMEOUT, program, ready)?;
        let settings = json!({ "agent_settings_diff": { "llm": scripted_model()? } });
        let set = client.send(Method::POST, "/api/v1/settings", &settings);
        set.context("could not set its model")?;
        Ok(process)
    }

    fn test_environment(&self, _layout: &Layout, instance: &Instance) -> Environment {
        let key = secrets::read(&instance.file(API_KEY)).unwrap_or_default();
        vec![
            ("MCP_TEST_OPENHANDS_APP_URL", instance.url().into()),
            ("MCP_TEST_OPENHANDS_APP_API_KEY", key.into()),
        ]
    }
}
