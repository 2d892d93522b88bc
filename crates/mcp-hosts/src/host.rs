//! The table of hosts.

use std::path::PathBuf;

use crate::{Folders, System};

/// A program that uses MCP servers.
pub struct Host {
    /// Its name on the command line.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Letters and digits that the name has by which it presents itself to a server (`clientInfo`), in lower case.
    pub client: &'static str,
    /// The address of the page that describes its file.
    pub page: &'static str,
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
    /// `{"type": "local", "command", "environment"}`, where `command` is a list with the arguments, and
    /// `{"type": "remote", "url", "headers"}`.
    Opencode,
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
    /// `{env:NAME}`
    BareEnv,
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
    // Scopes `user` and `project`, `${NAME}` in `command`, `args`, `env`, `url` and `headers`.
    Host {
        id: "claude-code",
        name: "Claude Code",
        client: "claudecode",
        page: "https://code.claude.com/docs/en/mcp",
        file: Some(|folders| folders.named("CLAUDE_CONFIG_DIR", "").join(".claude.json")),
        project_file: Some(".mcp.json"),
        format: Format::Json,
        key: "mcpServers",
        form: Form::Typed,
        reference: Reference::Braces,
        after: "start a new session of Claude Code; `/mcp` shows its servers",
    },
    // Programs only, variables are not expanded. There is no official version for Linux; those that exist use
    // ~/.config.
    Host {
        id: "claude-desktop",
        name: "Claude Desktop",
        client: "claudeai",
        page: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        file: Some(|folders| folders.settings.join("Claude/claude_desktop_config.json")),
        project_file: None,
        format: Format::Json,
        key: "mcpServers",
        form: Form::Programs,
        reference: Reference::Unsupported,
        after: "quit Claude Desktop and start it again",
    },
    // `${env:NAME}` in `command`, `args`, `env`, `url` and `headers`.
    Host {
        id: "cursor",
        name: "Cursor",
        client: "cursor",
        page: "https://cursor.com/docs/mcp",
        file: Some(|folders| folders.home.join(".cursor/mcp.json")),
        project_file: Some(".cursor/mcp.json"),
        format: Format::JsonWithCommas,
        key: "mcpServers",
        form: Form::Typed,
        reference: Reference::Env,
        after: "restart Cursor, and switch the server on in Settings > MCP",
    },
    // For `${env:NAME}` https://code.visualstudio.com/docs/reference/variables-reference
    Host {
        id: "vscode",
        name: "VS Code",
        client: "visualstudiocode",
        page: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        file: Some(|folders| folders.settings.join("Code/User/mcp.json")),
        project_file: Some(".vscode/mcp.json"),
        format: Format::JsonWithCommas,
        key: "servers",
        form: Form::Typed,
        reference: Reference::Env,
        after: "run `MCP: List Servers` in VS Code and start the server",
    },
    // `${env:NAME}` in `command`, `args`, `env`, `serverUrl` and `headers`.
    Host {
        id: "windsurf",
        name: "Windsurf",
        client: "windsurf",
        page: "https://docs.windsurf.com/windsurf/cascade/mcp",
        file: Some(|folders| folders.home.join(".codeium/windsurf/mcp_config.json")),
        project_file: None,
        format: Format::JsonWithCommas,
        key: "mcpServers",
        form: Form::ServerUrl,
        reference: Reference::Env,
        after: "press refresh in the list of MCP servers of Cascade",
    },
    // For the folder https://zed.dev/docs/configuring-zed; variables are not expanded.
    Host {
        id: "zed",
        name: "Zed",
        client: "zed",
        page: "https://zed.dev/docs/ai/mcp",
        file: Some(|folders| match folders.system {
            System::Linux => folders.settings.join("zed/settings.json"),
            System::MacOs => folders.home.join(".config/zed/settings.json"),
            System::Windows => folders.settings.join("Zed/settings.json"),
        }),
        project_file: Some(".zed/settings.json"),
        format: Format::JsonWithCommas,
        key: "context_servers",
        form: Form::Plain,
        reference: Reference::Unsupported,
        after: "Zed reads the file at once; the settings of the Agent Panel show the server",
    },
    // `$NAME` and `${NAME}` in every string.
    // Comments are stripped, trailing commas are not.
    Host {
        id: "gemini-cli",
        name: "Gemini CLI",
        client: "gemini",
        page: "https://geminicli.com/docs/tools/mcp-server",
        file: Some(|folders| folders.home.join(".gemini/settings.json")),
        project_file: Some(".gemini/settings.json"),
        format: Format::JsonWithComments,
        key: "mcpServers",
        form: Form::HttpUrl,
        reference: Reference::Braces,
        after: "start Gemini CLI again, in a folder that it trusts; `/mcp` shows its servers",
    },
    // Variables by name, in `env_vars` and `bearer_token_env_var`.
    Host {
        id: "codex",
        name: "Codex CLI",
        client: "codex",
        page: "https://github.com/openai/codex/blob/main/docs/config.md#mcp_servers",
        file: Some(|folders| folders.named("CODEX_HOME", ".codex").join("config.toml")),
        project_file: Some(".codex/config.toml"),
        format: Format::Toml,
        key: "mcp_servers",
        form: Form::Codex,
        reference: Reference::Named,
        after: "start Codex again; `codex mcp list` shows its servers",
    },
    // Comments and trailing commas are read by 1.0.64, `$NAME` and `${NAME}` in `env` and `headers` since 1.0.10:
    // https://github.com/github/copilot-cli/issues/903
    Host {
        id: "copilot-cli",
        name: "GitHub Copilot CLI",
        client: "copilot",
        page: "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers",
        file: Some(|folders| {
            let folder = folders.named("COPILOT_HOME", ".copilot");
            folder.join("mcp-config.json")
        }),
        project_file: Some(".github/mcp.json"),
        format: Format::JsonWithCommas,
        key: "mcpServers",
        form: Form::Typed,
        reference: Reference::Braces,
        after: "start Copilot CLI again; `copilot mcp list` shows its servers",
    },
    // `{env:NAME}` in every string; comments and trailing commas are read in `.json`, too.
    Host {
        id: "opencode",
        name: "opencode",
        client: "opencode",
        page: "https://opencode.ai/docs/mcp-servers",
        file: Some(|folders| {
            let folder = folders.named("XDG_CONFIG_HOME", ".config");
            folder.join("opencode/opencode.json")
        }),
        project_file: Some("opencode.json"),
        format: Format::JsonWithCommas,
        key: "mcp",
        form: Form::Opencode,
        reference: Reference::BareEnv,
        after: "start opencode again; `opencode mcp list` connects its servers and shows them",
    },
    // The form of Cursor's file, without its references; the location by
    // https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1371
    Host {
        id: "lm-studio",
        name: "LM Studio",
        client: "lmstudio",
        page: "https://lmstudio.ai/docs/app/mcp",
        file: Some(|folders| folders.home.join(".lmstudio/mcp.json")),
        project_file: None,
        format: Format::Json,
        key: "mcpServers",
        form: Form::Plain,
        reference: Reference::Unsupported,
        after: "LM Studio reads the file at once; switch the server on under Program > Integrations",
    },
    // The command line since 1.0; variables are not expanded. The app server keeps its servers in its settings (Settings > MCP).
    Host {
        id: "openhands",
        name: "OpenHands CLI",
        client: "openhands",
        page: "https://docs.openhands.dev/openhands/usage/cli/mcp-servers",
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
    // A node of a workflow, with a credential of n8n.
    Host {
        id: "n8n",
        name: "n8n",
        client: "n8n",
        page: "https://docs.n8n.io/integrations/builtin/cluster-nodes/sub-nodes/n8n-nodes-langchain.toolmcp/",
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
