//! Reports: the text that each replica shows to the others. It is written with a beat if it has changed, and read with
//! a beat if it was written; no request waits for that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::server::ReplicaId;
use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::events::{PostgresConnection, StoreError, StoreFault};

/// Limit for one report, in bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Shortest interval between two reports that differ in numbers only.
const NUMBERS_INTERVAL: Duration = Duration::from_secs(3);

/// The table; a row goes with that of its replica.
pub(super) const TABLE: &str = "
    create table mcp_replica_reports (
        replica bigint primary key references mcp_replicas (id) on delete cascade,
        revision bigint not null,
        report text not null
    );
";
const WRITE: &str = "
    insert into mcp_replica_reports (replica, revision, report) values ($1, $2, $3)
        on conflict (replica) do update set revision = excluded.revision, report = excluded.report
";
/// Reports that are not known yet.
const READ: &str = "
    select other.id, report.revision, report.report, extract(epoch from now() - other.started)::bigint
        from mcp_replicas as other join mcp_replica_reports as report on report.replica = other.id
        where other.id <> $1 and not exists (
            select from unnest($2::bigint[], $3::bigint[]) as known (replica, revision)
                where known.replica = other.id and known.revision = report.revision
        )
";

/// A report of this replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The text; one that is too long is not written.
    pub text: String,
    /// The part of it that the others must know with the next beat.
    pub urgent: String,
}

/// A report of another replica.
#[derive(Clone, Debug)]
pub struct ReportOf {
    /// That replica.
    pub replica: ReplicaId,
    /// Its text.
    pub text: Arc<str>,
    /// The time since it was read.
    pub age: Duration,
}

type Source = Box<dyn Fn() -> Report + Send + Sync>;

/// The reports of all replicas, as they were read last.
#[derive(Default)]
pub(super) struct Reports {
    source: Mutex<Option<Source>>,
    /// Used by the thread of the beats only.
    written: Mutex<Written>,
    others: Mutex<BTreeMap<ReplicaId, Known>>,
}

/// The report that was written last.
#[derive(Default)]
struct Written {
    report: Option<(Report, Instant)>,
    revision: i64,
}

struct Known {
    revision: i64,
    text: Arc<str>,
    read: Instant,
    started: Instant,
}

impl Reports {
    pub(super) fn set_source(&self, source: Source) {
        *self.source.lock() = Some(source);
    }

    /// Returns the report of another replica, and the time since its start.
    pub(super) fn find(&self, replica: ReplicaId) -> Option<(ReportOf, Duration)> {
        let others = self.others.lock();
        let known = others.get(&replica)?;
        let report = ReportOf {
            replica,
            text: Arc::clone(&known.text),
            age: known.read.elapsed(),
        };
        Some((report, known.started.elapsed()))
    }

    /// Writes the own report if it has changed, and reads those of others. `others` are known replicas; without any,
    /// nothing is written.
    pub(super) fn exchange(
        &self,
        connection: &PostgresConnection,
        own: ReplicaId,
        others: &[ReplicaId],
        is_reconnected: bool,
    ) -> Result<(), StoreError> {
        self.others.lock().retain(|id, _| others.contains(id));
        let mut written = self.written.lock();
        if is_reconnected {
            // Its row may have been removed.
            written.report = None;
        }
        if others.is_empty() {
            written.report = None;
            return Ok(());
        }
        let id = i64::from(own.bits());
        let source = self.source.lock();
        let report = source.as_ref().map(|source| source());
        drop(source);
        let now = Instant::now();
        let due = report.filter(|report| written.is_due(report, now));
        let known = self.others.lock();
        let ids: Vec<i64> = known.keys().map(|id| i64::from(id.bits())).collect();
        let revisions: Vec<i64> = known.values().map(|known| known.revision).collect();
        drop(known);
        let revision = written.revision + 1;
        let rows = connection.within(async {
            let client = &connection.client;
            if let Some(report) = &due {
                let values: [(&(dyn ToSql + Sync), Type); 3] = [
                    (&id, Type::INT8),
                    (&revision, Type::INT8),
                    (&report.text, Type::TEXT),
                ];
                client.execute_typed(WRITE, &values).await?;
            }
            let values: [(&(dyn ToSql + Sync), Type); 3] = [
                (&id, Type::INT8),
                (&ids, Type::INT8_ARRAY),
                (&revisions, Type::INT8_ARRAY),
            ];
            Ok(client.query_typed(READ, &values).await?)
        });
        let rows = match rows {
            // The own row was removed a moment ago; the next beat writes it again.
            Err(error) if error.fault == StoreFault::Rejected => {
                tracing::debug!(reason = error.reason, "the report is not stored");
                return Ok(());
            }
            rows => rows?,
        };
        if let Some(report) = due {
            written.revision = revision;
            written.report = Some((report, now));
        }
        let mut known = self.others.lock();
        for row in &rows {
            let (id, report) = read(row, now)?;
            known.insert(id, report);
        }
        Ok(())
    }
}

