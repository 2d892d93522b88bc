//! The replicas of the gateway: processes that share a PostgreSQL database, and serve the same clients.
//!
//! * [`members`]: decisions about other replicas, and a model that searches for orders of events that break them.
//! * [`peers`]: which replicas are alive, and which of them has what.
//! * [`ended`]: the sessions that have ended.
//! * [`locality`]: whether the others can reach this one.
//! * [`row`]: the rows of replicas, with their signatures; [`own_row`]: that of this one.
//! * [`clock`]: the time of the database.
//! * [`rates`]: the part of the rate limit that each of them may admit.
//! * [`placements`]: which of them runs a backend that runs only once.
//! * [`reports`]: what each of them tells the others.
//! * [`worker`]: the thread that keeps the table of replicas, with each beat. No request waits for it.
//! * [`news`]: notifications of the others, which hasten a beat.
//! * [`adoption`]: the tasks of replicas that have ended.
//! * [`tasks`]: tasks, for the replicas that do not run them.
//! * [`schema`]: the tables, and how they change from version to version.
//!
//! The clocks of replicas are never compared: the time of the database orders beats and dates what replicas sign, and each
//! replica measures how long a beat has not changed with its own.

mod adoption;
mod clock;
mod ended;
mod locality;
mod members;
mod news;
mod own_row;
mod peers;
mod placements;
mod rates;
mod reports;
mod row;
mod schema;
mod tasks;
mod worker;

use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use mcp_core::server::{Place, ReplicaId};
use mcp_serve::{ListeningAddress, ReplicaSet, process_id};
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use self::clock::DatabaseClock;
use self::ended::EndedSessions;
use self::members::BEAT_INTERVAL;
use self::peers::Peers;
pub use self::placements::Placed;
use self::placements::Placements;
use self::rates::RateShares;
use self::reports::Reports;
pub use self::reports::{Report, ReportOf};
use self::tasks::Tasks;
use self::worker::{Job, Worker};
use crate::events::StoreLocation;

/// Changes that wait for the database; more are lost.
const MAX_WAITING_JOBS: usize = 10_000;
/// The reason why a process does not become a replica.
const UNREACHABLE: &str = "\
    the database of the replicas is on another machine, and the address of this gateway is of this machine only: \
    gateways on others cannot reach it. It serves its clients alone, until it listens on an address of the network or \
    has one by --replica-address";
/// Timeout for what a client waits for; the change is made later then.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout for a new replica to become known to the others.
const JOIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for the first reading of the table.
const FIRST_READ_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The replicas that share a database.
pub struct ReplicaTable {
    shared: Arc<SharedTable>,
    jobs: Sender<Job>,
    tasks: Tasks,
    threads: Mutex<Option<[JoinHandle<()>; 2]>>,
    started: Instant,
    /// True if the others can reach an address of this machine only.
    is_local: bool,
    /// True if the URL of this process is configured.
    has_address: bool,
}

/// The table as it was read last.
struct SharedTable {
    own: ReplicaId,
    /// The name of the key, once this process has a port. Tasks of replicas with another one are not its own.
    key: OnceLock<String>,
    /// The tasks that another replica has taken, by the random digits of their ids.
    moved: RwLock<HashMap<String, ReplicaId>>,
    peers: RwLock<Peers>,
    ended_sessions: RwLock<EndedSessions>,
    rates: RateShares,
    clock: DatabaseClock,
    reports: Reports,
    placements: Placements,
    /// The number of readings until now.
    readings: watch::Sender<u64>,
}

impl SharedTable {
    fn key(&self) -> Option<&str> {
        self.key.get().map(String::as_str)
    }

    fn set_moved(&self, moved: impl IntoIterator<Item = (String, ReplicaId)>) {
        let moved = moved.into_iter();
        let moved = moved.map(|(id, replica)| (tasks::digits(&id).to_owned(), replica));
        *self.moved.write() = moved.collect();
    }

    /// Returns the replica that has taken this task.
    fn moved(&self, task: &str) -> Option<ReplicaId> {
        self.moved.read().get(tasks::digits(task)).copied()
    }

    /// Returns true if another replica has taken this task.
    fn has_taken(&self, task: &str) -> bool {
        self.moved(task).is_some_and(|replica| replica != self.own)
    }

    /// Completes when `is_so`.
    async fn until(&self, is_so: impl Fn(&Peers) -> bool) {
        let mut readings = self.readings.subscribe();
        // Fails at the end of the process only.
        while !is_so(&self.peers.read()) && readings.changed().await.is_ok() {}
    }
}

