//! Announces many changes without overflowing slow subscribers.

use std::time::Duration;

use mcp_core::server::{ChangeNotifier, ServerChange};
use tokio::time::sleep;

/// The number of announcements after which a pause lets subscribers catch up: one that lags behind is
/// only notified that everything may have changed.
const BURST: usize = 32;
const BURST_DELAY: Duration = Duration::from_millis(2);

/// Announces changes of the resources that have subscribers. Others are skipped, so that they cannot
/// make a slow subscriber lag behind.
pub async fn announce(changes: &ChangeNotifier, uris: impl IntoIterator<Item = String>) {
    let watched = changes.subscribed_uris();
    let uris = uris.into_iter();
    let uris: Vec<String> = uris
        .filter(|uri| watched.borrow().contains_key(uri))
        .collect();
    for (number, uri) in uris.into_iter().enumerate() {
        if number % BURST == BURST - 1 {
            sleep(BURST_DELAY).await;
        }
        changes.announce(ServerChange::Resource(uri));
    }
}
