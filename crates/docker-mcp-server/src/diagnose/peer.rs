//! The other container that a log line names: whether it runs, and whether it can be reached.

use super::facts::Facts;
use super::finding::{Cause, Confidence, Finding};
use crate::compose;
use crate::engine::ContainerSummary;

/// Words before a host name in messages of libraries.
const BEFORE_HOST: &str = "lookup|enotfound|eai_again|host|host:|name|unknownhostexception:|address|resolve|resolve:|to|at|upstream";

/// A host, and a port if the line names one.
type Address<'a> = (&'a str, Option<u16>);

/// Adds what is known about the service that `line` could not reach, and advises accordingly.
pub(super) fn explain(mut finding: Finding, line: &str, facts: &Facts) -> Finding {
    let addresses = addresses(line);
    let named = addresses
        .iter()
        .find_map(|address| Some((address, find(address.0, facts)?)));
    if let Some(((host, port), peer)) = named {
        return with_peer(finding, host, *port, peer, facts);
    }
    let Some((host, _)) = addresses.first() else {
        return finding;
    };
    if matches!(*host, "localhost" | "127.0.0.1" | "::1" | "0.0.0.0") {
        return finding
            .because(format!("`{host}` is this container itself, not the host and not another container."))
            .first("Use the name of the other container or service in its configuration, on a network that both share.");
    }
    let is_name = !host.contains('.');
    if is_name && finding.cause == Cause::NameResolution {
        finding.confidence = Confidence::High;
        finding = finding
            .because(format!("No visible container or compose service has the name `{host}`."))
            .first(format!("Start the service `{host}` in a network of this container, or correct the name: list_containers with all shows what there is."));
    }
    finding
}

fn with_peer(
    mut finding: Finding,
    host: &str,
    port: Option<u16>,
    peer: &ContainerSummary,
    facts: &Facts,
) -> Finding {
    let name = peer.display_name();
    if peer.state != "running" {
        finding.confidence = Confidence::High;
        return finding
            .because(format!("`{host}` is the container `{name}`, which does not run: {}.", peer.status))
            .first(format!("Find out why `{name}` does not run: diagnose_container {{\"container\": \"{name}\"}}. Then start this one again."));
    }
    let own = &facts.details.network_settings.networks;
    let theirs = &peer.network_settings.networks;
    let mut shared = own.keys().filter(|network| theirs.contains_key(*network));
    let list = |networks: Vec<&String>| match networks.as_slice() {
        [] => "no network".to_owned(),
        networks => networks
            .iter()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", "),
    };
    let Some(network) = shared.next_back() else {
        finding.confidence = Confidence::High;
        let (own, theirs) = (list(own.keys().collect()), list(theirs.keys().collect()));
        return finding
            .because(format!("`{name}` runs in {theirs}, this container in {own}."))
            .first(format!("Put both into one network: connect_network with one of {theirs} and this container."));
    };
    if network == "bridge" && finding.cause == Cause::NameResolution {
        finding.confidence = Confidence::High;
        return finding
            .because(format!("`{name}` runs, and both share only the default network, which has no DNS for names."))
            .first("Create a network (create_network) and connect both to it (connect_network).");
    }
    let port = port.map_or_else(|| "the port".to_owned(), |port| format!("port {port}"));
    finding
        .because(format!("`{name}` runs ({}) and shares the network `{network}`.", peer.status))
        .first(format!("Check that `{name}` listens on {port} and on 0.0.0.0, or was only not ready yet: get_container_logs {{\"container\": \"{name}\"}}."))
}

/// The container with this name, compose service or address; not the diagnosed one.
fn find<'a>(host: &str, facts: &'a Facts) -> Option<&'a ContainerSummary> {
    let mut others = facts
        .others
        .iter()
        .filter(|other| other.id != facts.details.id);
    let project = facts.details.config.labels.get(compose::PROJECT);
    let is_service = |other: &ContainerSummary| {
        compose::service(other) == host && other.labels.get(compose::PROJECT) == project
    };
    others.find(|other| {
        let mut endpoints = other.network_settings.networks.values();
        other.display_name() == host
            || is_service(other)
            || endpoints.any(|at| at.ip_address == host)
    })
}

/// The hosts that the line may mean, the most likely first: with a port, then quoted or after certain words.
fn addresses(line: &str) -> Vec<Address<'_>> {
    let words = line.split(|c: char| c.is_whitespace() || "\"'`()<>,;=".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut found: Vec<Address<'_>> = Vec::new();
    let mut weak: Vec<Address<'_>> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let word = word.split_once("://").map_or(*word, |(_, rest)| rest);
        let word = word.rsplit_once('@').map_or(word, |(_, rest)| rest);
        let word = word.split('/').next().unwrap_or_default();
        let word = word
            .trim_matches(['[', ']', '{', '}'])
            .trim_end_matches(['.', ':']);
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (word, None),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if host.is_empty() || !host.chars().all(is_host) || host.parse::<u16>().is_ok() {
            continue;
        }
        let before = at.checked_sub(1).map(|at| words[at].to_lowercase());
        // Also as the last part of a name: `java.net.UnknownHostException:`.
        let is_cue = |word: &str| {
            let word = word.rsplit('.').next().unwrap_or(word);
            BEFORE_HOST.split('|').any(|cue| cue == word)
        };
        // In `host name "db"` the name is the last word.
        let is_named = before.is_some_and(|before| is_cue(&before)) && !is_cue(host);
        if port.is_some() && host != "127.0.0.11" {
            found.push((host, port));
        } else if is_named {
            weak.push((host, None));
        }
    }
    found.extend(weak);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_messages_of_many_libraries() {
        for (line, expected) in [
            (
                "FATAL: cannot connect to db:5432: connection refused",
                ("db", Some(5432)),
            ),
            (
                "dial tcp: lookup db on 127.0.0.11:53: no such host",
                ("db", None),
            ),
            ("getaddrinfo ENOTFOUND db", ("db", None)),
            ("wget: bad address 'db'", ("db", None)),
            (
                "psql: could not translate host name \"db\" to address: x",
                ("db", None),
            ),
            ("curl: (6) Could not resolve host: db", ("db", None)),
            ("java.net.UnknownHostException: db", ("db", None)),
            (
                "connect to postgres://u:p@db:5432/x failed",
                ("db", Some(5432)),
            ),
            (
                "connect ECONNREFUSED 127.0.0.1:6379",
                ("127.0.0.1", Some(6379)),
            ),
        ] {
            assert_eq!(addresses(line).first(), Some(&expected), "{line}");
        }
        assert!(addresses("connection refused").is_empty());
    }
}
