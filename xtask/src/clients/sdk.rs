//! Installs the clients and servers of one SDK.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;
use serde_json::json;

use crate::install::{self, Package, unavailable};
use crate::layout::{Layout, on_path};
use crate::process::Program;
use crate::servers::SERVERS;
use crate::services::Environment;

pub(super) struct Sdk {
    pub(super) name: &'static str,
    /// The folder of its files in `tests/clients`.
    folder: &'static str,
    /// Its clients: the prefixes of their lines, their files, and the servers that they call.
    pub(super) clients: &'static [(&'static str, &'static str, &'static [Target])],
    /// Its servers for tests of the gateway, over stdio: the variables in which the tests find the
    /// commands, and their files.
    servers: &'static [(&'static str, &'static str)],
    tool: Tool,
}

/// A server that clients call.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Fixture,
    /// The gateway in front of the fixture.
    Gateway,
    /// One of our servers, without its service.
    Server(&'static str),
}

use Target::{Fixture, Gateway};

const BOTH: &[Target] = &[Fixture, Gateway];
const ALL: &[Target] = &[
    Fixture,
    Gateway,
    Target::Server(SERVERS[0].program),
    Target::Server(SERVERS[1].program),
    Target::Server(SERVERS[2].program),
];

/// The tool that installs an SDK and runs its programs.
enum Tool {
    Node,
    /// With the file that pins its packages.
    Python(&'static str),
    Cargo,
}

pub(super) static SDKS: [Sdk; 9] = [
    Sdk {
        name: "inspector",
        folder: "inspector",
        clients: &[("inspector", "matrix.mjs", &[Fixture])],
        servers: &[],
        tool: Tool::Node,
    },
    Sdk {
        name: "browser",
        folder: "browser",
        clients: &[("browser", "browser.mjs", BOTH)],
        servers: &[],
        tool: Tool::Node,
    },
    // People with the page of the gateway, which it starts itself.
    Sdk {
        name: "page",
        folder: "page",
        clients: &[("page", "page.mjs", &[Fixture])],
        servers: &[],
        tool: Tool::Node,
    },
    Sdk {
        name: "typescript",
        folder: "typescript",
        clients: &[
            ("typescript-1", "v1.mjs", BOTH),
            ("typescript-2", "v2.mjs", BOTH),
            ("ai-sdk", "ai-sdk.mjs", BOTH),
            ("mcp-remote", "remote.mjs", ALL),
        ],
        servers: &[
            (
                "MCP_TEST_EVERYTHING",
                "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            ),
            (
                "MCP_TEST_FILESYSTEM",
                "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
            ),
        ],
        tool: Tool::Node,
    },
    Sdk {
        name: "python",
        folder: "python",
        clients: &[
            ("python-mcp", "sdk.py", BOTH),
            ("fastmcp", "fast.py", BOTH),
            ("pydantic-ai", "pydantic_tools.py", BOTH),
        ],
        servers: &[
            ("MCP_TEST_PYTHON", "server.py"),
            ("MCP_TEST_FASTMCP", "fast_server.py"),
        ],
        tool: Tool::Python("requirements.txt"),
    },
    // The frameworks that need version 1 of the SDK.
    Sdk {
        name: "python-1",
        folder: "python",
        clients: &[
            ("langchain", "langchain_tools.py", BOTH),
            ("openai-agents", "openai_agents.py", BOTH),
        ],
        servers: &[],
        tool: Tool::Python("requirements-1.txt"),
    },
    // Logs in to issuers of tokens, with the Python SDK above, too. It starts its servers itself.
    Sdk {
        name: "oauth",
        folder: "oauth",
        clients: &[
            ("oauth", "oauth.mjs", &[Fixture]),
            ("oauth-gateway", "gateway.mjs", &[Fixture]),
        ],
        servers: &[],
        tool: Tool::Node,
    },
    // A collector of OpenTelemetry. It starts its servers itself.
    Sdk {
        name: "otel",
        folder: "otel",
        clients: &[("otel", "otel.py", &[Fixture])],
        servers: &[],
        tool: Tool::Python("requirements.txt"),
    },
    Sdk {
        name: "rmcp",
        folder: "rmcp",
        clients: &[("rmcp", "debug/rmcp-client", BOTH)],
        servers: &[("MCP_TEST_RMCP", "debug/rmcp-server")],
        tool: Tool::Cargo,
    },
];

impl Sdk {
    fn package<'a>(&self, layout: &'a Layout) -> Package<'a> {
        Package::new(layout, "clients", &format!("clients/{}", self.name))
    }

    /// Installs it if it is missing or its lock has changed; copies the scripts beside the packages
    /// that they import.
    ///
    /// # Errors
    /// [`crate::install::Unavailable`] if it is not possible on this machine, among others.
    pub(super) fn install(&self, layout: &Layout) -> anyhow::Result<()> {
        let has_browser = matches!(self.name, "browser" | "page");
        if has_browser && !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!(unavailable("its Chromium is for Linux on x86-64"));
        }
        let package = self.package(layout);
        let source = layout.root.join("tests/clients").join(self.folder);
        match self.tool {
            Tool::Node => {
                needs_node()?;
                install::install_node(&package, &source, self.name)?;
            }
            Tool::Python(packages) => {
                let requirements = fs::read_to_string(source.join(packages))?;
                install::install_python(&package, &requirements)?;
            }
            Tool::Cargo => {
                // Cargo itself skips what is built.
                let build = Program::new("cargo")?
                    .words("build --locked --manifest-path")
                    .args([source.join("Cargo.toml")])
                    .args(["--target-dir".as_ref(), package.dir.as_os_str()]);
                return package.step(&format!("building {}", self.name), build);
            }
        }
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), package.dir.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Returns the command for one of its files: a program, and a script as its argument.
    pub(super) fn command(&self, layout: &Layout, file: &str) -> (OsString, Option<OsString>) {
        let dir = self.package(layout).dir;
        let file = dir.join(file).into_os_string();
        match self.tool {
            Tool::Node => ("node".into(), Some(file)),
            Tool::Python(_) => (dir.join("bin/python").into(), Some(file)),
            Tool::Cargo => (file, None),
        }
    }

    /// Returns the variables that name the commands of its servers, each a list in JSON.
    pub(super) fn servers(&self, layout: &Layout) -> Environment {
        let command = |(variable, file): &(&'static str, &str)| {
            let (program, script) = self.command(layout, file);
            // The tests start it without a search path.
            let program = on_path(&program.to_string_lossy()).map_or(program, PathBuf::into);
            let words = [Some(program), script].into_iter().flatten();
            let words: Vec<_> = words
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            (*variable, json!(words).to_string().into())
        };
        self.servers.iter().map(command).collect()
    }
}

/// Errors if the clients in JavaScript cannot run.
fn needs_node() -> anyhow::Result<()> {
    const OLDEST: u32 = 20;
    if on_path("npm").is_none() {
        bail!(unavailable("npm is not installed"));
    }
    let output = Command::new("node").arg("--version").output();
    let version = output.map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    let major = version.trim_start_matches('v').split('.').next();
    let major: Option<u32> = major.and_then(|major| major.parse().ok());
    if major.is_none_or(|major| major < OLDEST) {
        bail!(unavailable(format!(
            "Node.js {OLDEST} or newer is not installed"
        )));
    }
    Ok(())
}
