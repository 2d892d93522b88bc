//! The thread that keeps the table of replicas.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_core::server::ReplicaId;
use mcp_serve::ListeningAddress;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tokio_postgres::types::{ToSql, Type};

use super::adoption;
use super::own_row::{self, OwnRow};
use super::peers::Peers;
use super::row::FaultyRows;
use super::{SharedTable, ended, news, placements, schema};
use crate::events::{Database, PostgresConnection, StoreError, StoreLocation};

/// Beats between two removals of old rows.
const BEATS_BETWEEN_CLEANUPS: u32 = 800;
/// Ended sessions that wait for the database; the oldest are not stored. One statement stores them.
const MAX_UNSAVED_SESSIONS: usize = 10_000;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BEAT: &str = "
    insert into mcp_replicas (id, address, version, key, signature) values ($1, $2, $3, $4, $5)
        on conflict (id) do update set beat = now(), address = excluded.address, signature = excluded.signature
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
const END: &str = "
    insert into mcp_ended_sessions (session) select unnest($1::bytea[]) on conflict do nothing returning session
";
/// A session is valid for seven days.
const CLEAN: &str = "
    delete from mcp_replicas where beat < now() - interval '10 minutes';
    delete from mcp_tasks where expires < now();
    delete from mcp_rates where beat < now() - interval '1 minute';
    delete from mcp_ended_sessions where ended < now() - interval '8 days';
";

/// Work for the thread.
pub(super) enum Job {
    Join(ListeningAddress),
    /// Does not wait for the time of the next beat.
    Beat,
    EndSession(u128, oneshot::Sender<bool>),
    /// Reads the table, unless it was read after this time; the answer is whether it was.
    Refresh(Instant, oneshot::Sender<bool>),
    Close,
}

/// The end of a wait.
enum Wake {
    Job(Job),
    News,
    Time,
}

pub(super) struct Worker {
    own: ReplicaId,
    location: StoreLocation,
    /// The configured URL of this process.
    address: Option<String>,
    /// The time between two beats.
    interval: Duration,
    jobs: Receiver<Job>,
    shared: Arc<SharedTable>,
    /// Waits while there is no connection.
    runtime: Runtime,
    connection: Option<PostgresConnection>,
    /// The time of the last beat.
    beaten: Instant,
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
    unsaved: VecDeque<(u128, oneshot::Sender<bool>)>,
    beats: u32,
    /// The last failure, to log each only once.
    failure: Option<String>,
}

