//! Addresses of engines behind ssh.

use http::Uri;

use crate::engine::address_error::AddressError;

const FORM: &str = "an address with ssh has the form ssh://user@host:port; keys belong to ~/.ssh";

/// An engine behind ssh: `ssh://[user@]host[:port][/path/of/docker.sock]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshAddress {
    /// The text after `ssh://`.
    pub(super) text: String,
    pub(super) arguments: Vec<String>,
}

impl SshAddress {
    /// The host, without the user and the port.
    pub(super) fn host(&self) -> &str {
        let address = self.text.split('/').next().unwrap_or_default();
        let address = address.rsplit('@').next().unwrap_or_default();
        match address.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => address,
        }
    }

    /// Parses what follows `ssh://`.
    /// Errors when a part could be read as an option of ssh or as a command of the remote shell.
    pub(super) fn parse(address: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError::new(FORM);
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
            arguments: words.map(str::to_owned).collect(),
        })
    }
}