impl Written {
    fn is_due(&self, report: &Report, now: Instant) -> bool {
        if report.text.len() > MAX_BYTES || report.text.contains('\0') {
            tracing::debug!(bytes = report.text.len(), "the report cannot be stored");
            return false;
        }
        let Some((last, time)) = &self.report else {
            return true;
        };
        let is_late = now.duration_since(*time) >= NUMBERS_INTERVAL;
        last.urgent != report.urgent || is_late && last.text != report.text
    }
}

fn read(row: &Row, now: Instant) -> Result<(ReplicaId, Known), StoreError> {
    let id: i64 = row.try_get(0)?;
    let text: String = row.try_get(2)?;
    let uptime: i64 = row.try_get(3)?;
    let uptime = Duration::from_secs(u64::try_from(uptime).unwrap_or_default());
    let known = Known {
        revision: row.try_get(1)?,
        text: text.into(),
        read: now,
        started: now.checked_sub(uptime).unwrap_or(now),
    };
    Ok((ReplicaId::new(u32::try_from(id).unwrap_or_default()), known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::ReplicaTable;
    use crate::replicas::tests::{joined, location, until};

    fn show(table: &ReplicaTable, text: &str, urgent: &str) {
        let (text, urgent) = (text.to_owned(), urgent.to_owned());
        let report = Report { text, urgent };
        table.show(move || report.clone());
        table.show_now();
    }

    fn texts(table: &ReplicaTable) -> Vec<(u32, String)> {
        let reports = table.reports().into_iter();
        let reports = reports.map(|one| (one.replica.bits(), one.text.to_string()));
        reports.collect()
    }

    async fn until_texts(table: &ReplicaTable, expected: &[(u32, &str)]) {
        let expected = expected.iter().map(|(id, text)| (*id, (*text).to_owned()));
        let expected: Vec<_> = expected.collect();
        until(table, || texts(table) == expected).await;
    }

    #[tokio::test]
    async fn reports_of_replicas_that_are_alive_are_read() {
        let Some(location) = location("replicas_reports").await else {
            return;
        };
        let [first, second] = [joined(&location, 1).await, joined(&location, 2).await];
        assert!(texts(&first).is_empty());
        show(&first, "one", "a");
        show(&second, "two", "a");
        until_texts(&first, &[(2, "two")]).await;
        until_texts(&second, &[(1, "one")]).await;
        assert!(second.uptime(ReplicaId::new(1)).is_some());
        // Another text under a changed state, and one that does not fit, in place of which the last one stays.
        show(&first, "three", "b");
        until_texts(&second, &[(1, "three")]).await;
        show(&first, "a\0", "c");
        show(&second, "four", "b");
        until_texts(&first, &[(2, "four")]).await;
        until_texts(&second, &[(1, "three")]).await;
        let close = tokio::task::spawn_blocking(move || first.close());
        close.await.unwrap();
        until_texts(&second, &[]).await;
    }

    #[test]
    fn numbers_are_written_seldom_and_the_rest_at_once() {
        let report = |text: &str, urgent: &str| Report {
            text: text.to_owned(),
            urgent: urgent.to_owned(),
        };
        let start = Instant::now();
        let mut written = Written::default();
        assert!(written.is_due(&report("1", "a"), start));
        written.report = Some((report("1", "a"), start));
        let soon = start + NUMBERS_INTERVAL / 2;
        assert!(!written.is_due(&report("2", "a"), soon));
        assert!(written.is_due(&report("2", "b"), soon));
        let late = start + NUMBERS_INTERVAL;
        assert!(written.is_due(&report("2", "a"), late));
        assert!(!written.is_due(&report("1", "a"), late));
        let long = "x".repeat(MAX_BYTES + 1);
        assert!(!written.is_due(&report(&long, "c"), late));
    }
}
