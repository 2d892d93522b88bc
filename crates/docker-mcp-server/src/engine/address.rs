//! The address of the engine.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mcp_core::trace::PeerAddress;

use crate::engine::address_error::AddressError;
use crate::engine::context;
use crate::engine::ssh_address::SshAddress;
use crate::engine::tls::Certificates;

#[cfg(unix)]
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
#[cfg(windows)]
const DEFAULT_HOST: &str = "npipe:////./pipe/docker_engine";

/// The settings of the docker CLI that say where the engine is.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddressSettings {
    /// `DOCKER_HOST`.
    pub(crate) host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub(crate) context: Option<String>,
    /// `DOCKER_TLS_VERIFY`.
    pub(crate) tls: bool,
    /// `DOCKER_CERT_PATH`; by default [`AddressSettings::config_dir`].
    pub(crate) certificates_dir: Option<PathBuf>,
    /// `DOCKER_CONFIG`, mostly `~/.docker`.
    pub(crate) config_dir: Option<PathBuf>,
}

/// The address of an engine. Its text is that of `DOCKER_HOST`, for example `unix:///var/run/docker.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Endpoint);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(String),
    Pipe(String),
    /// `host:port` without encryption.
    Tcp(String),
    /// `host:port` with mutual TLS.
    Tls(String, Certificates),
    /// The `docker` command of another machine, through ssh.
    Ssh(SshAddress),
}

impl Address {
    /// The address as spans name it: of a host and a port, or of a socket. No name of a user.
    pub(crate) fn peer(&self) -> PeerAddress<'_> {
        match &self.0 {
            Endpoint::Unix(path) | Endpoint::Pipe(path) => PeerAddress {
                host: path,
                port: None,
            },
            Endpoint::Tcp(address) | Endpoint::Tls(address, _) => {
                let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
                PeerAddress {
                    host,
                    port: port.parse().ok(),
                }
            }
            Endpoint::Ssh(address) => PeerAddress {
                host: address.host(),
                port: None,
            },
        }
    }

    /// Finds the engine in the order of the docker CLI: host, context, the current context of its
    /// configuration, the default socket.
    /// Errors when a setting can never work.
    pub(crate) fn find(settings: &AddressSettings) -> Result<Self, AddressError> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let config = &settings.config_dir;
        if let Some(host) = given(&settings.host) {
            let certificates = settings.tls.then(|| {
                let dir = settings.certificates_dir.as_ref().or(config.as_ref());
                Certificates::in_dir(&dir.cloned().unwrap_or_default())
            });
            return Self::parse(&host, certificates).map_err(AddressError::at("DOCKER_HOST"));
        }
        let Some(config) = config else {
            return Self::parse(DEFAULT_HOST, None);
        };
        let context = match given(&settings.context) {
            Some(name) => Some(name),
            None => context::current(config)?,
        };
        // In the CLI, `default` means no context.
        let Some(name) = context.filter(|name| name != "default") else {
            return Self::parse(DEFAULT_HOST, None);
        };
        let (host, certificates) = context::endpoint(config, &name)?;
        let place = format!("docker context {name:?}");
        Self::parse(&host, certificates).map_err(AddressError::at(place))
    }

    /// Whether the engine is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.0, Endpoint::Unix(_) | Endpoint::Pipe(_))
    }

    /// The environment variables with which Docker's own programs find the same engine.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![("DOCKER_HOST", self.to_string().into())];
        if let Endpoint::Tls(_, files) = &self.0
            && let Some(dir) = files.dir()
        {
            environment.push(("DOCKER_TLS_VERIFY", "1".into()));
            environment.push(("DOCKER_CERT_PATH", dir.into()));
        }
        environment
    }

    /// Parses an address in the form of `DOCKER_HOST`.
    fn parse(host: &str, certificates: Option<Certificates>) -> Result<Self, AddressError> {
        let invalid = |text: &str| Err(AddressError::new(text));
        let Some((scheme, address)) = host.split_once("://") else {
            return invalid(&format!(
                "{host:?} is not an address; write unix:///path or tcp://host:port"
            ));
        };
        Ok(Self(match scheme {
            "unix" if !address.is_empty() => Endpoint::Unix(address.to_owned()),
            "npipe" if cfg!(windows) => Endpoint::Pipe(address.to_owned()),
            "npipe" => return invalid("named pipes exist on Windows only; use unix:///path"),
            "tcp" | "http" | "https" => {
                let encrypted = certificates.is_some() || scheme == "https";
                let address = tcp_address(address, if encrypted { 2376 } else { 2375 })?;
                match certificates {
                    Some(certificates) => Endpoint::Tls(address, certificates),
                    None if encrypted => {
                        return invalid(
                            "https:// needs certificates: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH",
                        );
                    }
                    None => Endpoint::Tcp(address),
                }
            }
            "ssh" => Endpoint::Ssh(SshAddress::parse(address)?),
            _ => {
                return invalid(&format!(
                    "{scheme}:// is not supported; use unix:///path, tcp://host:port or ssh://host"
                ));
            }
        }))
    }
}

