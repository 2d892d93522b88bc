//! The checks of installed packages.

pub(crate) mod crates;
pub(crate) mod homebrew;
pub(crate) mod linux;
pub(crate) mod mcpb;
pub(crate) mod npm;
pub(crate) mod oci;
mod root;
pub(crate) mod sbom;
pub(crate) mod server_json;
pub(crate) mod tar;
pub(crate) mod wheel;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::{Build, Product};
use crate::layout::{Layout, create_dir};

/// An installed program answers in this time, on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The input of the check of a format.
pub(crate) struct Context<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) products: &'a [Product],
    pub(crate) build: &'a Build,
    /// The packages.
    pub(crate) files: &'a [PathBuf],
}

impl Context<'_> {
    /// Creates an empty folder for the check of a format. It is removed when it is dropped.
    pub(crate) fn fresh(&self, format: &str) -> anyhow::Result<Fresh> {
        let dir = self.layout.target.join("package/check").join(format);
        let _ = std::fs::remove_dir_all(&dir);
        create_dir(&dir)?;
        Ok(Fresh(dir))
    }
}

/// A folder that is removed when it is dropped.
pub(crate) struct Fresh(PathBuf);

impl std::ops::Deref for Fresh {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program that must succeed, and returns its output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error}{text}");
    Ok(text)
}

/// Starts an installed program, which must be a server over stdio, and checks that it introduces itself as this
/// product and lists its tools. The services of this machine are not used: variables are removed but for `PATH`
/// and those that the command sets.
pub(crate) fn answers(
    command: &mut Command,
    product: &Product,
    version: &str,
) -> anyhow::Result<()> {
    let set: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
        .envs(set)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let result = converse(&mut child, product, version);
    let _ = child.kill();
    let _ = child.wait();
    result.with_context(|| {
        let mut log = String::new();
        let stderr = child.stderr.take();
        let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut log));
        format!("{command:?}: {log:.500}")
    })
}

fn converse(child: &mut Child, product: &Product, version: &str) -> anyhow::Result<()> {
    let mut stdin = child.stdin.take().context("no stdin")?;
    let client = json!({"name": "package-check", "version": "1"});
    let parameters =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ] {
        writeln!(stdin, "{message}")?;
    }
    let lines = lines(child)?;
    let until = Instant::now() + ANSWER_TIMEOUT;
    let mut responses = [Value::Null, Value::Null];
    while responses.contains(&Value::Null) {
        let line = lines.recv_timeout(until.saturating_duration_since(Instant::now()));
        let message: Value = serde_json::from_str(&line.context("it has not answered")?)?;
        if let Some(id @ (1 | 2)) = message["id"].as_u64() {
            responses[usize::from(id == 2)] = message;
        }
    }
    let [hello, list] = responses;
    let info = &hello["result"]["serverInfo"];
    ensure!(
        info["name"] == product.name && info["version"] == version,
        "serverInfo: {info}"
    );
    let names = |tools: &[Value]| {
        let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].clone()).collect();
        names.sort_by_key(Value::to_string);
        names
    };
    let Some(listed) = list["result"]["tools"].as_array() else {
        bail!("tools/list: {list}");
    };
    let (listed, expected) = (names(listed), names(&product.tools));
    ensure!(
        listed == expected && !expected.is_empty(),
        "tools: {listed:?}, not {expected:?}"
    );
    Ok(())
}

/// Returns the lines of its output, which another thread reads until the end.
fn lines(child: &mut Child) -> anyhow::Result<std::sync::mpsc::Receiver<String>> {
    use std::io::{BufRead as _, BufReader};

    let stdout = child.stdout.take().context("no stdout")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
