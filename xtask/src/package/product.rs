//! A program as its packages describe it. All of it is what the program itself prints, so that names, variables
//! and secrets are declared once, for clap.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::Build;

/// One program.
#[derive(Debug)]
pub(crate) struct Product {
    /// The name of the program and of its packages, such as `docker-mcp-server`.
    pub(crate) name: &'static str,
    /// The name for people, such as `Docker MCP server`.
    pub(crate) title: String,
    /// The service behind it, such as `Docker`: the heading of its own options in `--help`.
    pub(crate) service: String,
    /// One sentence without a full stop: the first line of `--help`.
    pub(crate) summary: String,
    /// The port that it listens on without `--stdio`.
    pub(crate) port: u16,
    /// The definitions of the tools that it offers by default, as in `tools/list`.
    pub(crate) tools: Vec<Value>,
    /// Its options with a variable, its own before those of every server.
    pub(crate) options: Vec<ProductOption>,
    /// The program for this machine, which is asked.
    program: PathBuf,
}

/// An option of a program.
#[derive(Debug)]
pub(crate) struct ProductOption {
    /// The flag, such as `--docker-host`.
    pub(crate) flag: String,
    /// The name of the value in the help, such as `URL`; `None` for a flag without one.
    pub(crate) value: Option<String>,
    pub(crate) variable: String,
    /// One sentence, in Markdown at most with backticks.
    pub(crate) help: String,
    pub(crate) default: Option<String>,
    /// `flag`, `integer`, `number` or `text`.
    pub(crate) kind: String,
    /// The possible values of an enum.
    pub(crate) values: Vec<String>,
    pub(crate) is_repeatable: bool,
    pub(crate) is_required: bool,
    /// True if other users must not read its value.
    pub(crate) is_secret: bool,
    /// The flag of the secret that this option names a file of.
    pub(crate) file_of: Option<String>,
    /// True if every server has it.
    pub(crate) is_common: bool,
}

impl ProductOption {
    /// Returns its key in the configuration file.
    pub(crate) fn key(&self) -> String {
        self.flag.trim_start_matches('-').replace('-', "_")
    }
}

impl Product {
    /// Asks the program.
    ///
    /// # Errors
    /// If it is not built, or for another version of `--print-options`.
    pub(crate) fn read(build: &Build, name: &'static str) -> anyhow::Result<Self> {
        let mut product = Self {
            name,
            title: String::new(),
            service: String::new(),
            summary: String::new(),
            port: 0,
            tools: Vec::new(),
            options: Vec::new(),
            program: build.native(name),
        };
        product.ask().with_context(|| name.to_owned())?;
        Ok(product)
    }

    fn ask(&mut self) -> anyhow::Result<()> {
        let help = self.printed(&["--help"])?;
        help.lines()
            .next()
            .unwrap_or_default()
            .clone_into(&mut self.summary);
        self.tools = serde_json::from_str(&self.printed(&["--print-tools"])?)?;
        let options: Vec<Value> = serde_json::from_str(&self.printed(&["--print-options"])?)?;
        let heading = options
            .first()
            .and_then(|option| option["heading"].as_str());
        heading.context("no heading")?.clone_into(&mut self.service);
        self.title = match self.name {
            "mcp-gateway" => "MCP gateway".to_owned(),
            _ => format!("{} MCP server", self.service),
        };
        self.options = options
            .iter()
            .map(|option| parse(option, &options))
            .collect::<anyhow::Result<_>>()?;
        let port = self.options.iter().find(|option| option.flag == "--port");
        let port = port.and_then(|port| port.default.as_deref()?.parse().ok());
        self.port = port.context("no default port")?;
        Ok(())
    }

    /// Returns what the program prints with these arguments and without any variable.
    pub(crate) fn printed(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.program)
            .args(args)
            .env_clear()
            .output()
            .with_context(|| format!("{} is not built", self.program.display()))?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{args:?}: {error}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the names of the commands with a manual page of their own, such as `check`.
    pub(crate) fn commands(&self) -> anyhow::Result<Vec<String>> {
        let help = self.printed(&["-h"])?;
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        // Continued lines of a help are further to the right.
        let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        Ok(names
            .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
            .collect())
    }