/// A replica, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its id.
    pub id: ReplicaId,
    /// The URL by which the others reach it.
    pub address: Option<Arc<str>>,
    /// Its version.
    pub version: Arc<str>,
    /// False if it has stopped without a word.
    pub is_alive: bool,
    /// False if it signs with another key, so that it has no use for the others.
    pub has_same_key: bool,
}

impl ReplicaTable {
    /// Starts to follow the replicas in this database; `None` for one that is not shared. `address` is the URL by which
    /// the others reach this process; without one it is that of its port.
    ///
    /// # Errors
    /// When a thread cannot be started, or replicas on other machines cannot reach `address`.
    pub fn start(
        location: &StoreLocation,
        address: Option<String>,
    ) -> std::io::Result<Option<Self>> {
        Self::start_as(process_id(), location, address, BEAT_INTERVAL)
    }

    fn start_as(
        own: ReplicaId,
        location: &StoreLocation,
        address: Option<String>,
        interval: Duration,
    ) -> std::io::Result<Option<Self>> {
        let StoreLocation::Postgres(database) = location else {
            return Ok(None);
        };
        let is_local = locality::is_local_database(database);
        let has_address = address.is_some();
        if !is_local && address.as_deref().is_some_and(locality::is_local_address) {
            return Err(Error::new(ErrorKind::InvalidInput, UNREACHABLE));
        }
        let (jobs, waiting) = channel(MAX_WAITING_JOBS);
        let shared = Arc::new(SharedTable {
            own,
            key: OnceLock::new(),
            moved: RwLock::default(),
            peers: RwLock::new(Peers::new(own)),
            ended_sessions: RwLock::default(),
            rates: RateShares::default(),
            clock: DatabaseClock::default(),
            reports: Reports::default(),
            placements: Placements::default(),
            readings: watch::Sender::new(0),
        });
        let worker = Worker::new(
            own,
            location.clone(),
            address,
            interval,
            waiting,
            Arc::clone(&shared),
        )?;
        let (tasks, tasks_thread) = Tasks::start(location.clone(), Arc::clone(&shared))?;
        let thread = std::thread::Builder::new()
            .name("replicas".into())
            .spawn(move || worker.run())?;
        Ok(Some(Self {
            shared,
            jobs,
            tasks,
            threads: Mutex::new(Some([tasks_thread, thread])),
            started: Instant::now(),
            is_local,
            has_address,
        }))
    }

    /// Waits until the table was read for the first time, but not for long.
    pub async fn ready(&self) {
        let mut readings = self.shared.readings.subscribe();
        let read = readings.wait_for(|number| *number > 0);
        if timeout(FIRST_READ_TIMEOUT, read).await.is_err() {
            tracing::warn!("the other replicas are not known yet");
        }
    }

    /// Returns the reason why the database cannot be used, if it could not be reached for some seconds.
    pub fn outage(&self) -> Option<&'static str> {
        let is_away = self.shared.peers.read().is_without_database();
        is_away.then_some("the database of the replicas cannot be reached")
    }

    /// Returns all replicas, in the order of their ids.
    pub fn list(&self) -> Vec<ReplicaStatus> {
        self.shared.peers.read().list()
    }

    /// Shows the report of `source` to the others from now on. It is asked with each beat.
    pub fn show(&self, source: impl Fn() -> Report + Send + Sync + 'static) {
        self.shared.reports.set_source(Box::new(source));
    }

    /// Writes the report without waiting for the next beat.
    pub fn show_now(&self) {
        self.send(Job::Beat);
    }

    /// Returns the reports of the other replicas that are alive.
    pub fn reports(&self) -> Vec<ReportOf> {
        let others = self.others().into_iter();
        let reports = others.filter_map(|id| self.shared.reports.find(id));
        reports.map(|(report, _)| report).collect()
    }

    /// Returns the time since the start of a replica.
    pub fn uptime(&self, replica: ReplicaId) -> Option<Duration> {
        if self.place(replica, Instant::now()) == Place::Here {
            return Some(self.started.elapsed());
        }
        let (_, uptime) = self.shared.reports.find(replica)?;
        Some(uptime)
    }

    /// Sets the backends that run at one replica only, of which this one runs those that it gets.
    pub fn place_backends(&self, backends: Vec<String>) {
        self.shared.placements.set_wanted(backends);
        self.send(Job::Beat);
    }

    /// Returns the place of a backend that runs at one replica only; `None` while it has none.
    pub fn placed(&self, backend: &str) -> Option<Placed> {
        self.shared.placements.find(backend)
    }

    /// Returns the time until which this replica may run such a backend; `None` if it may not. It is later after each
    /// beat, so that it ends only for a replica that does not reach the database.
    pub fn held_until(&self, backend: &str) -> Option<Instant> {
        let own = self.shared.own;
        let until = self.shared.placements.held_until(backend, own)?;
        (Instant::now() < until).then_some(until)
    }

    /// Shows the lists of a backend that runs here to the others.
    pub fn show_lists(&self, backend: &str, lists: String) {
        self.shared.placements.write_lists(backend, lists);
        self.send(Job::Beat);
    }

    /// The number of readings of the table until now; it changes with each.
    pub fn readings(&self) -> watch::Receiver<u64> {
        self.shared.readings.subscribe()
    }

    /// Leaves the table, and stops the threads. Blocks for a few seconds at most.
    pub fn close(&self) {
        let Some([tasks, beats]) = self.threads.lock().take() else {
            return;
        };
        // The others look for its tasks once it has left. A full queue is emptied by its thread.
        self.tasks.close();
        let are_tasks_stored = tasks.join().is_ok();
        let _ = self.jobs.blocking_send(Job::Close);
        if beats.join().is_err() || !are_tasks_stored {
            tracing::error!("a thread of the replicas has panicked");
        }
    }

    fn send(&self, job: Job) {
        if self.jobs.try_send(job).is_err() {
            tracing::warn!("too many changes wait for the database of the replicas");
        }
    }
}

