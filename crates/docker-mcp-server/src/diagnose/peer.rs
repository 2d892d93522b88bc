//! The other container that a log line names: whether it runs, and whether it can be reached.

use std::collections::BTreeMap;

use super::facts::Facts;
use super::finding::{Cause, Finding};
use crate::compose;
use crate::engine::{ContainerSummary, EndpointSettings};

/// Words before a host name in messages of libraries.
const BEFORE_HOST: &str = "lookup|enotfound|eai_again|host|host:|name|unknownhostexception:|address|resolve|resolve:|to|at|upstream";

/// Of these words, those that are followed by nothing else; after the others only a quoted word is surely a host.
const ONLY_BEFORE_HOST: &str = "lookup|enotfound|eai_again|host:|unknownhostexception:|resolve:";
/// Words after these that are no hosts.
const NO_HOST: &str =
    "not|found|failed|failure|error|the|a|an|of|for|in|on|is|was|by|be|timed|timeout|unknown";

/// A host, and a port if the line names one.
type Address<'a> = (&'a str, Option<u16>);

/// Adds what is known about the service that `line` could not reach, and advises accordingly.
pub(super) fn explain(finding: Finding, line: &str, facts: &Facts) -> Finding {
    let (addresses, is_sure) = addresses(line);
    let named = addresses
        .iter()
        .find_map(|address| Some((*address, find(address.0, facts)?)));
    if let Some((address, peer)) = named {
        return with_peer(finding, address, peer, facts);
    }
    let is_unknown_name = finding.cause == Cause::NameResolution;
    match addresses.first() {
        Some((host @ ("localhost" | "127.0.0.1" | "::1" | "0.0.0.0"), _)) => {
            finding.add("peer_is_itself", &[host])
        }
        Some((host, _)) if is_unknown_name && is_sure && !host.contains('.') => {
            finding.add("peer_unknown", &[host])
        }
        _ => finding,
    }
}

fn with_peer(
    finding: Finding,
    (host, port): Address<'_>,
    peer: &ContainerSummary,
    facts: &Facts,
) -> Finding {
    let (name, status) = (peer.display_name(), &peer.status);
    if peer.state != "running" {
        return finding.add("peer_down", &[&host, &name, status]);
    }
    let own = &facts.details.network_settings.networks;
    let theirs = &peer.network_settings.networks;
    let Some(shared) = own.keys().rfind(|network| theirs.contains_key(*network)) else {
        let list = |networks: &BTreeMap<String, EndpointSettings>| {
            let names = networks.keys().map(|name| format!("`{name}`"));
            match names.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "no network".to_owned(),
                names => names,
            }
        };
        return finding.add("peer_elsewhere", &[&name, &list(theirs), &list(own)]);
    };
    if shared == "bridge" && finding.cause == Cause::NameResolution {
        return finding.add("peer_without_dns", &[&name]);
    }
    let port = port.map_or_else(|| "the port".to_owned(), |port| format!("port {port}"));
    finding.add("peer_up", &[&name, status, shared, &port])
}

/// The container with this name, compose service or address; not the diagnosed one.
fn find<'a>(host: &str, facts: &'a Facts) -> Option<&'a ContainerSummary> {
    let mut others = facts
        .others
        .iter()
        .filter(|other| other.id != facts.details.id);
    let project = compose::project_of(&facts.details.config.labels);
    let is_service = |other: &ContainerSummary| {
        project.is_some()
            && compose::service(other) == host
            && compose::project_of(&other.labels) == project
    };
    others.find(|other| {
        let mut endpoints = other.network_settings.networks.values();
        other.display_name() == host
            || is_service(other)
            || endpoints.any(|at| at.ip_address == host)
    })
}

/// The hosts that the line may mean, the most likely first: with a port, then after certain words. Also whether the
/// first is surely one.
fn addresses(line: &str) -> (Vec<Address<'_>>, bool) {
    let words = line.split(|c: char| c.is_whitespace() || "\"'`()<>,;=".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let mut found: Vec<Address<'_>> = Vec::new();
    let mut weak: Vec<(Address<'_>, bool)> = Vec::new();
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
        let is_one_of = |word: &str, words: &str| {
            let word = word.rsplit('.').next().unwrap_or(word);
            words.split('|').any(|cue| cue == word)
        };
        // In `host name "db"` the name is the last word.
        let is_host_word =
            !is_one_of(host, BEFORE_HOST) && !is_one_of(&host.to_lowercase(), NO_HOST);
        let before = before.unwrap_or_default();
        if port.is_some() && host != "127.0.0.11" {
            found.push((host, port));
        } else if is_host_word && is_one_of(&before, BEFORE_HOST) {
            let is_quoted = ['"', '\'', '`'].iter().any(|quote| {
                let mut quoted = line.split(*quote).skip(1).step_by(2);
                quoted.any(|text| text == host)
            });
            weak.push((
                (host, None),
                is_quoted || is_one_of(&before, ONLY_BEFORE_HOST),
            ));
        }
    }
    // The sort is stable.
    weak.sort_by_key(|(_, is_sure)| !is_sure);
    let is_sure = !found.is_empty() || weak.first().is_some_and(|(_, is_sure)| *is_sure);
    found.extend(weak.into_iter().map(|(address, _)| address));
    (found, is_sure)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message, and the host and port that it names.
    const MESSAGES: &str = "\
        FATAL: cannot connect to db:5432: connection refused -> db 5432
        dial tcp: lookup db on 127.0.0.11:53: no such host -> db
        getaddrinfo ENOTFOUND db -> db
        wget: bad address 'db' -> db
        psql: could not translate host name \"db\" to address: x -> db
        curl: (6) Could not resolve host: db -> db
        java.net.UnknownHostException: db -> db
        connect to postgres://u:p@db:5432/x failed -> db 5432
        connect ECONNREFUSED 127.0.0.1:6379 -> 127.0.0.1 6379
        nginx: [emerg] host not found in upstream \"api\" in /etc/nginx/x.conf:3 -> api
        could not resolve the host of this -> ?
        DNS lookup failed: no such host -> ?
        Host not found -> ?
        connection refused -> ?";

    #[test]
    fn addresses_are_found_in_messages_of_many_libraries() {
        for row in MESSAGES.lines() {
            let (line, expected) = row.split_once(" -> ").unwrap();
            let (found, is_sure) = addresses(line.trim());
            let found = found.first().filter(|_| is_sure);
            let found = found.map(|(host, port)| match port {
                Some(port) => format!("{host} {port}"),
                None => (*host).to_owned(),
            });
            assert_eq!(found.as_deref().unwrap_or("?"), expected, "{line}");
        }
    }
}
