//! Published ports, as `docker ps` writes them: `127.0.0.1:8080->80/tcp`.

use std::collections::BTreeMap;

use upstream::text::truncate_list;

use crate::engine::{PortBinding, PortSummary};

/// Most ports that are shown of one container; a range may publish thousands.
const MAX_PORTS: usize = 20;

/// The ports of a listed container.
pub(super) fn of_summary(ports: &[PortSummary]) -> Vec<String> {
    let mut ports: Vec<&PortSummary> = ports.iter().collect();
    ports.sort_by_key(|port| (port.private, &port.protocol, port.public, &port.ip));
    let ports = ports.into_iter().map(|port| {
        let inside = format!("{}/{}", port.private, port.protocol);
        match port.public {
            0 => inside,
            public => published(&port.ip, &public.to_string(), &inside),
        }
    });
    truncate_list(ports, MAX_PORTS)
}

/// The ports of an inspected container, in the engine's map from `80/tcp` to where it is published.
pub(super) fn of_bindings(ports: &BTreeMap<String, Vec<PortBinding>>) -> Vec<String> {
    let ports = ports.iter().flat_map(|(inside, bindings)| {
        let unpublished = bindings.is_empty().then(|| inside.clone());
        let published = bindings
            .iter()
            .map(move |at| published(&at.ip, &at.port, inside));
        unpublished.into_iter().chain(published)
    });
    truncate_list(ports, MAX_PORTS)
}

fn published(ip: &str, port: &str, inside: &str) -> String {
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
    fn ports_are_written_as_docker_ps_does() {
        let port = |ip: &str, private, public| PortSummary {
            ip: ip.to_owned(),
            private,
            public,
            protocol: "tcp".to_owned(),
        };
        let ports = [
            port("::", 80, 8080),
            port("", 443, 0),
            port("127.0.0.1", 80, 8080),
        ];
        assert_eq!(
            of_summary(&ports),
            ["127.0.0.1:8080->80/tcp", "[::]:8080->80/tcp", "443/tcp"]
        );
        let many: Vec<PortSummary> = (1..=1_000).map(|n| port("", n, n)).collect();
        assert_eq!(of_summary(&many).last().unwrap(), "and 980 more");
    }
}
