//! The table of hosts.

use std::path::PathBuf;

use crate::Folders;

/// A program that uses MCP servers.
pub struct Host {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Its file of this user. `None` if it keeps its servers in no file.
    pub file: Option<fn(&Folders) -> PathBuf>,
    /// Its file in the folder of a project.
    pub project_file: Option<&'static str>,
    /// The syntax of its file.
    pub format: Format,
    /// The key of its servers.
    pub key: &'static str,
    /// The form of an entry.
    pub form: Form,
    /// The way an entry refers to a secret.
    pub reference: Reference,
    /// The next step after a change.
    pub after: &'static str,
}

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON as in RFC 8259.
    Json,
    /// JSON with comments.
    JsonWithComments,
    /// JSON with comments and trailing commas.
    JsonWithCommas,
    /// TOML.
    Toml,
    /// JSON of a node, which the user pastes.
    Node,
}

/// The form of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"type": "stdio", "command", "args", "env"}` and `{"type": "http", "url", "headers"}`.
    Typed,
    /// `{"command", "args", "env"}`; no URLs.
    Programs,
    /// `{"command", "args", "env"}` and `{"url", "headers"}`.
    Plain,
    /// … and `{"serverUrl", "headers"}`.
    ServerUrl,
    /// … and `{"httpUrl", "headers"}`.
    HttpUrl,
    /// `command`, `args`, `env`, `env_vars`, and `url`, `bearer_token_env_var`.
    Codex,
    /// `{"command", "args", "env", "transport": "stdio"}` and `{"url", "headers", "transport": "http"}`.
    Transport,
    /// A node of n8n; no programs.
    Node,
}

/// The way an entry refers to an environment variable of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// `${NAME}`
    Braces,
    /// `${env:NAME}`
    Env,
    /// By name in fields of their own, so that there is no way to write the secret itself.
    Named,
    /// Not at all.
    Unsupported,
}

impl Host {
    /// The host with this name on the command line.
    pub fn find(id: &str) -> Option<&'static Self> {
        HOSTS.iter().find(|host| host.id == id)
    }

    /// The file in which it lists its servers: that of the user, or of the project.
    pub fn path(&self, folders: &Folders, project: bool) -> Option<PathBuf> {
        match project {
            true => Some(folders.project.join(self.project_file?)),
            false => Some(self.file?(folders)),
        }
    }
}

