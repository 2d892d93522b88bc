//! The failures of TLS in words, with what to do.

use std::error::Error as StdError;

use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// Returns the failure of TLS among the causes of an error, with what to do.
pub(crate) fn problem(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<TlsError>() {
            return Some(in_words(error));
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
