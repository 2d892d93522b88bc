//! Published ports in the form of `docker ps`: `127.0.0.1:8080->80/tcp`.

use std::collections::BTreeMap;

use upstream::text::truncate_list;

use crate::engine::container::{PortBinding, PortSummary};

/// Most ports that are shown of one container; a range may publish thousands.
const MAX_PORTS: usize = 20;

/// The ports of a listed container.
pub(crate) fn from_summary(ports: &[PortSummary]) -> Vec<String> {
    let mut ports: Vec<&PortSummary> = ports.iter().collect();
    ports.sort_by_key(|port| (port.private, &port.protocol, port.public, &port.ip));
    let ports = ports.into_iter().map(|port| {
        let inside = format!("{}/{}", port.private, port.protocol);
        match port.public {
            0 => inside,
            public => published_port(&port.ip, &public.to_string(), &inside),
        }
    });
    truncate_list(ports, MAX_PORTS)
}

/// The ports of an inspected container, from the engine's map of `80/tcp` to host addresses.
pub(crate) fn from_bindings(ports: &BTreeMap<String, Vec<PortBinding>>) -> Vec<String> {
    let ports = ports.iter().flat_map(|(inside, bindings)| {
        let unpublished = bindings.is_empty().then(|| inside.clone());
        let published = bindings.iter();
        let published = published.map(move |at| published_port(&at.ip, &at.port, inside));
        unpublished.into_iter().chain(published)
    });
    truncate_list(ports, MAX_PORTS)
}

fn published_port(ip: &str, port: &str, inside: &str) -> String {
    match ip {
        "" => format!("{port}->{inside}"),
        ip if ip.contains(':') => format!("[{ip}]:{port}->{inside}"),
        ip => format!("{ip}:{port}->{inside}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_written_as_by_docker_ps() {
        let port = |ip: &str, private, public| PortSummary {
            ip: ip.to_owned(),
            private,
            public,
            protocol: "tcp".to_owned(),
        };
        let ports = [("::", 80, 8080), ("", 443, 0), ("127.0.0.1", 80, 8080)];
        let ports = ports.map(|(ip, private, public)| port(ip, private, public));
        let expected = ["127.0.0.1:8080->80/tcp", "[::]:8080->80/tcp", "443/tcp"];
        assert_eq!(from_summary(&ports), expected);
        let many: Vec<PortSummary> = (1..=1_000).map(|n| port("", n, n)).collect();
        assert_eq!(from_summary(&many).last().unwrap(), "and 980 more");
    }
}