/// The hosts, each with the page that describes its file.
pub const HOSTS: &[Host] = &[
    // https://code.claude.com/docs/en/mcp: scopes `user` and `project`, `${NAME}` in `command`, `args`, `env`,
    // `url` and `headers`.
    Host {
        id: "claude-code",
        name: "Claude Code",
        file: Some(|folders| folders.named("CLAUDE_CONFIG_DIR", "").join(".claude.json")),
        project_file: Some(".mcp.json"),
        format: Format::Json,
        key: "mcpServers",
        form: Form::Typed,
        reference: Reference::Braces,
        after: "start a new session of Claude Code; `/mcp` shows its servers",
    },
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers: programs only, variables are not
    // expanded. There is no official version for Linux; those that exist use ~/.config.
    Host {
        id: "claude-desktop",
        name: "Claude Desktop",
        file: Some(|folders| folders.settings.join("Claude/claude_desktop_config.json")),
        project_file: None,
        format: Format::Json,
        key: "mcpServers",
        form: Form::Programs,
        reference: Reference::Unsupported,
        after: "quit Claude Desktop and start it again",
    },
    // https://cursor.com/docs/mcp: `${env:NAME}` in `command`, `args`, `env`, `url` and `headers`.
    Host {
        id: "cursor",
        name: "Cursor",
        file: Some(|folders| folders.home.join(".cursor/mcp.json")),
        project_file: Some(".cursor/mcp.json"),
        format: Format::JsonWithCommas,
        key: "mcpServers",
        form: Form::Typed,
        reference: Reference::Env,
        after: "restart Cursor, and switch the server on in Settings > MCP",
    },
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration, and for `${env:NAME}`
    // https://code.visualstudio.com/docs/reference/variables-reference
    Host {
        id: "vscode",
        name: "VS Code",
        file: Some(|folders| folders.settings.join("Code/User/mcp.json")),
        project_file: Some(".vscode/mcp.json"),
        format: Format::JsonWithCommas,
        key: "servers",
        form: Form::Typed,
        reference: Reference::Env,
        after: "run `MCP: List Servers` in VS Code and start the server",
    },
    // https://docs.windsurf.com/windsurf/cascade/mcp: `${env:NAME}` in `command`, `args`, `env`, `serverUrl`
    // and `headers`.
    Host {
        id: "windsurf",
        name: "Windsurf",
        file: Some(|folders| folders.home.join(".codeium/windsurf/mcp_config.json")),
        project_file: None,
        format: Format::JsonWithCommas,
        key: "mcpServers",
        form: Form::ServerUrl,
        reference: Reference::Env,
        after: "press refresh in the list of MCP servers of Cascade",
    },
    // https://zed.dev/docs/ai/mcp, and for the folder https://zed.dev/docs/configuring-zed; variables are not
    // expanded.
    Host {
        id: "zed",
        name: "Zed",
        file: Some(|folders| match cfg!(target_os = "macos") {
            true => folders.home.join(".config/zed/settings.json"),
            false => {
                let zed = if cfg!(windows) { "Zed" } else { "zed" };
                folders.settings.join(zed).join("settings.json")
            }
        }),
        project_file: Some(".zed/settings.json"),
        format: Format::JsonWithCommas,
        key: "context_servers",
        form: Form::Plain,
        reference: Reference::Unsupported,
        after: "Zed reads the file at once; the settings of the Agent Panel show the server",
    },
    // https://geminicli.com/docs/tools/mcp-server: `$NAME` and `${NAME}` in every string.
    // Comments are stripped, trailing commas are not.
    Host {
        id: "gemini-cli",
        name: "Gemini CLI",
        file: Some(|folders| folders.home.join(".gemini/settings.json")),
        project_file: Some(".gemini/settings.json"),
        format: Format::JsonWithComments,
        key: "mcpServers",
        form: Form::HttpUrl,
        reference: Reference::Braces,
        after: "start Gemini CLI again; `/mcp` shows its servers",
    },
    // https://github.com/openai/codex/blob/main/docs/config.md#mcp_servers: variables by name, in `env_vars` and
    // `bearer_token_env_var`.
    Host {
        id: "codex",
        name: "Codex CLI",
        file: Some(|folders| folders.named("CODEX_HOME", ".codex").join("config.toml")),
        project_file: Some(".codex/config.toml"),
        format: Format::Toml,
        key: "mcp_servers",
        form: Form::Codex,
        reference: Reference::Named,
        after: "start Codex again; `codex mcp list` shows its servers",
    },
    // https://docs.openhands.dev/openhands/usage/cli/mcp-servers: the command line since 1.0; variables are not
    // expanded. The app server keeps its servers in its settings (Settings > MCP).
    Host {
        id: "openhands",
        name: "OpenHands CLI",
        file: Some(|folders| {
            let folder = folders.named("OPENHANDS_PERSISTENCE_DIR", ".openhands");
            folder.join("mcp.json")
        }),
        project_file: None,
        format: Format::Json,
        key: "mcpServers",
        form: Form::Transport,
        reference: Reference::Unsupported,
        after: "start a new conversation of OpenHands; `openhands mcp list` shows its servers",
    },
    // https://docs.n8n.io/integrations/builtin/cluster-nodes/sub-nodes/n8n-nodes-langchain.toolmcp/: a node of a
    // workflow, with a credential of n8n.
    Host {
        id: "n8n",
        name: "n8n",
        file: None,
        project_file: None,
        format: Format::Node,
        key: "nodes",
        form: Form::Node,
        reference: Reference::Unsupported,
        after: "paste the node into a workflow, connect it to an AI Agent, and choose a Bearer credential with the \
            token if the server has one",
    },
];

/// The file of `mcp-gateway`, with its backends.
pub const GATEWAY: Host = Host {
    id: "mcp-gateway",
    name: "mcp-gateway",
    file: None,
    project_file: None,
    format: Format::Toml,
    key: "backends",
    form: Form::Plain,
    reference: Reference::Braces,
    after: "a running gateway follows its file",
};
