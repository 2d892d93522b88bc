//! A connection to a SQLite file, or to a database in memory.
//!
//! Readers do not delay the writer: the file has a write-ahead log.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, TransactionBehavior, params_from_iter};

use super::connection::{Row, Value};
use super::{StoreError, StoreFault, schema};

/// Longest wait for the lock of another process, which a busy disk may need for some seconds: the decision of an operator
/// must not fail meanwhile.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The `application_id` of the file: "mcpE".
const APPLICATION_ID: i64 = 0x6d63_7045;

/// Suffixes of the file, its write-ahead log and its shared memory.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Settings of a new file: large pages, since many events are written at a time; incremental vacuum gives free pages
/// back to the disk.
const FILE_SETTINGS: &str = "
    pragma page_size = 8192;
    pragma auto_vacuum = incremental;
    pragma journal_mode = wal;
";

/// Settings of each connection. `read_uncommitted` counts in memory only, where a reader would lock the tables.
const CONNECTION_SETTINGS: &str = "
    pragma wal_autocheckpoint = 500;
    pragma journal_size_limit = 4194304;
    pragma cache_size = -8192;
    pragma temp_store = memory;
    pragma read_uncommitted = true;
";

/// An open file, in which the tables are; or a database in memory.
pub(crate) struct SqliteConnection {
    connection: Connection,
    /// The identity of the open file; `None` in memory.
    file: Option<FileId>,
}

impl SqliteConnection {
    /// Opens the file. Creates it and its folder if they are missing.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        // Only this user can read it: events are private.
        match mcp_serve::create_private(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failure(error));
            }
            Ok(_) | Err(_) => {}
        }
        let connection = Connection::open(path)?;
        let file = FileId::new(path)?;
        Self::with(connection, Some(file))
    }

    /// Opens the database in memory with this name.
    pub(super) fn in_memory(name: &str) -> Result<Self, StoreError> {
        let address = format!("file:{name}?mode=memory&cache=shared");
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Self::with(Connection::open_with_flags(address, flags)?, None)
    }

    fn with(mut connection: Connection, file: Option<FileId>) -> Result<Self, StoreError> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        prepare(&mut connection)?;
        Ok(Self { connection, file })
    }

    pub(super) fn query(&self, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let found = statement.query_map(params_from_iter(values), |row| {
            let values = (0..columns).map(|at| {
                Ok(match row.get_ref(at)? {
                    ValueRef::Integer(integer) => Value::Integer(integer),
                    ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
                    other => Value::Text(other.as_str_or_null()?.map(Into::into)),
                })
            });
            values.collect::<rusqlite::Result<_>>().map(Row)
        })?;
        found.collect()
    }

    pub(super) fn execute(&self, sql: &str, rows: &[Vec<Value>]) -> rusqlite::Result<Vec<u64>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let each = rows
            .iter()
            .map(|values| Ok(statement.execute(params_from_iter(values))? as u64));
        each.collect()
    }

    pub(super) fn batch(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.execute_batch(sql)
    }

    pub(super) fn verify(&mut self) -> Result<(), StoreError> {
        if self.file.as_mut().is_none_or(FileId::is_in_place) {
            return Ok(());
        }
        let reason = "the file was removed or replaced; earlier events are not in the new one";
        Err(StoreError {
            fault: StoreFault::Replaced,
            reason: reason.to_owned(),
        })
    }

    /// Gives at most so many free pages back to the disk.
    pub(crate) fn free_pages(&self, pages: u64) -> Result<(), StoreError> {
        Ok(self.batch(&format!("pragma incremental_vacuum({pages})"))?)
    }

    /// The bytes of the file, and those of them that are used.
    pub(crate) fn size(&self) -> Result<(u64, u64), StoreError> {
        let number = |name| {
            let value = self
                .connection
                .pragma_query_value(None, name, |row| row.get(0));
            value.map(i64::unsigned_abs)
        };
        let (page, pages) = (number("page_size")?, number("page_count")?);
        let free = number("freelist_count")?;
        Ok((page * pages, page * pages.saturating_sub(free)))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(integer) => ValueRef::Integer(*integer),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Text(None) => ValueRef::Null,
        }))
    }
}

/// Applies the settings, and creates the tables in a new file.
fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    // Checked first, so that the file of another application is not changed.
    let is_new = is_empty(connection)?;
    if !is_new {
        check(connection)?;
    }
    connection.execute_batch(CONNECTION_SETTINGS)?;
    if !is_new {
        return Ok(());
    }
    connection.execute_batch(FILE_SETTINGS)?;
    let create = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables meanwhile.
    if is_empty(&create)? {
        create.execute_batch(&schema::for_sqlite())?;
        create.pragma_update(None, "application_id", APPLICATION_ID)?;
        create.pragma_update(None, "user_version", schema::VERSION)?;
    }
    create.commit()?;
    Ok(())
}

fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables = "select count(*) from sqlite_schema";
    connection.query_row(tables, [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

fn check(connection: &Connection) -> Result<(), StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if number("application_id")? != APPLICATION_ID {
        let text = "the file is not an event log of this version";
        return Err(StoreError::unavailable(text));
    }
    schema::check(number("user_version")?)
}

/// The identity of an open file and of its write-ahead log.
struct FileId {
    path: PathBuf,
    file: Inode,
    /// `None` until the log was created.
    log: Option<Inode>,
}

/// The device and the inode of a file. The same for all files on Windows, where a file that is open
/// cannot be replaced.
type Inode = (u64, u64);

impl FileId {
    fn new(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            path: path.to_owned(),
            file: inode(path).map_err(failure)?,
            log: None,
        })
    }

    fn is_in_place(&mut self) -> bool {
        let log = inode(&with_suffix(&self.path, "-wal")).ok();
        self.log = self.log.or(log);
        self.log == log && inode(&self.path).is_ok_and(|file| file == self.file)
    }
}

fn inode(path: &Path) -> io::Result<Inode> {
    let file = fs::metadata(path)?;
    #[cfg(unix)]
    return Ok((
        std::os::unix::fs::MetadataExt::dev(&file),
        std::os::unix::fs::MetadataExt::ino(&file),
    ));
    #[cfg(not(unix))]
    Ok((0, u64::from(file.is_file())))
}

/// Renames a damaged file, so that it can be examined. Replaces an earlier one, to keep at most one.
pub(super) fn quarantine(path: &Path) -> Result<(), StoreError> {
    for suffix in SUFFIXES {
        let to = with_suffix(path, &format!(".corrupt{suffix}"));
        match fs::rename(with_suffix(path, suffix), &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Belongs to an earlier damaged file.
                let _ = fs::remove_file(&to);
            }
            moved => moved.map_err(failure)?,
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn failure(error: io::Error) -> StoreError {
    StoreError::unavailable(error.to_string())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreFault::Corrupt,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig) => {
                StoreFault::Rejected
            }
            _ => StoreFault::Unavailable,
        };
        Self {
            fault,
            reason: error.to_string(),
        }
    }
}