    /// Returns the manual page of the program, or of one of its commands.
    pub(crate) fn manual(&self, command: Option<&str>) -> anyhow::Result<String> {
        self.printed(&["man"].into_iter().chain(command).collect::<Vec<_>>())
    }

    /// Returns the completions for a shell.
    pub(crate) fn completions(&self, shell: &str) -> anyhow::Result<String> {
        self.printed(&["completions", shell])
    }

    /// Returns the JSON Schema of the configuration file.
    pub(crate) fn schema(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.printed(&["schema"])?)?)
    }
}

fn parse(option: &Value, all: &[Value]) -> anyhow::Result<ProductOption> {
    let text = |key: &str| option[key].as_str().map(str::to_owned);
    let is = |key: &str| option[key].as_bool().with_context(|| format!("no `{key}`"));
    let flag = text("flag").context("an option without a flag")?;
    let is_secret = |flag: &&str| {
        let same = |other: &&Value| other["flag"] == **flag && other["secret"] == true;
        all.iter().any(|other| same(&other))
    };
    let singular = flag.strip_suffix("-file").map(str::to_owned);
    let plural = flag.strip_suffix("-files").map(|flag| format!("{flag}s"));
    let file_of = singular.or(plural).filter(|flag| is_secret(&flag.as_str()));
    let values = option["values"].as_array().into_iter().flatten();
    Ok(ProductOption {
        value: text("value"),
        variable: text("env").context("an option without a variable")?,
        help: text("help").context("an option without help")?,
        default: text("default"),
        kind: text("type").context("an option without a type")?,
        values: values
            .filter_map(|value| Some(value.as_str()?.to_owned()))
            .collect(),
        is_repeatable: is("repeatable")?,
        is_required: is("required")?,
        is_secret: is("secret")?,
        file_of,
        is_common: matches!(option["heading"].as_str(), Some("Server" | "Configuration")),
        flag,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a program with an option of each kind.
    pub(crate) fn example() -> Product {
        let option =
            |flag: &str, value: Option<&str>, variable: &str, kind: &str, heading: &str| {
                json!({
                    "flag": flag, "value": value, "values": [], "env": variable, "default": null,
                    "type": kind, "repeatable": false, "required": false,
                    "secret": variable.ends_with("KEY") || variable.ends_with("TOKEN"),
                    "help": "What it is", "heading": heading,
                })
            };
        let mut options = [
            option(
                "--docker-host",
                Some("URL"),
                "DOCKER_HOST",
                "text",
                "Docker",
            ),
            option("--n8n-url", Some("URL"), "N8N_URL", "text", "Docker"),
            option(
                "--n8n-api-key",
                Some("KEY"),
                "N8N_API_KEY",
                "text",
                "Docker",
            ),
            option(
                "--n8n-api-key-file",
                Some("FILE"),
                "N8N_API_KEY_FILE",
                "text",
                "Docker",
            ),
            option(
                "--max-cost",
                Some("DOLLARS"),
                "MAX_COST",
                "number",
                "Docker",
            ),
            option("--token", Some("TOKEN"), "MCP_TOKEN", "text", "Server"),
            option("--read-only", None, "MCP_READ_ONLY", "flag", "Server"),
            option(
                "--call-timeout",
                Some("SECONDS"),
                "MCP_CALL_TIMEOUT",
                "integer",
                "Server",
            ),
        ];
        options[1]["default"] = json!("http://127.0.0.1:5678");
        options[7]["default"] = json!("30");
        Product {
            name: "docker-mcp-server",
            title: "Docker MCP server".into(),
            service: "Docker".into(),
            summary: "Docker containers: list and start them".into(),
            port: 3458,
            tools: vec![
                json!({"name": "list_containers", "description": "Lists containers. All."}),
            ],
            options: options
                .iter()
                .map(|option| parse(option, &options).unwrap())
                .collect(),
            program: PathBuf::new(),
        }
    }

    #[test]
    fn files_of_secrets_are_known_by_their_names() {
        let product = example();
        let file = product
            .options
            .iter()
            .find(|option| option.flag == "--n8n-api-key-file");
        assert_eq!(file.unwrap().file_of.as_deref(), Some("--n8n-api-key"));
    }
}
