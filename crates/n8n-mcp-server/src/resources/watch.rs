//! Telling those who subscribed to a resource that it has changed.
//!
//! n8n tells nobody, so what somebody waits for is read again and again: less often while nothing
//! changes, and not at all while nobody waits.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use mcp_core::server::Change;
use mcp_core::tool::{Call, ToolError, ToolErrorKind};
use tokio::time::sleep;

use crate::service::N8n;

const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What was last seen of a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Content(u64),
}

/// Announces changes for as long as it is polled.
pub(crate) async fn watch(n8n: &N8n) {
    let mut watched = n8n.changes.watched();
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let wanted: Vec<String> = watched.borrow_and_update().keys().cloned().collect();
        seen.retain(|uri, _| wanted.contains(uri));
        let nobody_waits = wanted.is_empty();
        let mut has_changed = false;
        for uri in wanted {
            // What cannot be read now is as it was until it can be.
            let Ok(now) = look(n8n, &uri).await else {
                continue;
            };
            let before = seen.insert(uri.clone(), now);
            if before.is_some_and(|before| before != now) {
                n8n.changes.announce(Change::Resource(uri));
                has_changed = true;
            }
        }
        pause = match has_changed {
            true => SHORTEST_PAUSE,
            false => (pause * 3 / 2).min(LONGEST_PAUSE),
        };
        let rest = async {
            if nobody_waits {
                std::future::pending::<()>().await;
            }
            sleep(pause).await;
        };
        tokio::select! {
            () = rest => {}
            changed = watched.changed() => match changed {
                Ok(()) => pause = SHORTEST_PAUSE,
                Err(_) => return,
            },
        }
    }
}

async fn look(n8n: &N8n, uri: &str) -> Result<Seen, ToolError> {
    let call = Call::default();
    let content = if uri == "n8n://workflows" {
        super::workflows(n8n, &call).await
    } else if let Some(id) = uri.strip_prefix("n8n://workflows/") {
        super::workflow(n8n, id, &call).await
    } else if let Some(id) = uri.strip_prefix("n8n://executions/") {
        super::execution(n8n, id, &call).await
    } else {
        return Ok(Seen::Nothing);
    };
    match content {
        Ok(content) => {
            let mut hasher = DefaultHasher::new();
            content.hash(&mut hasher);
            Ok(Seen::Content(hasher.finish()))
        }
        Err(error) if error.kind() == ToolErrorKind::NotFound => Ok(Seen::Nothing),
        Err(error) => Err(error),
    }
}
