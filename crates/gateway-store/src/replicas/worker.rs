//! The thread that keeps the table of replicas.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use mcp_core::server::ReplicaId;
use mcp_serve::ListeningAddress;
use tokio::sync::oneshot;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::adoption;
use super::members::BEAT_INTERVAL;
use super::own_row::{self, OwnRow};
use super::peers::Peers;
use super::row::FaultyRows;
use super::{SharedTable, schema};
use crate::events::{Database, PostgresConnection, StoreError, StoreFault, StoreLocation};

/// Beats between two removals of old rows.
const BEATS_BETWEEN_CLEANUPS: u32 = 800;
/// Ended sessions that wait for the database; the oldest are not stored. One statement stores them.
const MAX_UNSAVED_SESSIONS: usize = 10_000;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BEAT: &str = "
    insert into mcp_replicas (id, address, version, key, signature) values ($1, $2, $3, $4, $5)
        on conflict (id) do update set beat = now(), address = excluded.address, signature = excluded.signature
";
/// The database sees the address of a process that listens on all of them.
const SEEN_HOST: &str = "
    select case family(inet_client_addr())
        when 6 then '[' || host(inet_client_addr()) || ']' else host(inet_client_addr()) end
";
/// A process that had the same address before has ended without a word. Tried once, when this one joins: one that still
/// runs writes its row again.
const REPLACE: &str = "
    delete from mcp_replicas as other using mcp_replicas as own
        where own.id = $1 and other.id <> own.id and other.address = own.address
";
const READ: &str = "
    select id, address, version, key, signature, (extract(epoch from beat) * 1000000)::bigint,
        (extract(epoch from clock_timestamp()) * 1000000)::bigint from mcp_replicas
";
/// The interval is longer than a statement may take: its time is that of its beginning.
const NEWLY_ENDED: &str =
    "select session from mcp_ended_sessions where ended > now() - interval '10 seconds'";
/// Oldest first, as they are forgotten.
const ALL_ENDED: &str = "
    select session from (
        select session, ended from mcp_ended_sessions order by ended desc limit 1000000
    ) as newest order by ended
";
const END: &str =
    "insert into mcp_ended_sessions (session) select unnest($1::bytea[]) on conflict do nothing";
const WRITE_DEMANDS: &str = "
    insert into mcp_rates (client, replica, demand)
        select client, $3, demand from unnest($1::text[], $2::double precision[]) as own (client, demand)
        on conflict (client, replica) do update set demand = excluded.demand, beat = now()
";
const READ_DEMANDS: &str = "
    select client, sum(demand) from mcp_rates
        where client = any($1) and beat > now() - interval '3 seconds' group by client
";
/// A session is valid for seven days.
const CLEAN: &str = "
    delete from mcp_replicas where beat < now() - interval '1 hour';
    delete from mcp_tasks where expires < now();
    delete from mcp_rates where beat < now() - interval '1 minute';
    delete from mcp_ended_sessions where ended < now() - interval '8 days';
";

/// Work for the thread.
pub(super) enum Job {
    Join(ListeningAddress),
    /// Does not wait for the time of the next beat.
    Beat,
    EndSession(u128, oneshot::Sender<()>),
    /// Reads the table, unless it was read after this time; the answer is whether it was.
    Refresh(Instant, oneshot::Sender<bool>),
    Close,
}

pub(super) struct Worker {
    own: ReplicaId,
    location: StoreLocation,
    /// The configured URL of this process.
    address: Option<String>,
    jobs: Receiver<Job>,
    shared: Arc<SharedTable>,
    connection: Option<PostgresConnection>,
    listening: Option<ListeningAddress>,
    /// The host of this process as the database sees it.
    seen_host: Option<String>,
    faults: FaultyRows,
    /// The time at which the table was read last.
    read: Option<Instant>,
    /// True once the row of an earlier process with the same address was removed.
    has_replaced: bool,
    /// The last replica with the same address, to log each only once.
    rival: Option<ReplicaId>,
    /// Sessions that have ended and are to be stored, oldest first, and who waits for that.
    unsaved: VecDeque<(u128, oneshot::Sender<()>)>,
    beats: u32,
    /// The last failure, to log each only once.
    failure: Option<String>,
}

impl Worker {
    pub(super) fn new(
        own: ReplicaId,
        location: StoreLocation,
        address: Option<String>,
        jobs: Receiver<Job>,
        shared: Arc<SharedTable>,
    ) -> Self {
        Self {
            own,
            location,
            address,
            jobs,
            shared,
            connection: None,
            listening: None,
            seen_host: None,
            faults: FaultyRows::default(),
            read: None,
            has_replaced: false,
            rival: None,
            unsaved: VecDeque::new(),
            beats: 0,
            failure: None,
        }
    }

