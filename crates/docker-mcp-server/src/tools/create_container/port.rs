//! Ports to publish, in the syntax of `docker run -p`.

use std::net::IpAddr;

use bollard::models::{PortBinding, PortMap};
use serde::Deserialize;
use serde_json::{Value, json};

/// `[[ip:]port:]port[/protocol]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct PortSpec {
    ip: String,
    /// Empty for any.
    host: String,
    /// `80/tcp`.
    inside: String,
}

impl PortSpec {
    fn parse(text: &str) -> Option<Self> {
        let (text, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        if !matches!(protocol, "tcp" | "udp" | "sctp") {
            return None;
        }
        let (rest, inside) = match text.rsplit_once(':') {
            Some((rest, inside)) => (Some(rest), inside),
            None => (None, text),
        };
        let (ip, host) = match rest.map(|rest| rest.rsplit_once(':').unwrap_or(("", rest))) {
            Some((ip, host)) => (ip.trim_start_matches('[').trim_end_matches(']'), host),
            None => ("", ""),
        };
        let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
        let is_ip = ip.is_empty() || ip.parse::<IpAddr>().is_ok();
        let is_host = host.is_empty() || is_port(host);
        (is_port(inside) && is_ip && is_host).then(|| Self {
            ip: ip.to_owned(),
            host: host.to_owned(),
            inside: format!("{inside}/{protocol}"),
        })
    }
}

/// As `HostConfig.PortBindings`. A port without an address is published on loopback only; for all
/// addresses callers write `0.0.0.0`.
pub(super) fn bindings(ports: &[PortSpec]) -> PortMap {
    let mut bindings = PortMap::new();
    for port in ports {
        let ip = match &*port.ip {
            "" => "127.0.0.1",
            ip => ip,
        };
        let list = bindings.entry(port.inside.clone()).or_default();
        list.get_or_insert_default().push(PortBinding {
            host_ip: Some(ip.to_owned()),
            host_port: Some(port.host.clone()),
        });
    }
    bindings
}

/// As `ExposedPorts`.
pub(super) fn exposed(ports: &[PortSpec]) -> Value {
    let ports = ports.iter().map(|port| (port.inside.clone(), json!({})));
    Value::Object(ports.collect())
}

impl TryFrom<String> for PortSpec {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a port: write `8080:80`, `127.0.0.1:8080:80/udp` or `80`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_parsed_as_by_docker_run() {
        for (text, ip, host, inside) in [
            ("80", "127.0.0.1", "", "80/tcp"),
            ("8080:80", "127.0.0.1", "8080", "80/tcp"),
            ("0.0.0.0:8080:80/udp", "0.0.0.0", "8080", "80/udp"),
            ("127.0.0.1::80", "127.0.0.1", "", "80/tcp"),
            ("[::1]:8080:80", "::1", "8080", "80/tcp"),
        ] {
            let expected = json!({inside: [{"HostIp": ip, "HostPort": host}]});
            let bindings = bindings(&[PortSpec::parse(text).unwrap()]);
            assert_eq!(serde_json::to_value(bindings).unwrap(), expected);
        }
        for text in " x 80/x 0 70000 a:80 1.2.3:1:80 8080: 1:2:3:4".split(' ') {
            assert!(PortSpec::parse(text).is_none(), "{text}");
        }
    }
}
