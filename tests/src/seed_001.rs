//! The examples of seed 001 that name tools of the three servers, against their real services.

use crate::documents::documents;
use crate::harness::real;

/// Replacement in the text of a request, after which a tool waits longer for a task: a busy agent server needs that.
pub(crate) const LONG_WAIT: (&str, &str) = ("\"task\":", "\"wait_seconds\": 100, \"task\":");

/// Variable with which a call to a busy service may take longer.
pub(crate) const LONG_CALLS: (&str, &str) = ("MCP_CALL_TIMEOUT", "110");

async fn replay(server: &str, env: &[(&str, &str)]) {
    let env = [env, &[LONG_CALLS]].concat();
    for document in documents(server) {
        let document = document.with(LONG_WAIT);
        document.over_http(&env).await;
        document.over_stdio(&env).await;
    }
}

#[tokio::test]
async fn n8n() {
    let Some(n8n) = real::n8n() else { return };
    let env = [("N8N_URL", n8n.url.as_str()), ("N8N_API_KEY", &n8n.api_key)];
    replay("n8n-mcp-server", &env).await;
}

#[tokio::test]
async fn openhands() {
    let Some(real) = real::openhands() else {
        return;
    };
    let env = [
        ("OPENHANDS_URL", real.url.as_str()),
        ("OPENHANDS_API_KEY", &real.api_key),
    ];
    replay("openhands-mcp-server", &env).await;
}

#[tokio::test]
async fn docker() {
    let Some(host) = real::docker() else { return };
    replay("docker-mcp-server", &[("DOCKER_HOST", &host)]).await;
}
