//! The hosts of a database: one of them takes writes, and after a failover another one.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_rustls::TlsConnector;

use super::connection::within_limit;
use super::tls::{EncryptedStream, PostgresTls};
use crate::events::StoreError;

/// Connects to the first of the hosts that takes writes, within `limit` for all of them: each has the same part of it, and
/// one part is left for the statements after that. A host that accepts connections and does not answer costs its part, too.
pub(super) async fn connect(
    config: &Config,
    limit: Duration,
) -> Result<(Client, Connection<Socket, EncryptedStream<Socket>>), StoreError> {
    let tls = tls()?;
    let hosts = split(config);
    let part = match u32::try_from(hosts.len()) {
        Ok(count @ 2..) => limit / (count + 1),
        _ => limit,
    };
    let mut failures = Vec::new();
    for mut host in hosts {
        host.connect_timeout(part);
        let connecting = async { Ok(host.connect(tls.clone()).await?) };
        match within_limit(part, connecting).await {
            Ok(connected) => return Ok(connected),
            Err(error) => failures.push(error.reason),
        }
    }
    // Names no host, as the messages of one host do not.
    Err(StoreError::unavailable(failures.join("; ")))
}

/// Returns a configuration for each host. With several of them, only one that takes writes is of use.
fn split(config: &Config) -> Vec<Config> {
    let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let count = names.len().max(addresses.len());
    if count < 2 || !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        // A configuration that is not valid fails with the reason.
        return vec![config.clone()];
    }
    let one = |at| single(config, names.get(at), addresses.get(at).copied(), at);
    (0..count).map(one).collect()
}

fn single(config: &Config, name: Option<&Host>, address: Option<IpAddr>, at: usize) -> Config {
    let mut one = Config::new();
    match name {
        Some(Host::Tcp(name)) => _ = one.host(name),
        #[cfg(unix)]
        Some(Host::Unix(path)) => _ = one.host_path(path),
        None => {}
    }
    if let Some(address) = address {
        one.hostaddr(address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(at).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(database) = config.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(TargetSessionAttrs::ReadWrite);
    one
}

/// Returns the TLS configuration of the workspace, which always verifies certificates.
/// `sslmode=disable` in the address turns TLS off, `sslmode=require` makes it required.
fn tls() -> Result<PostgresTls, StoreError> {
    let config = mcp_client::tls::client_config();
    let config = config.map_err(|error| StoreError::unavailable(error.to_string()))?;
    Ok(PostgresTls(TlsConnector::from(Arc::new(config))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::PostgresConnection;

    #[test]
    fn each_host_has_all_settings_of_the_address() {
        let settings = "sslmode=require&application_name=a&options=-csearch_path%3Db&keepalives=1&keepalives_idle=7\
            &keepalives_interval=3&keepalives_retries=2&tcp_user_timeout=5&channel_binding=disable&sslnegotiation=direct\
            &target_session_attrs=read-write";
        let parse = |hosts: &str| -> Config {
            let address = format!("postgres://ada:secret@{hosts}/database?{settings}");
            address.parse().unwrap()
        };
        let several = split(&parse("one:1,two:2"));
        assert!(several == [parse("one:1"), parse("two:2")]);
        let several = split(&parse("one,two"));
        assert!(several == [parse("one:5432"), parse("two:5432")]);
        let alone = "postgres://ada@one/database".parse::<Config>().unwrap();
        assert!(split(&alone) == [alone]);
        // Without the setting: one that only reads is of no use.
        let several = "postgres://ada@10.0.0.1,10.0.0.2/database";
        for one in split(&several.parse().unwrap()) {
            assert_eq!(
                one.get_target_session_attrs(),
                TargetSessionAttrs::ReadWrite
            );
        }
    }

    /// Of several hosts, at a database for tests: one that does not answer, and a server that takes no writes.
    #[test]
    fn hosts_that_are_silent_or_read_only_are_passed_over() {
        let address = std::env::var("MCP_TEST_POSTGRES_URL").unwrap_or_default();
        if address.is_empty() {
            eprintln!("skipped: MCP_TEST_POSTGRES_URL names no database");
            return;
        }
        // Connections to it are made, and nothing answers.
        let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let host = format!("@{},", silent.local_addr().unwrap());
        let several = address.replacen('@', &host, 1);
        assert!(PostgresConnection::open(&several).is_ok());
        let more = if several.contains('?') { '&' } else { '?' };
        let read_only = format!("{several}{more}options=-cdefault_transaction_read_only%3Don");
        let reason = PostgresConnection::open(&read_only).err().unwrap().reason;
        assert!(reason.contains("does not answer in time; "), "{reason}");
        assert!(reason.contains("does not allow writes"), "{reason}");
        // A single one is used; the connection is given up when it refuses a write.
        let alone = format!("{address}{more}options=-cdefault_transaction_read_only%3Don");
        let refused = PostgresConnection::open(&alone).err().unwrap();
        assert_eq!(refused.fault, crate::events::StoreFault::Unavailable);
    }
}
