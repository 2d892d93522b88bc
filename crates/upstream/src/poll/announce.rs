//! Announcing many changes at once.

use std::time::Duration;

use mcp_core::server::{ChangeNotifier, ServerChange};
use tokio::time::sleep;

/// After so many changes those who listen get time to keep up: whoever lags behind is told only
/// that everything may have changed.
const BURST: usize = 32;
const BURST_DELAY: Duration = Duration::from_millis(2);

/// Announces that these resources have changed, those of them that somebody has subscribed to: in a
/// crowd of others a slow client would miss what concerns it.
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
