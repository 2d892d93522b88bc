//! Addresses of engines behind ssh.

use std::fmt;

use anyhow::bail;

/// An engine behind ssh: `ssh://[user@]host[:port][/path/of/docker.sock]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshAddress {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    /// Empty for the default of the docker command there.
    socket: String,
}

impl SshAddress {
    /// Parses what follows `ssh://`.
    /// Errors when a part could be read as an option of ssh or as a command of the remote shell.
    pub(super) fn parse(address: &str) -> anyhow::Result<Self> {
        let (login, socket) = match address.find('/') {
            Some(at) if at + 1 < address.len() => address.split_at(at),
            _ => (address.trim_end_matches('/'), ""),
        };
        let (user, host) = match login.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, login),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, Some(port.parse()?))
            }
            _ => (host, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_word = |text: &str, more: &str| {
            let legal = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(legal)
        };
        let is_valid = is_word(host, "._-:")
            && user.is_none_or(|user| is_word(user, "._-"))
            && (socket.is_empty() || is_word(socket, "/._-"));
        if !is_valid {
            bail!("an address with ssh has the form ssh://user@host:port; keys belong to ~/.ssh");
        }
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port,
            socket: socket.to_owned(),
        })
    }

    /// The arguments of ssh. There is no user to type a password, so it must not ask for one.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut words: Vec<String> = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30"]
            .map(str::to_owned)
            .into();
        if let Some(user) = &self.user {
            words.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(port) = self.port {
            words.extend(["-p".to_owned(), port.to_string()]);
        }
        words.extend(["--", &*self.host, "docker"].map(str::to_owned));
        if !self.socket.is_empty() {
            words.push(format!("--host=unix://{}", self.socket));
        }
        words.extend(["system", "dial-stdio"].map(str::to_owned));
        words
    }
}

impl fmt::Display for SshAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.socket)
    }
}
