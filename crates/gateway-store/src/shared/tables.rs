//! The tables in PostgreSQL, and their queries.

use mcp_core::server::TaskOwner;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::worker::SavedTask;
use crate::database::StoreError;

/// The channel has the number of the table: a database may have several in different schemas.
const LISTEN: &str = "
    do $$ begin execute format('listen mcp_gateways_%s', 'mcp_sessions'::regclass::oid); end $$
";
const NOTIFY: &str =
    "select pg_notify(format('mcp_gateways_%s', 'mcp_sessions'::regclass::oid), $1)";

/// The first half of the numbers of the locks, `mcp` in ASCII.
const LOCK: &str = "select pg_try_advisory_lock(7168880, $1)";
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
        returning 1
";
const HAS_ENDED: &str = "select ended is not null from mcp_sessions where session = $1";
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
        values ($1, $2, $3, $4, $5, now() + $6 * interval '1 millisecond')
        on conflict (owner, id) do update set task = excluded.task, has_ended = excluded.has_ended
            where not known.has_ended
";
const FIND_TASK: &str = "
    select task, not has_ended and gateway not in (ALIVE) from mcp_tasks
        where owner = $1 and id = $2 and expires > now()
";
/// The newest tasks, oldest first. Their results are read with them, so the bytes are limited; the task that exceeds the
/// limit is the last.
const LIST_TASKS: &str = "
    select task, false from (
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

/// A value of a statement, and its type.
type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// The tables over one connection.
pub(super) struct Tables {
    client: Client,
    own: i32,
}

impl Tables {
    /// Listens to the other gateways.
    pub(super) async fn open(client: Client, own: i32) -> Result<Self, StoreError> {
        client.batch_execute("set synchronous_commit = on").await?;
        client.batch_execute(LISTEN).await?;
        Ok(Self { client, own })
    }

    /// Takes the lock of this gateway. Returns false if an earlier connection still has it.
    pub(super) async fn lock(&self) -> Result<bool, StoreError> {
        let rows = self.query(LOCK, &[self.own()]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()? == Some(true))
    }

    /// Counts the other gateways that are alive.
    pub(super) async fn others(&self) -> Result<usize, StoreError> {
        let alive = self.query(ALIVE, &[]).await?;
        let alive = alive.iter().map(|row| row.try_get::<_, i64>(0));
        let alive: Vec<i64> = alive.collect::<Result<_, _>>()?;
        let own = i64::from(self.own);
        Ok(alive.into_iter().filter(|gateway| *gateway != own).count())
    }

    pub(super) async fn claim(&self, session: u128) -> Result<Claim, StoreError> {
        let handle: &[u8] = &session.to_be_bytes();
        let handle: Parameter<'_> = (&handle, Type::BYTEA);
        let claim = CLAIM.replace("ALIVE", ALIVE);
        let claimed = self.query(&claim, &[handle.clone(), self.own()]).await?;
        if !claimed.is_empty() {
            return Ok(Claim::Granted);
        }
        let found = self.query(HAS_ENDED, &[handle]).await?;
        let has_ended = found.first().map(|row| row.try_get(0)).transpose()?;
        Ok(match has_ended {
            Some(false) => Claim::OfLostGateway,
            Some(true) => Claim::Ended,
            // Its gateway has given it up at this moment.
            None => Claim::Granted,
        })
    }

    pub(super) async fn end_session(&self, session: u128) -> Result<(), StoreError> {
        let handle: &[u8] = &session.to_be_bytes();
        let values: [Parameter<'_>; 2] = [(&handle, Type::BYTEA), self.own()];
        self.query(END_SESSION, &values).await?;
        self.notify(&format!("{ENDED}{session:032x}")).await
    }

    pub(super) async fn ended_sessions(&self) -> Result<Vec<u128>, StoreError> {
        let rows = self.query(ENDED_SESSIONS, &[]).await?;
        let mut ended = Vec::with_capacity(rows.len());
        for row in rows {
            let handle: &[u8] = row.try_get(0)?;
            ended.extend(handle.try_into().ok().map(u128::from_be_bytes));
        }
        Ok(ended)
    }

    pub(super) async fn give_up_sessions(&self) -> Result<(), StoreError> {
        self.query(GIVE_UP_SESSIONS, &[self.own()]).await.map(drop)
    }

    pub(super) async fn save_task(&self, task: &SavedTask) -> Result<(), StoreError> {
        let lifetime = task.lifetime.as_secs_f64() * 1_000.0;
        let values: [Parameter<'_>; 6] = [
            (&&task.owner[..], Type::BYTEA),
            (&task.id, Type::TEXT),
            self.own(),
            (&task.json, Type::TEXT),
            (&task.has_ended, Type::BOOL),
            (&lifetime, Type::FLOAT8),
        ];
        self.query(SAVE_TASK, &values).await.map(drop)
    }

    /// Returns the task with this id, or all tasks of the owner.
    pub(super) async fn tasks(
        &self,
        owner: &TaskOwner,
        id: Option<&str>,
    ) -> Result<Vec<TaskRow>, StoreError> {
        let owner: Parameter<'_> = (&&owner[..], Type::BYTEA);
        let rows = match &id {
            Some(id) => {
                let find = FIND_TASK.replace("ALIVE", ALIVE);
                self.query(&find, &[owner, (id, Type::TEXT)]).await?
            }
            None => self.query(LIST_TASKS, &[owner]).await?,
        };
        let rows = rows.iter();
        rows.map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
            .collect()
    }

    /// Asks the gateway that runs a task to cancel it.
    pub(super) async fn cancel_task(&self, id: &str) -> Result<(), StoreError> {
        self.notify(&format!("{CANCEL}{id}")).await
    }

    pub(super) async fn sweep(&self) -> Result<(), StoreError> {
        Ok(self.client.batch_execute(SWEEP).await?)
    }

    async fn notify(&self, text: &str) -> Result<(), StoreError> {
        self.query(NOTIFY, &[(&text, Type::TEXT)]).await.map(drop)
    }

    /// The number of this gateway, as a value.
    fn own(&self) -> Parameter<'_> {
        (&self.own, Type::INT4)
    }

    /// Without a prepared statement, which a pooler would not know.
    async fn query(
        &self,
        statement: &str,
        values: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        Ok(self.client.query_typed(statement, values).await?)
    }
}

/// The beginnings of notifications: a session has ended, a task is to be cancelled.
pub(super) const ENDED: &str = "ended ";
pub(super) const CANCEL: &str = "cancel ";
