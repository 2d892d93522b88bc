//! The reasons why a server cannot be reached, in words and with what to do.

use std::error::Error as StdError;
use std::fmt;

use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// The reason why a file cannot be used.
#[derive(Debug)]
pub struct FileError {
    /// `ca`, `client_cert` or `client_key`.
    pub field: &'static str,
    /// The file, and what is wrong with it.
    pub problem: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

impl std::error::Error for FileError {}

/// A failure on the way through a proxy.
#[derive(Debug)]
pub(crate) struct ProxyError {
    pub(crate) proxy: String,
    pub(crate) error: reqwest::Error,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The two outer errors only say that there is no connection.
        let error: &dyn StdError = &self.error;
        let cause = error.source().and_then(StdError::source);
        write!(f, "{}: {}", self.proxy, cause.unwrap_or(error))
    }
}

impl StdError for ProxyError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.error)
    }
}

/// Returns the reason why there is no connection if the user can do something about it: with TLS, a file
/// or a proxy.
pub(crate) fn reason(error: &(dyn StdError + 'static)) -> Option<String> {
    let proxy = error.downcast_ref::<ProxyError>();
    match (find::<TlsError>(error).map(in_words), proxy) {
        (Some(problem), _) => Some(problem),
        (None, Some(failed)) => Some(failed.to_string()),
        (None, None) => error.downcast_ref().map(FileError::to_string),
    }
}

/// Returns an error of this type among an error and its causes.
pub(crate) fn find<'a, T: StdError + 'static>(
    error: &'a (dyn StdError + 'static),
) -> Option<&'a T> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An error of the operating system holds the error of TLS, but its source is the source of that.
        let inner = error.downcast_ref::<std::io::Error>();
        if let Some(inner) = inner.and_then(std::io::Error::get_ref) {
            cause = Some(inner);
            continue;
        }
        cause = error.source();
    }
    None
}

fn in_words(error: &TlsError) -> String {
    use CertificateError as Bad;
    let text = match error {
        TlsError::InvalidCertificate(bad) => match bad {
            Bad::UnknownIssuer => {
                "its certificate is of a CA that is not trusted here: set `ca` to the file of that CA"
            }
            Bad::Expired | Bad::ExpiredContext { .. } => {
                "its certificate has expired: renew it there, or correct the clock here"
            }
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
                "its certificate is not valid yet: correct the clock there or here"
            }
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => {
                "its certificate is for another host name: use a name of the certificate in the URL"
            }
            Bad::Revoked => "its certificate was revoked",
            _ => return format!("its certificate is not valid: {error}"),
        },
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it asks for a client certificate: set `client_cert` and `client_key`"
            }
            AlertDescription::CertificateExpired => {
                "it refused the client certificate, which has expired: renew the file `client_cert`"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => {
                "it refused the client certificate: use one of a CA that it trusts in `client_cert`"
            }
            AlertDescription::HandshakeFailure => {
                "it ended the TLS handshake; it may ask for a client certificate (`client_cert`)"
            }
            AlertDescription::UnrecognisedName => "it does not know the host name of the URL",
            AlertDescription::ProtocolVersion => "it supports neither TLS 1.2 nor TLS 1.3",
            _ => return format!("it ended the TLS handshake: {error}"),
        },
        TlsError::InvalidMessage(_) => "it does not speak TLS: is its URL one of http://?",
        _ => return format!("the TLS handshake failed: {error}"),
    };
    text.to_owned()
}