impl Worker {
    pub(super) fn new(
        own: ReplicaId,
        location: StoreLocation,
        address: Option<String>,
        interval: Duration,
        jobs: Receiver<Job>,
        shared: Arc<SharedTable>,
    ) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self {
            own,
            location,
            address,
            interval,
            jobs,
            shared,
            runtime,
            connection: None,
            beaten: Instant::now(),
            listening: None,
            seen_host: None,
            faults: FaultyRows::default(),
            read: None,
            has_replaced: false,
            rival: None,
            unsaved: VecDeque::new(),
            beats: 0,
            failure: None,
        })
    }

    pub(super) fn run(mut self) {
        let mut next = Instant::now();
        // The time of a beat between two others, for what another replica has changed.
        let mut hastened = None;
        loop {
            // The beat comes first, whatever clients ask for.
            if Instant::now() >= next {
                next = Instant::now() + self.interval;
                self.beat(false);
                hastened = None;
            } else if hastened.is_some_and(|time| Instant::now() >= time) {
                self.beat(true);
                hastened = None;
            }
            match self.wait(hastened.map_or(next, |time| next.min(time))) {
                Wake::Time => {}
                Wake::News => {
                    let count = self.shared.peers.read().count_others();
                    hastened = Some(self.beaten + news::spacing(count));
                }
                Wake::Job(Job::Join(listening)) => {
                    // Rows count with the right signature only from now on, and the address may have to be asked for.
                    *self.shared.peers.write() = Peers::new(self.own);
                    self.connection = None;
                    self.listening = Some(listening);
                    next = Instant::now();
                }
                Wake::Job(Job::Beat) => next = Instant::now(),
                Wake::Job(Job::EndSession(session, stored)) => {
                    if self.unsaved.len() >= MAX_UNSAVED_SESSIONS {
                        self.unsaved.pop_front();
                    }
                    self.unsaved.push_back((session, stored));
                }
                Wake::Job(Job::Refresh(arrived, answer)) => {
                    let is_read = |read: Option<Instant>| read.is_some_and(|read| read >= arrived);
                    if !is_read(self.read) {
                        next = Instant::now() + self.interval;
                        self.beat(false);
                    }
                    // An error means that the caller does not wait any more.
                    let _ = answer.send(is_read(self.read));
                }
                Wake::Job(Job::Close) => return self.leave(),
            }
        }
    }

    /// Waits for a job or for news until `next`. Changes are stored once no job waits: many of them together.
    fn wait(&mut self, next: Instant) -> Wake {
        match self.jobs.try_recv() {
            Ok(job) => return Wake::Job(job),
            Err(TryRecvError::Disconnected) => return Wake::Job(Job::Close),
            Err(TryRecvError::Empty) => self.save(),
        }
        let connection = self.connection.as_ref();
        let news = connection.map(|connection| Arc::clone(&connection.news));
        let jobs = &mut self.jobs;
        let waiting = async {
            tokio::select! {
                job = jobs.recv() => Wake::Job(job.unwrap_or(Job::Close)),
                () = news::arrived(news.as_deref()) => Wake::News,
                () = sleep_until(next.into()) => Wake::Time,
            }
        };
        let runtime = connection.map_or(&self.runtime, |connection| &connection.runtime);
        runtime.block_on(waiting)
    }

    fn beat(&mut self, is_hastened: bool) {
        self.beaten = Instant::now();
        match self.try_beat(is_hastened) {
            Ok(()) => self.failure = None,
            Err(error) => self.on_error(error),
        }
        self.shared.readings.send_modify(|_| ());
    }

    /// A hastened beat reads what others may have changed, and leaves what is counted by time.
    fn try_beat(&mut self, is_hastened: bool) -> Result<(), StoreError> {
        let connection = self.connection.take();
        self.connection = connection.filter(|connection| !connection.client.is_closed());
        let is_reconnected = self.connection.is_none();
        if is_reconnected {
            let connection = connect(&self.location)?;
            connection.listen(news::LISTEN)?;
            self.connection = Some(connection);
        }
        self.try_save()?;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let client = &connection.client;
        let asks_address = own_row::asks_address(self.listening.as_ref(), self.address.as_deref());
        if is_reconnected && asks_address {
            self.seen_host = own_row::seen_host(connection)?;
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
            let (ended, tasks) = tokio::try_join!(
                client.query_typed(ended, &[]),
                adoption::read(client, &self.shared)
            )?;
            if self.beats.is_multiple_of(BEATS_BETWEEN_CLEANUPS) {
                client.batch_execute(CLEAN).await?;
                client.batch_execute(placements::CLEAN).await?;
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
        self.shared.ended_sessions.write().add(&ended)?;
        // Before this replica counts as one that has been seen by the others.
        tasks.set_moved(&self.shared)?;
        self.shared.peers.write().update(peers, sent);
        self.read = Some(sent);
        self.shared.readings.send_modify(|number| *number += 1);
        tasks.mark_lost(&self.shared, connection)?;
        if !is_hastened {
            self.shared.rates.exchange(connection, self.own)?;
        }
        if let Some(row) = &own {
            if !is_hastened || is_reconnected {
                let others = self.shared.peers.read().others();
                let reports = &self.shared.reports;
                reports.exchange(connection, self.own, &others, is_reconnected)?;
            }
            let members = self.shared.peers.read().members().clone();
            let key = row.key.as_str();
            let placements = &self.shared.placements;
            placements.exchange(connection, self.own, key, &members, sent)?;
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
        let rows = connection.within(async {
            let sessions: (&(dyn ToSql + Sync), Type) = (&sessions, Type::BYTEA_ARRAY);
            Ok(client.query_typed(END, &[sessions]).await?)
        })?;
        let mut inserted = ended::handles(&rows)?;
        for (session, stored) in self.unsaved.drain(..) {
            // Only the first of several that end the same one. An error means that the caller does not wait any more.
            let _ = stored.send(inserted.remove(&session));
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
    let PostgresConnection {
        client, runtime, ..
    } = &mut connection;
    PostgresConnection::block_on(runtime, schema::migrate(client))?;
    Ok(connection)
}
