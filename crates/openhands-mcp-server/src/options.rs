//! The command line options and environment variables.

use std::path::PathBuf;

use upstream::http::Url;

/// The options of this server.
#[derive(clap::Args)]
#[command(next_help_heading = "OpenHands")]
// clap names the group after the struct, and `mcp-serve` has a struct of the same name.
#[group(id = "openhands")]
pub(crate) struct Options {
    /// Address of the OpenHands agent server, or of the V1 app server
    #[arg(long, env = "OPENHANDS_URL", value_name = "URL")]
    #[arg(default_value = "http://127.0.0.1:8000")]
    pub(crate) openhands_url: Url,

    /// Key of the agent server (one of its OH_SESSION_API_KEYS) or the app server; leave it unset if the server needs no key
    #[arg(long, env = "OPENHANDS_API_KEY", value_name = "KEY")]
    #[arg(hide_env_values = true)]
    pub(crate) openhands_api_key: Option<String>,

    /// File with the key; it may be created or changed later
    #[arg(long, env = "OPENHANDS_API_KEY_FILE", value_name = "FILE")]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_api_key_file: Option<PathBuf>,

    /// Directory on the agent server in which every task gets its own directory; a relative one is
    /// in the agent server's home directory
    #[arg(long, env = "OPENHANDS_WORKSPACE_ROOT", value_name = "REMOTE_DIR")]
    #[arg(default_value = "mcp-tasks")]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_workspace_root: String,

    /// Agent profile for tasks (with the app server its id); default: the active one
    #[arg(long, env = "OPENHANDS_AGENT_PROFILE", value_name = "NAME")]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_agent_profile: Option<String>,

    /// Other directories on the agent server that tasks may name as their workspace, separated by
    /// commas
    #[arg(long, env = "OPENHANDS_WORKSPACES", value_name = "REMOTE_DIR")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_workspaces: Vec<String>,

    /// MCP servers that the agents of tasks may call, such as n8n=http://127.0.0.1:3456/mcp, as
    /// seen from the agent server, separated by commas
    #[arg(long, env = "OPENHANDS_MCP_SERVERS", value_name = "NAME=URL")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_mcp_servers: Vec<String>,

    /// Tokens for these MCP servers: NAME=TOKEN, separated by commas
    #[arg(long, env = "OPENHANDS_MCP_TOKENS", value_name = "NAME=TOKEN")]
    #[arg(hide_env_values = true, value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_mcp_tokens: Vec<String>,

    /// Files with such tokens: NAME=FILE, separated by commas; they may be created or changed later
    #[arg(long, env = "OPENHANDS_MCP_TOKEN_FILES", value_name = "NAME=FILE")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_mcp_token_files: Vec<String>,

    /// Git hosts whose repositories tasks may fetch and publish with a token, such as
    /// work=https://github.com/acme, separated by commas. A token is used only for repositories below
    /// the URL. The API for pull requests is known for github.com, gitlab.com and codeberg.org; others
    /// name it: gitea+https://…, forgejo+https://…, gitlab+https://… (without a path) or github+https://…
    #[arg(long, env = "OPENHANDS_GIT_HOSTS", value_name = "NAME=URL")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_git_hosts: Vec<String>,

    /// Tokens for these git hosts: NAME=TOKEN or NAME=USER:PASSWORD, separated by commas. They do not
    /// reach the agent server
    #[arg(long, env = "OPENHANDS_GIT_TOKENS", value_name = "NAME=TOKEN")]
    #[arg(hide_env_values = true, value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_git_tokens: Vec<String>,

    /// Files with such tokens: NAME=FILE, separated by commas; they may be created or changed later
    #[arg(long, env = "OPENHANDS_GIT_TOKEN_FILES", value_name = "NAME=FILE")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_git_token_files: Vec<String>,

    /// Hosts to which a task may send its result (callback_url), separated by commas: HOST or
    /// HOST:PORT; https, or http on loopback
    #[arg(long, env = "OPENHANDS_CALLBACK_HOSTS", value_name = "HOST")]
    #[arg(value_delimiter = ',')]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_callback_hosts: Vec<String>,

    /// Bearer token that is sent with these results
    #[arg(long, env = "OPENHANDS_CALLBACK_TOKEN", value_name = "TOKEN")]
    #[arg(hide_env_values = true)]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_callback_token: Option<String>,

    /// File with that token; it may be created or changed later
    #[arg(long, env = "OPENHANDS_CALLBACK_TOKEN_FILE", value_name = "FILE")]
    #[arg(hide_short_help = true)]
    pub(crate) openhands_callback_token_file: Option<PathBuf>,

    /// Maximum number of tasks that run at once on the agent server; others are refused. One less
    /// than the agent server's own max_concurrent_runs (10), because creating a task takes a slot
    /// as well
    #[arg(long, env = "OPENHANDS_MAX_PARALLEL", value_name = "TASKS", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    #[arg(hide_short_help = true)]
    pub(crate) max_parallel: u32,

    /// Steps after which a task is stopped
    #[arg(long, env = "OPENHANDS_MAX_ITERATIONS", value_name = "STEPS", default_value_t = 500,
          value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(hide_short_help = true)]
    pub(crate) max_iterations: u32,

    /// Seconds after which a task is stopped, even if a client still waits for it
    #[arg(long, env = "OPENHANDS_MAX_SECONDS", value_name = "SECONDS", default_value_t = 3600,
          value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(hide_short_help = true)]
    pub(crate) max_seconds: u64,

    /// US dollars after which a task is stopped; needs a model whose price OpenHands knows
    #[arg(long, env = "OPENHANDS_MAX_COST", value_name = "DOLLARS")]
    #[arg(hide_short_help = true)]
    pub(crate) max_cost: Option<f64>,

    /// Let all principals (names of bearer tokens) see and control all tasks and directories of the
    /// agent server; otherwise each principal sees its own tasks, and the tasks that no principal has created
    #[arg(long, env = "OPENHANDS_SHARE_TASKS")]
    #[arg(hide_short_help = true)]
    pub(crate) share_tasks: bool,
}
