//! The address of the engine: of `DOCKER_HOST`, of a docker context (which bollard does not support), or the default
//! socket.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::builder::FalseyValueParser;
use http::Uri;
use mcp_core::trace::PeerAddress;
use serde_json::Value;

#[cfg(unix)]
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
#[cfg(windows)]
const DEFAULT_HOST: &str = "npipe:////./pipe/docker_engine";

/// The options that name the engine.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Docker")]
pub(crate) struct EngineOptions {
    /// Docker Engine to use [default: that of the current docker context, else the usual socket].
    ///
    /// unix:///path, tcp://host:port, ssh://user@host or, on Windows, npipe:////./pipe/name.
    #[arg(long, env = "DOCKER_HOST", value_name = "URL")]
    pub docker_host: Option<String>,

    /// Docker context with the engine's address; --docker-host overrides it.
    #[arg(long, env = "DOCKER_CONTEXT", value_name = "NAME")]
    #[arg(hide_short_help = true)]
    pub docker_context: Option<String>,

    /// Use TLS for a tcp:// address.
    #[arg(long, env = "DOCKER_TLS_VERIFY", value_parser = FalseyValueParser::new())]
    #[arg(hide_short_help = true)]
    pub docker_tls_verify: bool,

    /// Directory of ca.pem, cert.pem and key.pem for TLS [default: the docker configuration's].
    #[arg(long, env = "DOCKER_CERT_PATH", value_name = "DIR")]
    #[arg(hide_short_help = true)]
    pub docker_cert_path: Option<PathBuf>,

    /// Directory of the docker configuration, with its contexts [default: ~/.docker].
    #[arg(long, env = "DOCKER_CONFIG", value_name = "DIR")]
    #[arg(hide_short_help = true)]
    pub docker_config: Option<PathBuf>,
}

impl EngineOptions {
    /// The directory of the docker configuration; `None` if the home directory is unknown.
    pub(crate) fn config_dir(&self) -> Option<PathBuf> {
        let given = self.docker_config.clone();
        given
            .filter(|dir| !dir.as_os_str().is_empty())
            .or_else(|| std::env::home_dir().map(|home| home.join(".docker")))
    }
}

/// The address of an engine. Its text is that of `DOCKER_HOST`, for example `unix:///var/run/docker.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
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
        match self {
            Self::Unix(path) | Self::Pipe(path) => PeerAddress {
                host: path,
                port: None,
            },
            Self::Tcp(address) | Self::Tls(address, _) => {
                let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
                PeerAddress {
                    host,
                    port: port.parse().ok(),
                }
            }
            Self::Ssh(address) => PeerAddress {
                host: &address.host,
                port: None,
            },
        }
    }

    /// Finds the engine in the order of the docker CLI: host, context, the current context of its
    /// configuration, the default socket.
    /// Errors when a setting can never work.
    pub(crate) fn find(options: &EngineOptions) -> anyhow::Result<Self> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let config = options.config_dir();
        if let Some(host) = given(&options.docker_host) {
            let certificates = options.docker_tls_verify.then(|| {
                let dir = options.docker_cert_path.as_ref().or(config.as_ref());
                Certificates(dir.cloned().unwrap_or_default())
            });
            return Self::parse(&host, certificates).map_err(at("DOCKER_HOST"));
        }
        let Some(config) = config else {
            return Self::parse(DEFAULT_HOST, None);
        };
        let context = match given(&options.docker_context) {
            Some(name) => Some(name),
            None => current_context(&config)?,
        };
        // In the CLI, `default` means no context.
        let Some(name) = context.filter(|name| name != "default") else {
            return Self::parse(DEFAULT_HOST, None);
        };
        let (host, certificates) = context_endpoint(&config, &name)?;
        let place = format!("docker context {name:?}");
        Self::parse(&host, certificates).map_err(at(place))
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_) | Self::Pipe(_))
    }

    /// The environment variables with which Docker's own programs find the same engine.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = vec![("DOCKER_HOST", self.to_string().into())];
        if let Self::Tls(_, files) = self {
            environment.push(("DOCKER_TLS_VERIFY", "1".into()));
            environment.push(("DOCKER_CERT_PATH", files.0.clone().into()));
        }
        environment
    }

    /// Parses an address in the form of `DOCKER_HOST`.
    pub(super) fn parse(host: &str, certificates: Option<Certificates>) -> anyhow::Result<Self> {
        let Some((scheme, address)) = host.split_once("://") else {
            bail!("{host:?} is not an address; write unix:///path or tcp://host:port");
        };
        Ok(match scheme {
            "unix" if !address.is_empty() => Self::Unix(address.to_owned()),
            "npipe" if cfg!(windows) => Self::Pipe(address.to_owned()),
            "npipe" => bail!("named pipes exist on Windows only; use unix:///path"),
            "tcp" | "http" | "https" => {
                let encrypted = certificates.is_some() || scheme == "https";
                let address = tcp_address(address, if encrypted { 2376 } else { 2375 })?;
                match certificates {
                    Some(certificates) => Self::Tls(address, certificates),
                    None if encrypted => bail!(
                        "https:// needs certificates: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH"
                    ),
                    None => Self::Tcp(address),
                }
            }
            "ssh" => Self::Ssh(SshAddress::parse(address)?),
            _ => bail!(
                "{scheme}:// is not supported; use unix:///path, tcp://host:port or ssh://host"
            ),
        })
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{path}"),
            Self::Pipe(path) => write!(f, "npipe://{path}"),
            Self::Tcp(address) | Self::Tls(address, _) => write!(f, "tcp://{address}"),
            Self::Ssh(address) => write!(f, "ssh://{}", address.text),
        }
    }
}

