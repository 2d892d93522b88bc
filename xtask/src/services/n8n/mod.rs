//! A quiet n8n on loopback: SQLite, no calls to the outside, data kept in its place.

mod bootstrap;
pub(crate) mod install;

pub(crate) use install::Release;

use std::ffi::OsString;
use std::time::Duration;

use crate::console::Heartbeat;
use crate::http::Client;
use crate::layout::{Layout, path_with};
use crate::process::{GRACE, Process, Program};
use crate::services::{Place, free_port, wait_ready};

/// Where n8n listens unless told otherwise.
pub(crate) const DEFAULT_PORT: u16 = 5678;

/// The file in the place that holds the API key.
pub(crate) const API_KEY: &str = "api-key";

/// The file in the place that holds the token of n8n's own MCP server.
pub(crate) const MCP_TOKEN: &str = "mcp-token";

/// True when an n8n answers at this address.
pub(crate) fn answers(url: &str) -> bool {
    let answer = Client::new(url, Duration::from_secs(2)).get("/healthz");
    answer.is_ok_and(|answer| answer.status == 200 && answer.json["status"] == "ok")
}

/// Starts it, makes its owner, its keys and the example workflow.
pub(crate) fn start(layout: &Layout, place: &Place, release: Release) -> anyhow::Result<Process> {
    let mut beat = Heartbeat::start(
        "n8n",
        format!("starting n8n {} on {}", release.version(), place.url()),
    );
    let log = layout.fresh_log(&format!("n8n-{}", place.port))?;
    let node = install::node(layout).join("bin");
    let mut process = Program::guarded(node.join("node"), GRACE, Some(&place.pid_path()))?
        .args([
            install::dir(layout, release)
                .join("node_modules/n8n/bin/n8n")
                .into_os_string(),
            "start".into(),
        ])
        .envs(environment(place, release)?)
        .envs([("PATH", path_with([node])?)])
        .log_to(&log)?
        .spawn()?;
    let client = Client::new(&place.url(), Duration::from_secs(5));
    wait_ready(
        &mut process,
        &layout.stop,
        &log,
        Duration::from_secs(180),
        || {
            beat.beat();
            ready(&client)
        },
    )?;
    bootstrap::bootstrap(place)?;
    Ok(process)
}

fn ready(client: &Client) -> bool {
    // The first answers as soon as the database is migrated, the second only when the routes are there.
    client.is_up("/healthz/readiness")
        && client
            .get("/rest/settings")
            .is_ok_and(|answer| answer.json["data"].is_object())
}

fn environment(place: &Place, release: Release) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let off = [
        "N8N_SECURE_COOKIE",
        "N8N_DIAGNOSTICS_ENABLED",
        "N8N_VERSION_NOTIFICATIONS_ENABLED",
        "N8N_TEMPLATES_ENABLED",
        "N8N_PERSONALIZATION_ENABLED",
        "N8N_HIRING_BANNER_ENABLED",
        "N8N_DYNAMIC_BANNERS_ENABLED",
        "N8N_LICENSE_AUTO_RENEW_ENABLED",
        "N8N_COMMUNITY_PACKAGES_ENABLED",
    ];
    let mut vars: Vec<(&str, OsString)> =
        off.into_iter().map(|name| (name, "false".into())).collect();
    vars.extend([
        ("N8N_USER_FOLDER", place.dir.clone().into_os_string()),
        ("N8N_LISTEN_ADDRESS", "127.0.0.1".into()),
        ("N8N_HOST", "127.0.0.1".into()),
        ("N8N_PROTOCOL", "http".into()),
        ("N8N_PORT", place.port.to_string().into()),
        ("N8N_RUNNERS_ENABLED", "true".into()),
        // The broker of the task runners has a fixed port unless told; two instances would clash.
        ("N8N_RUNNERS_BROKER_PORT", free_port(0)?.to_string().into()),
        ("N8N_ENFORCE_SETTINGS_FILE_PERMISSIONS", "true".into()),
        ("WEBHOOK_URL", format!("{}/", place.url()).into()),
        ("EXTERNAL_FRONTEND_HOOKS_URLS", "".into()),
        ("DB_TYPE", "sqlite".into()),
        ("GENERIC_TIMEZONE", "UTC".into()),
    ]);
    if release == Release::Older {
        // The other engine has a native part that is not compiled.
        vars.push(("N8N_EXPRESSION_ENGINE", "legacy".into()));
        // Over a single connection, requests at the same time end each other's transactions.
        vars.push(("DB_SQLITE_POOL_SIZE", "4".into()));
    }
    Ok(vars)
}
