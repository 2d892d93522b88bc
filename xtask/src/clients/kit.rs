//! What is installed together: the clients and servers of one SDK.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::console::Heartbeat;
use crate::layout::{Layout, create_dir, on_path};
use crate::process::Program;
use crate::registry;
use crate::services::openhands::install::base_python;

/// A folder of `tests/clients`.
pub(super) struct Kit {
    /// The name of the folder.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) clients: &'static [Client],
    /// The servers among it that the gateway is put in front of.
    servers: &'static [Server],
    tool: Tool,
}

/// A program of a kit.
pub(super) struct Client {
    /// What its lines begin with.
    pub(super) name: &'static str,
    file: &'static str,
}

/// A server of a kit, over stdio.
struct Server {
    /// The variable in which the tests find its command.
    variable: &'static str,
    file: &'static str,
}

/// What installs a kit and runs its programs.
enum Tool {
    Node,
    Python,
    Cargo,
}

/// All of them.
pub(super) const KITS: [Kit; 4] = [
    Kit {
        name: "inspector",
        clients: &[Client {
            name: "inspector",
            file: "matrix.mjs",
        }],
        servers: &[],
        tool: Tool::Node,
    },
    Kit {
        name: "typescript",
        clients: &[
            Client {
                name: "typescript-1",
                file: "v1.mjs",
            },
            Client {
                name: "typescript-2",
                file: "v2.mjs",
            },
        ],
        servers: &[
            Server {
                variable: "MCP_TEST_EVERYTHING",
                file: "node_modules/@modelcontextprotocol/server-everything/dist/index.js",
            },
            Server {
                variable: "MCP_TEST_FILESYSTEM",
                file: "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js",
            },
        ],
        tool: Tool::Node,
    },
    Kit {
        name: "python",
        clients: &[
            Client {
                name: "python-mcp",
                file: "sdk.py",
            },
            Client {
                name: "fastmcp",
                file: "fast.py",
            },
        ],
        servers: &[Server {
            variable: "MCP_TEST_PYTHON",
            file: "server.py",
        }],
        tool: Tool::Python,
    },
    Kit {
        name: "rmcp",
        clients: &[Client {
            name: "rmcp",
            file: "debug/rmcp-client",
        }],
        servers: &[Server {
            variable: "MCP_TEST_RMCP",
            file: "debug/rmcp-server",
        }],
        tool: Tool::Cargo,
    },
];

impl Kit {
    /// Installs what is not here yet; says why when it cannot be had on this machine.
    pub(super) fn install(&self, layout: &Layout) -> anyhow::Result<Option<String>> {
        let source = layout.root.join("tests/clients").join(self.name);
        let dir = self.dir(layout);
        let log = layout.fresh_log(&format!("clients-{}-install", self.name))?;
        let installed = match self.tool {
            Tool::Node => {
                if let Some(obstacle) = node_obstacle() {
                    return Ok(Some(obstacle));
                }
                self.install_once(layout, &source, "package-lock.json", || {
                    fs::copy(source.join("package.json"), dir.join("package.json"))?;
                    let npm = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
                    self.step(layout, &log, "npm".as_ref(), &npm)
                })
            }
            Tool::Python => {
                let Some(python) = base_python() else {
                    return Ok(Some("no Python 3.12 or 3.13 with venv found".to_owned()));
                };
                self.install_once(layout, &source, "requirements.txt", || {
                    self.step(layout, &log, &python, &["-m", "venv", "."])?;
                    let pip = [
                        "-m",
                        "pip",
                        "install",
                        "--no-input",
                        "-r",
                        "requirements.txt",
                    ];
                    self.step(layout, &log, &dir.join("bin/python"), &pip)
                })
            }
            Tool::Cargo => {
                create_dir(&dir)?;
                let manifest = source.join("Cargo.toml").display().to_string();
                let target = dir.display().to_string();
                let build = [
                    "build",
                    "--locked",
                    "--manifest-path",
                    &manifest,
                    "--target-dir",
                    &target,
                ];
                self.step(layout, &log, "cargo".as_ref(), &build)
            }
        };
        match installed {
            Ok(()) => Ok(None),
            Err(_) if registry::was_out_of_reach(&fs::read_to_string(&log)?) => Ok(Some(
                "no network, its registry could not be reached".to_owned(),
            )),
            Err(error) => Err(error).with_context(|| format!("see {}", layout.shown(&log))),
        }
    }

    /// What runs a client: a program, and the script that it is given.
    pub(super) fn program(&self, layout: &Layout, client: &Client) -> (OsString, Option<OsString>) {
        self.run(layout, client.file)
    }

    /// The variables that name the commands of its servers, each a list in JSON.
    pub(super) fn servers(&self, layout: &Layout) -> Vec<(&'static str, OsString)> {
        let command = |server: &Server| {
            let (program, script) = self.run(layout, server.file);
            // The tests hand no search path on.
            let program = on_path(&program.to_string_lossy()).map_or(program, PathBuf::into);
            let argv = [Some(program), script];
            let argv: Vec<_> = argv
                .iter()
                .flatten()
                .map(|part| part.to_string_lossy())
                .collect();
            (server.variable, serde_json::json!(argv).to_string().into())
        };
        self.servers.iter().map(command).collect()
    }

    fn run(&self, layout: &Layout, file: &str) -> (OsString, Option<OsString>) {
        let file = self.dir(layout).join(file).into_os_string();
        match self.tool {
            Tool::Node => ("node".into(), Some(file)),
            Tool::Python => (self.dir(layout).join("bin/python").into(), Some(file)),
            Tool::Cargo => (file, None),
        }
    }

    fn dir(&self, layout: &Layout) -> PathBuf {
        layout.backends().join("clients").join(self.name)
    }

    /// Installs anew when the lock is another one than that of the last time, and puts the
    /// scripts beside what they import.
    fn install_once(
        &self,
        layout: &Layout,
        source: &Path,
        lock: &str,
        install: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let dir = self.dir(layout);
        let wanted = fs::read(source.join(lock))?;
        if dir.exists() && !fs::read(dir.join(lock)).is_ok_and(|found| found == wanted) {
            fs::remove_dir_all(&dir)?;
        }
        layout.install_once(self.name, &dir, || {
            fs::write(dir.join(lock), &wanted)?;
            install()
        })?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), dir.join(entry.file_name()))?;
            }
        }
        Ok(())
    }

    fn step(
        &self,
        layout: &Layout,
        log: &Path,
        program: &Path,
        args: &[&str],
    ) -> anyhow::Result<()> {
        let step = match self.tool {
            Tool::Cargo => format!("building {}", self.name),
            _ => format!("installing {}", self.name),
        };
        Program::new(program)?
            .args(args)
            .envs([
                ("npm_config_update_notifier", "false"),
                // Without a network this gives up in seconds, not in minutes.
                ("npm_config_fetch_retry_mintimeout", "1000"),
                ("npm_config_fetch_retry_maxtimeout", "5000"),
                ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ])
            .dir(&self.dir(layout))
            .log_to(log)?
            .run(&layout.stop, &mut Heartbeat::start("clients", step))
    }
}

/// Why the clients in JavaScript cannot run here.
fn node_obstacle() -> Option<String> {
    const OLDEST: u32 = 20;
    if on_path("npm").is_none() {
        return Some("npm is not installed".to_owned());
    }
    let asked = Command::new("node")
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let version = asked.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    let major = version
        .as_deref()
        .unwrap_or_default()
        .trim_start_matches('v')
        .split('.')
        .next();
    match major.and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= OLDEST => None,
        _ => Some(format!("Node.js {OLDEST} or newer is not installed")),
    }
}