/// Checks `host` or `host:port`, which becomes a header and part of URLs.
fn tcp_address(address: &str, port: u16) -> anyhow::Result<String> {
    let address = address.strip_suffix('/').unwrap_or(address);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if address.is_empty() || !address.chars().all(legal) {
        bail!("the address after :// must be host:port and nothing else");
    }
    let given = address
        .rsplit_once(':')
        .map(|(_, port)| port.parse::<u16>());
    Ok(match given {
        Some(Ok(_)) => address.to_owned(),
        _ => format!("{address}:{port}"),
    })
}

/// The form of an address with ssh.
const SSH_FORM: &str =
    "an address with ssh has the form ssh://user@host:port; keys belong to ~/.ssh";

/// An engine behind ssh: `ssh://[user@]host[:port][/path/of/docker.sock]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshAddress {
    /// The text after `ssh://`.
    text: String,
    host: String,
    pub(super) arguments: Vec<String>,
}

impl SshAddress {
    /// Parses what follows `ssh://`.
    /// Errors when a part could be read as an option of ssh or as a command of the remote shell.
    fn parse(address: &str) -> anyhow::Result<Self> {
        let invalid = || anyhow!(SSH_FORM);
        let address = address.trim_end_matches('/');
        let uri: Uri = format!("ssh://{address}").parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        let (host, port) = (authority.host(), authority.port_u16());
        let socket = Some(uri.path()).filter(|path| *path != "/");
        // There is no user to type a password, so ssh must not ask for one.
        let mut arguments = vec!["-T -o BatchMode=yes -o ConnectTimeout=30".to_owned()];
        arguments.extend(user.map(|user| format!("-l {user}")));
        arguments.extend(port.map(|port| format!("-p {port}")));
        arguments.push(format!("-- {} docker", host.trim_matches(['[', ']'])));
        arguments.extend(socket.map(|socket| format!("--host=unix://{socket}")));
        arguments.push("system dial-stdio".to_owned());
        let parts = [
            user.map(|user| format!("{user}@")),
            Some(host.to_owned()),
            port.map(|port| format!(":{port}")),
            socket.map(str::to_owned),
        ];
        let is_complete = parts.into_iter().flatten().collect::<String>() == address;
        let is_word = |text: &str, more: &str| {
            let legal = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(legal)
        };
        let is_safe = is_word(host, "._-:[]")
            && user.is_none_or(|user| is_word(user, "._-"))
            && socket.is_none_or(|socket| is_word(socket, "/._-"));
        if !is_complete || !is_safe {
            return Err(invalid());
        }
        let words = arguments.iter().flat_map(|words| words.split(' '));
        Ok(Self {
            text: address.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            arguments: words.map(str::to_owned).collect(),
        })
    }
}

/// The directory with the files of a TLS endpoint, named as the docker CLI names them. They need not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// The name of the current context in the docker configuration at `config`, if it has one.
fn current_context(config: &Path) -> anyhow::Result<Option<String>> {
    let file = config.join("config.json");
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        // The configuration of another user, for example under sudo.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(at(file.display())(error)),
    };
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{}; or set DOCKER_HOST: {error}", file.display()))?;
    let name = config["currentContext"].as_str().unwrap_or_default();
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// The address of the engine of the context `name`, in the form of `DOCKER_HOST`, and its TLS files.
fn context_endpoint(config: &Path, name: &str) -> anyhow::Result<(String, Option<Certificates>)> {
    let contexts = config.join("contexts");
    // The directories are named by hashes of the contexts' names. Reading all of the few files needs
    // no hash function.
    for dir in fs::read_dir(contexts.join("meta")).into_iter().flatten() {
        let dir = dir.map_err(at("docker contexts"))?;
        let Ok(text) = fs::read_to_string(dir.path().join("meta.json")) else {
            continue;
        };
        let meta: Value = serde_json::from_str(&text).unwrap_or_default();
        if meta["Name"] == name {
            let tls = contexts.join("tls").join(dir.file_name()).join("docker");
            return docker_endpoint(name, &meta["Endpoints"]["docker"], &tls);
        }
    }
    bail!("there is no docker context {name:?}; `docker context ls` shows them, or set DOCKER_HOST")
}

fn docker_endpoint(
    name: &str,
    endpoint: &Value,
    tls: &Path,
) -> anyhow::Result<(String, Option<Certificates>)> {
    let Some(host) = endpoint["Host"].as_str() else {
        bail!("the docker context {name:?} has no docker endpoint");
    };
    if endpoint["SkipTLSVerify"] == true {
        bail!("the docker context {name:?} skips TLS verification, which is not supported");
    }
    let certificates = tls.is_dir().then(|| Certificates(tls.to_owned()));
    Ok((host.to_owned(), certificates))
}

/// Returns a function that puts the place of an error before it.
pub(super) fn at<E: Display>(place: impl Display) -> impl FnOnce(E) -> anyhow::Error {
    move |error| anyhow!("{place}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(host: &str) -> Result<String, String> {
        let parsed = Address::parse(host, None);
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
        let files = Certificates("/c".into());
        let address = Address::parse("tcp://box", Some(files)).unwrap();
        assert!(matches!(&address, Address::Tls(..)));
        assert_eq!(address.to_string(), "tcp://box:2376");
        let environment = address.environment();
        assert!(environment.contains(&("DOCKER_CERT_PATH", "/c".into())));
        let plain = Address::parse("tcp://box:1", None).unwrap();
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