impl ReplicaSet for ReplicaTable {
    fn place(&self, id: ReplicaId, arrived: Instant) -> Place {
        self.shared.peers.read().place(id, arrived)
    }

    fn home(&self, session: u128, arrived: Instant) -> Place {
        self.shared.peers.read().home(session, arrived)
    }

    fn task_place(&self, id: &str, arrived: Instant) -> Option<Place> {
        let maker = ReplicaId::from_digits(id)?;
        Some(self.place(self.shared.moved(id).unwrap_or(maker), arrived))
    }

    fn join(&self, listening: ListeningAddress) -> BoxFuture<'_, ()> {
        if !self.is_local && !self.has_address && listening.address.ip().is_loopback() {
            tracing::error!(address = %listening.address, "{UNREACHABLE}");
            return Box::pin(std::future::ready(()));
        }
        // The key of a process stays.
        let _ = self.shared.key.set(listening.key.clone());
        self.send(Job::Join(listening));
        Box::pin(async move {
            let joined = async {
                self.shared.until(Peers::has_joined).await;
                if !self.others().is_empty() {
                    // Until the others have read it: what its clients get may come to them next.
                    tokio::time::sleep(BEAT_INTERVAL + BEAT_INTERVAL / 5).await;
                }
            };
            if timeout(JOIN_TIMEOUT, joined).await.is_err() {
                tracing::warn!("the other replicas do not know this one yet");
            }
        })
    }

    fn address(&self, id: ReplicaId) -> Option<Arc<str>> {
        self.shared.peers.read().address(id)
    }

    fn others(&self) -> Vec<ReplicaId> {
        self.shared.peers.read().others()
    }

    fn suspect(&self, id: ReplicaId) {
        self.shared.peers.write().suspect(id);
        self.shared.readings.send_modify(|_| ());
    }

    fn refresh(&self, arrived: Instant) -> BoxFuture<'_, bool> {
        let (read, is_read) = oneshot::channel();
        self.send(Job::Refresh(arrived, read));
        Box::pin(async move { matches!(timeout(CHANGE_TIMEOUT, is_read).await, Ok(Ok(true))) })
    }

    fn time(&self) -> Option<Duration> {
        self.shared.clock.at(Instant::now())
    }

    fn gone(&self, id: ReplicaId) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.until(|peers| peers.is_gone(id)).await })
    }

    fn end_session(&self, session: u128) -> BoxFuture<'_, Option<bool>> {
        self.shared.ended_sessions.write().insert(session);
        let (stored, is_stored) = oneshot::channel();
        self.send(Job::EndSession(session, stored));
        Box::pin(async move {
            // It is stored later if the database does not answer.
            timeout(CHANGE_TIMEOUT, is_stored).await.ok()?.ok()
        })
    }

    fn rate_share(&self, client: &str) -> f64 {
        let others = self.shared.peers.read().count_others();
        let equal = 1.0 / f64::from(others + 1);
        self.shared.rates.count(client, equal)
    }

    fn has_ended(&self, session: u128) -> bool {
        self.shared.ended_sessions.read().contains(session)
    }
}

#[cfg(test)]
mod tests;
