//! The tables in PostgreSQL, and their queries.

use mcp_core::server::TaskOwner;

use super::tasks::SavedTask;
use crate::database::{Connection, Row, StoreError, Value};

/// The channel has the number of the table: a database may have several in different schemas.
const LISTEN: &str = "
    do $$ begin execute format('listen mcp_gateways_%s', 'mcp_sessions'::regclass::oid); end $$
";
const NOTIFY: &str =
    "select pg_notify(format('mcp_gateways_%s', 'mcp_sessions'::regclass::oid), $1)";

/// The first half of the numbers of the locks, `mcp` in ASCII.
const LOCK: &str = "select pg_try_advisory_lock(7168880, $1::int)::int::bigint";
/// The gateways that hold their lock.
const ALIVE: &str = "
    select objid::bigint from pg_locks where locktype = 'advisory' and classid = 7168880 and objsubid = 2 and granted
        and database = (select oid from pg_database where datname = current_database())
";

/// A session may move from a gateway that is alive: the load balancer has decided that.
const CLAIM: &str = "
    insert into mcp_sessions as known (session, gateway) values ($1, $2)
        on conflict (session) do update set gateway = excluded.gateway
            where known.ended is null and (known.gateway = excluded.gateway or known.gateway in (ALIVE))
        returning 1::bigint
";
const HAS_ENDED: &str =
    "select (ended is not null)::int::bigint from mcp_sessions where session = $1";
const END_SESSION: &str = "
    insert into mcp_sessions as known (session, gateway, ended) values ($1, $2, now())
        on conflict (session) do update set ended = coalesce(known.ended, now())
";
/// Ended sessions that a gateway remembers; one that is not among them is found when it is claimed.
const ENDED_SESSIONS: &str = "
    select session from mcp_sessions where ended is not null order by ended desc limit 100000
";
const GIVE_UP_SESSIONS: &str = "delete from mcp_sessions where gateway = $1 and ended is null";

const SAVE_TASK: &str = "
    insert into mcp_tasks as known (owner, id, gateway, task, has_ended, expires)
        values ($1, $2, $3, $4, $5 = 1, now() + $6 * interval '1 millisecond')
        on conflict (owner, id) do update set task = excluded.task, has_ended = excluded.has_ended
            where not known.has_ended
";
const FIND_TASK: &str = "
    select task, (not has_ended and gateway not in (ALIVE))::int::bigint from mcp_tasks
        where owner = $1 and id = $2 and expires > now()
";
/// The newest tasks, oldest first. Their results are read with them, so the bytes are limited; the task that exceeds the
/// limit is the last.
const LIST_TASKS: &str = "
    select task, 0::bigint from (
        select task, created, id, sum(octet_length(task)) over newest - octet_length(task) as newer
            from mcp_tasks where owner = $1 and expires > now()
            window newest as (order by created desc, id rows unbounded preceding)
            order by created desc, id limit 1000
    ) as own where newer < 8388608 order by created, id desc
";
/// A session is valid for seven days.
const SWEEP: &str = "
    delete from mcp_tasks where expires < now();
    delete from mcp_sessions where coalesce(ended, claimed) < now() - interval '8 days';
";

/// The outcome of a claim for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The session is of this gateway from now on.
    Granted,
    /// The session has ended.
    Ended,
    /// The session is of a gateway without its lock.
    OfLostGateway,
}

/// A row of the tasks: its JSON, and whether its gateway has not got its lock.
pub(super) type TaskRow = (String, bool);

/// The tables over the connection of the gateway with this number.
pub(super) struct Tables<'a> {
    pub(super) database: &'a mut Connection,
    pub(super) own: i64,
}

