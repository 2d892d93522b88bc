//! Notifications between replicas. One hastens the next beat of the others and says nothing else, so a lost one costs at most
//! the interval of the beats.

use std::time::Duration;

use crate::events::News;

/// The database notifies all replicas of what they should see soon: replicas that join or leave, ended sessions,
/// placements, and tasks that get another owner. The own connection is told apart by its process.
pub(super) const TRIGGERS: &str = "
    create function mcp_replicas_changed() returns trigger language plpgsql as $$ begin
        perform pg_notify(format('mcp_replicas_%s', 'mcp_replicas'::regclass::oid), '');
        return null;
    end $$;
    create trigger mcp_changed after insert or delete on mcp_replicas
        for each row execute function mcp_replicas_changed();
    create trigger mcp_changed after insert on mcp_ended_sessions
        for each row execute function mcp_replicas_changed();
    create trigger mcp_changed after insert or update or delete on mcp_placements
        for each row execute function mcp_replicas_changed();
    create trigger mcp_changed after update of replica on mcp_tasks
        for each row when (old.replica is distinct from new.replica) execute function mcp_replicas_changed();
";
/// The channel has the number of the table: a database may have several in different schemas.
pub(super) const LISTEN: &str = "
    do $$ begin execute format('listen mcp_replicas_%s', 'mcp_replicas'::regclass::oid); end $$
";

/// Shortest time between two beats, one of which is hastened.
const MIN_SPACING: Duration = Duration::from_millis(100);
/// The same for each replica: all of them together are hastened 40 times a second at most. From 30 replicas on, no beat is
/// hastened.
const SPACING: Duration = Duration::from_millis(25);

/// Returns the shortest time between a beat and a hastened one, with so many others.
pub(super) fn spacing(others: u32) -> Duration {
    SPACING
        .saturating_mul(others.saturating_add(1))
        .max(MIN_SPACING)
}

/// Completes when another replica has changed something; never without a connection.
pub(super) async fn arrived(news: Option<&News>) {
    match news {
        Some(news) => news.arrived().await,
        None => std::future::pending().await,
    }
}