/// Parses an address without certificates.
impl FromStr for Address {
    type Err = AddressError;

    fn from_str(host: &str) -> Result<Self, AddressError> {
        Self::parse(host, None)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Endpoint::Unix(path) => write!(f, "unix://{path}"),
            Endpoint::Pipe(path) => write!(f, "npipe://{path}"),
            Endpoint::Tcp(address) | Endpoint::Tls(address, _) => write!(f, "tcp://{address}"),
            Endpoint::Ssh(address) => write!(f, "ssh://{}", address.text),
        }
    }
}

/// Checks `host` or `host:port`, which becomes a header and part of URLs.
fn tcp_address(address: &str, port: u16) -> Result<String, AddressError> {
    let address = address.strip_suffix('/').unwrap_or(address);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if address.is_empty() || !address.chars().all(legal) {
        let text = "the address after :// must be host:port and nothing else";
        return Err(AddressError::new(text));
    }
    let given = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    Ok(match given {
        Some(Ok(_)) => address.to_owned(),
        _ => format!("{address}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(host: &str) -> Result<String, String> {
        let parsed: Result<Address, _> = host.parse();
        parsed
            .map(|address| address.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_parsed_as_by_the_cli() {
        let hosts = "unix:///run/x.sock tcp://127.0.0.1:2375 tcp://[::1]:99 ssh://box \
            ssh://me@box:22/run/x.sock ssh://[::1]:22 ssh://me@[::1]";
        for host in hosts.split(' ') {
            assert_eq!(parse(host).as_deref(), Ok(host));
        }
        assert_eq!(parse("tcp://box").as_deref(), Ok("tcp://box:2375"));
        assert_eq!(parse("http://box:1/").as_deref(), Ok("tcp://box:1"));
        let files = Certificates::in_dir(Path::new("/c"));
        let address = Address::parse("tcp://box", Some(files)).unwrap();
        assert!(matches!(&address.0, Endpoint::Tls(..)));
        assert_eq!(address.to_string(), "tcp://box:2376");
        let environment = address.environment();
        assert!(environment.contains(&("DOCKER_CERT_PATH", "/c".into())));
        let plain: Address = "tcp://box:1".parse().unwrap();
        assert_eq!(plain.environment().len(), 1);
    }

    #[test]
    fn other_addresses_are_refused_with_advice() {
        let cases = "/var/run/docker.sock -> unix:///path, ssh:// -> ~/.ssh, ssh://-oProxyCommand=x -> ~/.ssh, \
            ssh://-x@box -> ~/.ssh, ssh://me:pw@box -> ~/.ssh, ssh://box/x;y -> ~/.ssh, ssh://box?x -> ~/.ssh, \
            ssh://box:99999 -> ~/.ssh, https://host -> DOCKER_CERT_PATH, tcp://host:1/path -> nothing else, \
            tcp://u:p@host -> nothing else, fd:// -> not supported, unix:// -> not supported";
        for case in cases.split(", ") {
            let (host, expected) = case.split_once(" -> ").unwrap();
            let error = parse(host).unwrap_err();
            assert!(error.contains(expected), "{host}: {error}");
        }
    }
}
