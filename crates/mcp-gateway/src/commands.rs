//! The commands of the program `mcp-gateway` beside the gateway itself. Each is a file of its own.
//!
//! Exit codes: 0 done, 1 the answer is no or it failed, 78 unusable configuration.

mod approvals;
mod bridge;
mod events;
mod explain;
mod login;
mod pins;

use std::io::Write as _;
use std::process::ExitCode;

use gateway_store::Database;
use gateway_store::events::{StoreError, StoreLocation};
use mcp_serve::Product;
use tokio::runtime::Builder;

use crate::config::{Config, ConfigError, Options};

/// Exit code of an unusable configuration (`EX_CONFIG` of sysexits.h).
const CONFIG_ERROR: u8 = 78;

/// Adds the commands to the gateway.
pub(crate) fn add<S, O>(product: Product<S, O>) -> Product<S, O> {
    product
        .command("approvals", approvals::run)
        .command("bridge", bridge::run)
        .command("events", events::run)
        .command("explain", explain::run)
        .command("login", login::run)
        .command("pins", pins::run)
}

/// A command that cannot be done, and its exit code.
struct Failure(u8, String);

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(1, text.into())
    }

    fn unavailable(error: StoreError) -> Self {
        Self::new(format!("the store cannot be used: {}", error.reason))
    }

    /// Prints the reason, and returns the exit code.
    fn exit_code(done: Result<u8, Self>) -> ExitCode {
        ExitCode::from(done.unwrap_or_else(|Self(code, text)| {
            print(&text);
            code
        }))
    }
}

/// Reads the configuration of a gateway with these options.
fn load(options: Options) -> Result<Config, Failure> {
    let unusable = |error: ConfigError| Failure(CONFIG_ERROR, error.to_string());
    options.load().map(|(config, _)| config).map_err(unusable)
}

/// Opens the database of a gateway with these options, and reads its state.
fn open(options: Options) -> Result<(Database, Config), Failure> {
    let config = load(options)?;
    require_store(&config.events)?;
    let database = Database::start(config.events.clone(), config.retention.clone(), None);
    let database = database.map_err(|error| Failure::new(error.to_string()))?;
    wait(database.state.refresh())?.map_err(Failure::unavailable)?;
    Ok((database, config))
}

/// Refuses a store in memory, and a file that no gateway has made: to open it would create it.
fn require_store(location: &StoreLocation) -> Result<(), Failure> {
    match location {
        StoreLocation::Memory => {
            let text = "the events of this gateway are in memory, and so is its state: set a file or a database as \
                `store` under [events], or with --events";
            Err(Failure(CONFIG_ERROR, text.to_owned()))
        }
        StoreLocation::File(path) if !path.exists() => Err(Failure::new(format!(
            "no gateway has stored anything at {}. Without `store` and --events, this is in the state folder of the \
             user who runs the command; the gateway of a service has its own under /var/lib/mcp-gateway: set \
             XDG_STATE_HOME to that folder, or run the command as the user of the service",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Waits for the database.
fn wait<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| Failure::new(error.to_string()))?;
    Ok(runtime.block_on(work))
}

/// The user of this command, for records.
fn user() -> String {
    let name = ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    format!(
        "command of {}",
        name.as_deref().unwrap_or("an unknown user")
    )
}

/// Prints a line. A closed pipe changes nothing.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
