//! A connection to SQLite or PostgreSQL. Statements are the same for both: parameters are `$1`, `$2`, in the order of
//! their first use.

use super::StoreError;
use super::postgres::PostgresConnection;
use super::sqlite::SqliteConnection;

/// A connection to a database in which the tables are. Its methods block, but not for more than a few seconds.
pub(crate) enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PostgresConnection),
}

/// A parameter of a statement, or a column of a row. There is no `null` but that of texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Text(Option<Box<str>>),
    Bytes(Vec<u8>),
}

/// A row of a result.
pub(crate) struct Row(pub(super) Vec<Value>);

impl Connection {
    /// Runs a query.
    pub(crate) fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.query(sql, values)?),
            Self::Postgres(postgres) => postgres.query(sql, values),
        }
    }

    /// Runs a statement once for each row of values, and returns the number of rows that each has changed.
    pub(crate) fn execute(
        &mut self,
        sql: &str,
        rows: &[Vec<Value>],
    ) -> Result<Vec<u64>, StoreError> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.execute(sql, rows)?),
            Self::Postgres(postgres) => postgres.execute(sql, rows),
        }
    }

    /// Runs `work` in a transaction, which is undone if `work` fails or returns false. One that is durable survives a
    /// power failure.
    pub(crate) fn in_transaction(
        &mut self,
        is_durable: bool,
        work: impl FnOnce(&mut Self) -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        self.batch(match (&self, is_durable) {
            (Self::Sqlite(_), true) => "pragma synchronous = full; begin immediate",
            (Self::Sqlite(_), false) => "pragma synchronous = normal; begin immediate",
            (Self::Postgres(_), true) => "begin; set local synchronous_commit = on",
            (Self::Postgres(_), false) => "begin",
        })?;
        let done = match work(self) {
            Ok(true) => self.batch("commit").map(|()| true),
            other => other,
        };
        if done != Ok(true) {
            // Fails if the connection has, and then it is closed.
            let _ = self.batch("rollback");
        }
        done
    }

    /// Runs statements without parameters.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(sqlite) => Ok(sqlite.batch(sql)?),
            Self::Postgres(postgres) => postgres.batch(sql),
        }
    }

    /// Gives the statements more time: a search through all events of a large log takes long, and delays no write.
    pub(crate) fn allow_searches(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(postgres) => postgres.allow_searches(),
        }
    }

    /// The texts that other connections have sent to this one, which listens.
    pub(crate) fn notifications(&mut self) -> Vec<String> {
        match self {
            Self::Sqlite(_) => Vec::new(),
            Self::Postgres(postgres) => postgres.notifications(),
        }
    }

    /// Returns an error if the file was removed or replaced: writes to the open file would be lost.
    pub(crate) fn verify(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(sqlite) => sqlite.verify(),
            Self::Postgres(_) => Ok(()),
        }
    }

    /// True if several gateways may share the database.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

impl Row {
    /// Returns a column with an integer; 0 for any other.
    pub(crate) fn integer(&self, at: usize) -> i64 {
        match self.0.get(at) {
            Some(Value::Integer(integer)) => *integer,
            _ => 0,
        }
    }

    /// Returns a column with a text; `None` for any other.
    pub(crate) fn text(&self, at: usize) -> Option<&str> {
        match self.0.get(at) {
            Some(Value::Text(text)) => text.as_deref(),
            _ => None,
        }
    }

    /// Returns a column with bytes; none for any other.
    pub(crate) fn bytes(&self, at: usize) -> &[u8] {
        match self.0.get(at) {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.into()))
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}
