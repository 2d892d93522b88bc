//! Checks that the other replicas can reach this one.

use std::net::IpAddr;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Returns true if the database of this URL is on this machine, as far as the URL tells.
pub(super) fn is_local_database(url: &str) -> bool {
    let Ok(config) = url.parse::<Config>() else {
        return false;
    };
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(IpAddr::is_loopback);
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_local_name(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

/// Returns true if the URL of a replica names this machine only.
pub(super) fn is_local_address(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => authority.split(':').next(),
    };
    host.is_some_and(is_local_name)
}

fn is_local_name(name: &str) -> bool {
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    address.map_or_else(
        |_| name.eq_ignore_ascii_case("localhost"),
        |address| address.to_canonical().is_loopback(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_told_from_others() {
        let urls = [
            ("http://127.0.0.1:3455", true),
            ("https://127.8.0.1", true),
            ("http://[::1]:3455/", true),
            ("http://[::ffff:127.0.0.1]:1", true),
            ("http://LOCALHOST:3455", true),
            ("http://10.0.0.7:3455", false),
            ("http://[fd00::1]:3455", false),
            ("http://localhost.example.com", false),
            ("http://gateway-2:3455", false),
        ];
        for (url, expected) in urls {
            assert_eq!(is_local_address(url), expected, "{url}");
        }
        let databases = [
            ("postgres://a:b@127.0.0.1/c", true),
            ("postgres://a@[::1]:5432/c", true),
            ("postgres://a@localhost/c?sslmode=disable", true),
            ("postgres:///c?host=/run/postgresql&user=a", true),
            ("postgres://a@db.example.com/c", false),
            ("postgres://a@10.0.0.9,localhost/c", false),
            ("postgres://a@db/c?hostaddr=127.0.0.1", true),
            ("postgres://a@localhost/c?hostaddr=10.0.0.9", false),
        ];
        for (url, expected) in databases {
            assert_eq!(is_local_database(url), expected, "{url}");
        }
    }
}