    pub(super) fn run(mut self) {
        let mut next = Instant::now();
        loop {
            // The beat comes first, whatever clients ask for.
            if Instant::now() >= next {
                next = Instant::now() + BEAT_INTERVAL;
                self.beat();
            }
            match self.next_job(next) {
                Ok(Job::Join(listening)) => {
                    // Rows count with the right signature only from now on, and the address may have to be asked for.
                    *self.shared.peers.write() = Peers::new(self.own);
                    self.connection = None;
                    self.listening = Some(listening);
                    next = Instant::now();
                }
                Ok(Job::Beat) => next = Instant::now(),
                Ok(Job::EndSession(session, stored)) => {
                    if self.unsaved.len() >= MAX_UNSAVED_SESSIONS {
                        self.unsaved.pop_front();
                    }
                    self.unsaved.push_back((session, stored));
                }
                Ok(Job::Refresh(arrived, answer)) => {
                    let is_read = |read: Option<Instant>| read.is_some_and(|read| read >= arrived);
                    if !is_read(self.read) {
                        next = Instant::now() + BEAT_INTERVAL;
                        self.beat();
                    }
                    // An error means that the caller does not wait any more.
                    let _ = answer.send(is_read(self.read));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Job::Close) | Err(RecvTimeoutError::Disconnected) => return self.leave(),
            }
        }
    }

    /// Waits for a job until `next`. Changes are stored once no job waits: many of them together.
    fn next_job(&mut self, next: Instant) -> Result<Job, RecvTimeoutError> {
        match self.jobs.try_recv() {
            Ok(job) => return Ok(job),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => self.save(),
        }
        let rest = next.saturating_duration_since(Instant::now());
        self.jobs.recv_timeout(rest)
    }

    fn beat(&mut self) {
        match self.try_beat() {
            Ok(()) => self.failure = None,
            Err(error) => self.on_error(error),
        }
        self.shared.readings.send_modify(|_| ());
    }

    fn try_beat(&mut self) -> Result<(), StoreError> {
        let is_reconnected = self.connection.is_none();
        if is_reconnected {
            self.connection = Some(connect(&self.location)?);
        }
        self.try_save()?;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let client = &connection.client;
        let asks_address = own_row::asks_address(self.listening.as_ref(), self.address.as_deref());
        if is_reconnected && asks_address {
            self.seen_host = connection.within(async {
                let rows = client.query_typed(SEEN_HOST, &[]).await?;
                Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
            })?;
        }
        let own = self.listening.as_ref().map(|listening| {
            let (configured, seen) = (self.address.as_deref(), self.seen_host.as_deref());
            OwnRow::new(self.own, listening, configured, seen)
        });
        let id = i64::from(self.own.bits());
        let sent = Instant::now();
        let (rows, ended, tasks, asked, answered) = connection.within(async {
            if let Some(own) = &own {
                let values: [(&(dyn ToSql + Sync), Type); 5] = [
                    (&id, Type::INT8),
                    (&own.address, Type::TEXT),
                    (&VERSION, Type::TEXT),
                    (&own.key, Type::TEXT),
                    (&own.signature, Type::TEXT),
                ];
                client.execute_typed(BEAT, &values).await?;
                if !self.has_replaced {
                    client.execute_typed(REPLACE, &values[..1]).await?;
                }
            }
            let ended = match is_reconnected {
                true => ALL_ENDED,
                false => NEWLY_ENDED,
            };
            let asked = Instant::now();
            let rows = client.query_typed(READ, &[]).await?;
            let answered = Instant::now();
            let (ended, tasks) =
                tokio::try_join!(client.query_typed(ended, &[]), adoption::read(client, id))?;
            if self.beats.is_multiple_of(BEATS_BETWEEN_CLEANUPS) {
                client.batch_execute(CLEAN).await?;
            }
            Ok((rows, ended, tasks, asked, answered))
        })?;
        self.has_replaced = own.is_some();
        self.beats = self.beats.wrapping_add(1);
        if let Some(row) = rows.first() {
            let micros: i64 = row.try_get(6)?;
            let time = Duration::from_micros(micros.unsigned_abs());
            self.shared.clock.set(asked, answered, time);
        }
        let listening = self.listening.as_ref();
        let peers = self.faults.without_faulty(&rows, listening)?;
        self.add_ended(&ended)?;
        // Before this replica counts as one that has been seen by the others.
        tasks.set_moved(&self.shared)?;
        self.shared.peers.write().update(peers, sent);
        self.read = Some(sent);
        self.shared.readings.send_modify(|number| *number += 1);
        tasks.mark_lost(&self.shared, connection)?;
        match self.exchange_demands(connection) {
            // A name of a client may not cost the beats; the parts stay as they are.
            Err(error) if error.fault == StoreFault::Rejected => {
                tracing::debug!(reason = error.reason, "the demands are not stored");
            }
            exchanged => exchanged?,
        }
        if let Some(row) = &own {
            let others = self.shared.peers.read().others();
            let reports = &self.shared.reports;
            reports.exchange(connection, self.own, &others, is_reconnected)?;
            let members = self.shared.peers.read().members().clone();
            let key = row.key.as_str();
            let placements = &self.shared.placements;
            placements.exchange(connection, self.own, key, &members)?;
        }
        self.find_rival();
        Ok(())
    }

