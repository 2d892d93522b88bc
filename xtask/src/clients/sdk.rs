//! Installs the clients and servers of one SDK.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde_json::json;

use crate::install::{self, Package};
use crate::layout::{self, on_path};
use crate::process::Program;
use crate::services::Environment;

pub(super) struct Sdk {
    pub(super) name: &'static str,
    /// The folder of its files in `tests/clients`.
    folder: &'static str,
    /// Its clients: the prefixes of their lines, their files, and the servers that they call.
    pub(super) clients: Clients,
    /// Its servers for tests of the gateway, over stdio: the variables with the commands, and their files.
    servers: &'static [(&'static str, &'static str)],
    tool: Tool,
}

/// How many servers clients call: the fixture, also the gateway in front of it, or also each of our other servers,
/// without its service.
const ONE: usize = 1;
const BOTH: usize = 2;
const ALL: usize = usize::MAX;

/// The tool that installs an SDK and runs its programs.
enum Tool {
    Node,
    /// With the file that pins its packages.
    Python(&'static str),
    Cargo,
}

pub(super) static SDKS: [Sdk; 9] = [
    Sdk::new("inspector", Tool::Node, &[("inspector", "matrix.mjs", ONE)]),
    Sdk::new("browser", Tool::Node, &[("browser", "browser.mjs", BOTH)]),
    // People with the page of the gateway, which it starts itself.
    Sdk::new("page", Tool::Node, &[("page", "page.mjs", ONE)]),
    Sdk {
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
        ..Sdk::new(
            "typescript",
            Tool::Node,
            &[
                ("typescript-1", "v1.mjs", BOTH),
                ("typescript-2", "v2.mjs", BOTH),
                ("ai-sdk", "ai-sdk.mjs", BOTH),
                ("mcp-remote", "remote.mjs", ALL),
            ],
        )
    },
    Sdk {
        servers: &[
            ("MCP_TEST_PYTHON", "server.py"),
            ("MCP_TEST_FASTMCP", "fast_server.py"),
        ],
        ..Sdk::new(
            "python",
            Tool::Python("requirements.txt"),
            &[
                ("python-mcp", "sdk.py", BOTH),
                ("fastmcp", "fast.py", BOTH),
                ("pydantic-ai", "pydantic_tools.py", BOTH),
            ],
        )
    },
    // The frameworks that need version 1 of the SDK.
    Sdk {
        folder: "python",
        ..Sdk::new(
            "python-1",
            Tool::Python("requirements-1.txt"),
            &[
                ("langchain", "langchain_tools.py", BOTH),
                ("openai-agents", "openai_agents.py", BOTH),
            ],
        )
    },
    // Logs in to issuers of tokens, with the Python SDK above, too. It starts its servers itself.
    Sdk::new(
        "oauth",
        Tool::Node,
        &[
            ("oauth", "oauth.mjs", ONE),
            ("oauth-gateway", "gateway.mjs", ONE),
        ],
    ),
    // A collector of OpenTelemetry. It starts its servers itself.
    Sdk::new(
        "otel",
        Tool::Python("requirements.txt"),
        &[("otel", "otel.py", ONE)],
    ),
    Sdk {
        servers: &[("MCP_TEST_RMCP", "debug/rmcp-server")],
        ..Sdk::new("rmcp", Tool::Cargo, &[("rmcp", "debug/rmcp-client", BOTH)])
    },
];

type Clients = &'static [(&'static str, &'static str, usize)];

impl Sdk {
    const fn new(name: &'static str, tool: Tool, clients: Clients) -> Self {
        Self {
            name,
            folder: name,
            clients,
            servers: &[],
            tool,
        }
    }

    fn package(&self) -> Package {
        Package::new("clients", &format!("clients/{}", self.name))
    }

    /// Installs it if it is missing or its lock has changed; copies the scripts beside the packages that they import.
    pub(super) fn install(&self) -> Result<()> {
        let has_browser = matches!(self.name, "browser" | "page");
        if has_browser && !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            bail!("its Chromium is for Linux on x86-64");
        }
        let package = self.package();
        let source = layout::root().join("tests/clients").join(self.folder);
        match self.tool {
            Tool::Node => {
                needs_node()?;
                install::install_node(&package, &source, self.name)?
            }
            Tool::Python(packages) => {
                let requirements = fs::read_to_string(source.join(packages))?;
                install::install_python(&package, &requirements)?
            }
            Tool::Cargo => {
                // Cargo itself skips what is built.
                let build = Program::new("cargo")
                    .words("build --locked")
                    .option("--manifest-path", source.join("Cargo.toml"))
                    .option("--target-dir", &package.dir);
                return package.step(&format!("building {}", self.name), 0, build);
            }
        };
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), package.dir.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    /// Returns the command for one of its files: the file alone, or after the program that runs it.
    fn command(&self, file: &str) -> Vec<PathBuf> {
        let dir = self.package().dir;
        let file = dir.join(file);
        match self.tool {
            // The tests start it without a search path.
            Tool::Node => vec![on_path("node").unwrap_or_else(|| "node".into()), file],
            Tool::Python(_) => vec![dir.join("bin/python"), file],
            Tool::Cargo => vec![file],
        }
    }

    pub(super) fn program(&self, file: &str) -> Program {
        let command = self.command(file);
        Program::new(&command[0]).args(&command[1..])
    }

    /// Returns the variables that name the commands of its servers, each a list in JSON.
    pub(super) fn servers(&self) -> Environment {
        let command = |(variable, file): &(&'static str, &str)| {
            let words = json!(self.command(file));
            (*variable, words.to_string().into())
        };
        self.servers.iter().map(command).collect()
    }
}

fn needs_node() -> Result<()> {
    const IS_OLD: &str = "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)";
    ensure!(on_path("npm").is_some(), "npm is not installed");
    let node = Command::new("node").args(["-e", IS_OLD]).status();
    let is_new = node.is_ok_and(|status| status.success());
    ensure!(is_new, "Node.js 20 or newer is not installed");
    Ok(())
}