impl Tables<'_> {
    /// Listens to the other gateways.
    pub(super) fn listen(&mut self) -> Result<(), StoreError> {
        self.database.batch(LISTEN)
    }

    /// Takes the lock of this gateway. Returns false if an earlier connection still has it.
    pub(super) fn lock(&mut self) -> Result<bool, StoreError> {
        let rows = self.database.query(LOCK, &[self.own.into()])?;
        Ok(rows.first().is_some_and(|row| row.integer(0) == 1))
    }

    /// Counts the other gateways that are alive.
    pub(super) fn others(&mut self) -> Result<usize, StoreError> {
        let alive = self.database.query(ALIVE, &[])?;
        let others = alive.iter().filter(|row| row.integer(0) != self.own);
        Ok(others.count())
    }

    pub(super) fn claim(&mut self, session: u128) -> Result<Claim, StoreError> {
        let claim = CLAIM.replace("ALIVE", ALIVE);
        let values = [handle(session), self.own.into()];
        if !self.database.query(&claim, &values)?.is_empty() {
            return Ok(Claim::Granted);
        }
        let found = self.database.query(HAS_ENDED, &values[..1])?;
        Ok(match found.first().map(|row| row.integer(0)) {
            Some(0) => Claim::OfLostGateway,
            Some(_) => Claim::Ended,
            // Its gateway has given it up at this moment.
            None => Claim::Granted,
        })
    }

    pub(super) fn end_session(&mut self, session: u128) -> Result<(), StoreError> {
        self.change(END_SESSION, vec![handle(session), self.own.into()])?;
        self.notify(&format!("{ENDED}{session:032x}"))
    }

    pub(super) fn ended_sessions(&mut self) -> Result<Vec<u128>, StoreError> {
        let rows = self.database.query(ENDED_SESSIONS, &[])?;
        let ended = rows.iter().filter_map(|row| row.bytes(0).try_into().ok());
        Ok(ended.map(u128::from_be_bytes).collect())
    }

    pub(super) fn give_up_sessions(&mut self) -> Result<(), StoreError> {
        self.change(GIVE_UP_SESSIONS, vec![self.own.into()])
    }

    pub(super) fn save_task(&mut self, task: &SavedTask) -> Result<(), StoreError> {
        let lifetime = i64::try_from(task.lifetime.as_millis()).unwrap_or(i64::MAX);
        let values = vec![
            Value::Bytes(task.owner.to_vec()),
            Value::from(task.id.as_str()),
            self.own.into(),
            Value::from(task.json.as_str()),
            i64::from(task.has_ended).into(),
            lifetime.into(),
        ];
        self.change(SAVE_TASK, values)
    }

    /// Returns the task with this id, or all tasks of the owner.
    pub(super) fn tasks(
        &mut self,
        owner: &TaskOwner,
        id: Option<&str>,
    ) -> Result<Vec<TaskRow>, StoreError> {
        let owner = Value::Bytes(owner.to_vec());
        let rows = match id {
            Some(id) => {
                let find = FIND_TASK.replace("ALIVE", ALIVE);
                self.database.query(&find, &[owner, id.into()])?
            }
            None => self.database.query(LIST_TASKS, &[owner])?,
        };
        let rows = rows.iter();
        let text = |row: &Row| row.text(0).unwrap_or_default().to_owned();
        Ok(rows.map(|row| (text(row), row.integer(1) == 1)).collect())
    }

    /// Asks the gateway that runs a task to cancel it.
    pub(super) fn cancel_task(&mut self, id: &str) -> Result<(), StoreError> {
        self.notify(&format!("{CANCEL}{id}"))
    }

    pub(super) fn sweep(&mut self) -> Result<(), StoreError> {
        self.database.batch(SWEEP)
    }

    fn notify(&mut self, text: &str) -> Result<(), StoreError> {
        self.change(NOTIFY, vec![text.into()])
    }

    fn change(&mut self, sql: &str, values: Vec<Value>) -> Result<(), StoreError> {
        self.database.execute(sql, &[values]).map(drop)
    }
}

/// The number of a session, as it is stored.
fn handle(session: u128) -> Value {
    Value::Bytes(session.to_be_bytes().to_vec())
}

/// The beginnings of notifications: a session has ended, a task is to be cancelled.
pub(super) const ENDED: &str = "ended ";
pub(super) const CANCEL: &str = "cancel ";