    /// Logs a replica that runs with the same address: requests for one of them come to the other.
    fn find_rival(&mut self) {
        let rival = self.shared.peers.read().rival();
        let Some((id, address)) = rival.filter(|(id, _)| self.rival != Some(*id)) else {
            return;
        };
        self.rival = Some(id);
        tracing::error!(
            address = &*address,
            replica = %id,
            "another gateway on this database has the same address: give each its own (--replica-address)"
        );
    }

    /// Writes how many requests of each client come here, and reads those of all replicas together.
    fn exchange_demands(&self, connection: &PostgresConnection) -> Result<(), StoreError> {
        let (names, demands) = self.shared.rates.end_interval();
        if names.is_empty() {
            return Ok(());
        }
        let own = i64::from(self.own.bits());
        let values: [(&(dyn ToSql + Sync), Type); 3] = [
            (&names, Type::TEXT_ARRAY),
            (&demands, Type::FLOAT8_ARRAY),
            (&own, Type::INT8),
        ];
        let client = &connection.client;
        let totals = connection.within(async {
            client.execute_typed(WRITE_DEMANDS, &values).await?;
            let names: (&(dyn ToSql + Sync), Type) = (&names, Type::TEXT_ARRAY);
            Ok(client.query_typed(READ_DEMANDS, &[names]).await?)
        })?;
        let total = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let totals = totals.iter().map(total);
        let totals = totals.collect::<Result<Vec<_>, StoreError>>()?;
        self.shared.rates.set_totals(totals);
        Ok(())
    }

    fn add_ended(&self, rows: &[Row]) -> Result<(), StoreError> {
        let mut ended = self.shared.ended_sessions.write();
        for row in rows {
            let bytes: &[u8] = row.try_get(0)?;
            if let Ok(bytes) = bytes.try_into() {
                ended.insert(u128::from_be_bytes(bytes));
            }
        }
        Ok(())
    }

    fn save(&mut self) {
        if let Err(error) = self.try_save() {
            self.on_error(error);
        }
    }

    /// Stores the sessions that have ended.
    fn try_save(&mut self) -> Result<(), StoreError> {
        let Some(connection) = self
            .connection
            .as_ref()
            .filter(|_| !self.unsaved.is_empty())
        else {
            return Ok(());
        };
        let sessions = self.unsaved.iter();
        let sessions: Vec<_> = sessions.map(|(id, _)| id.to_be_bytes().to_vec()).collect();
        let client = &connection.client;
        connection.within(async {
            let sessions: (&(dyn ToSql + Sync), Type) = (&sessions, Type::BYTEA_ARRAY);
            client.execute_typed(END, &[sessions]).await?;
            Ok(())
        })?;
        for (_, stored) in self.unsaved.drain(..) {
            // An error means that the caller does not wait any more.
            let _ = stored.send(());
        }
        Ok(())
    }

    /// Removes the own row, so that the others do not wait for the next beat.
    fn leave(mut self) {
        self.save();
        let Some(connection) = self.connection.filter(|_| self.listening.is_some()) else {
            return;
        };
        let client = &connection.client;
        let left = connection.within(async {
            let own = i64::from(self.own.bits());
            let leave = "delete from mcp_replicas where id = $1";
            client.execute_typed(leave, &[(&own, Type::INT8)]).await?;
            Ok(())
        });
        if let Err(error) = left {
            tracing::debug!(reason = error.reason, "the row of this replica stays");
        }
    }

    fn on_error(&mut self, error: StoreError) {
        self.connection = None;
        self.shared.peers.write().miss(Instant::now());
        if self.failure.as_ref() != Some(&error.reason) {
            let reason = &error.reason;
            tracing::warn!(reason, "the database of the replicas cannot be used");
            self.failure = Some(error.reason);
        }
    }
}

pub(super) fn connect(location: &StoreLocation) -> Result<PostgresConnection, StoreError> {
    let Database::Postgres(mut connection) = location.connect()? else {
        return Err(StoreError::unavailable("it is not PostgreSQL"));
    };
    let PostgresConnection { client, runtime } = &mut connection;
    PostgresConnection::block_on(runtime, schema::migrate(client))?;
    Ok(connection)
}
