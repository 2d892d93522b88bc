//! The reasons why a replica refuses a hop, which it names to the replica that has sent it.

use http::header::{HeaderMap, HeaderName};

/// The header of a refusal with its reason.
const REFUSED: HeaderName = HeaderName::from_static("mcp-hop-refused");

/// A reason why a replica refuses a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum HopRefusal {
    /// The ticket has the form of another version.
    Version,
    /// No replica has signed it.
    Signature,
    /// It is for another process, which had this address before.
    Replica,
    /// Another request was signed, or its token was revoked before the body was there.
    Request,
    /// It is too old, or the time is not known here.
    Time,
    /// It was used before.
    Used,
    /// The token of the client is not valid here, or has another role or view.
    Token,
}

const ALL: [(HopRefusal, &str); 7] = [
    (HopRefusal::Version, "version"),
    (HopRefusal::Signature, "signature"),
    (HopRefusal::Replica, "replica"),
    (HopRefusal::Request, "request"),
    (HopRefusal::Time, "time"),
    (HopRefusal::Used, "used"),
    (HopRefusal::Token, "token"),
];

impl HopRefusal {
    pub(in crate::http) fn name(self) -> &'static str {
        let mut all = ALL.iter();
        let found = all.find(|(refusal, _)| *refusal == self);
        found.map_or("", |(_, name)| name)
    }

    /// Adds the reason to a response.
    pub(in crate::http) fn write(self, headers: &mut HeaderMap) {
        headers.insert(REFUSED, http::HeaderValue::from_static(self.name()));
    }

    /// Returns the reason of a response, if it is a refusal of a version that names reasons.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let name = headers.get(REFUSED)?;
        let found = ALL.iter().find(|(_, known)| name == known);
        found.map(|(refusal, _)| *refusal)
    }

    /// Returns the explanation for the log of the replica that has sent the hop.
    pub(super) fn explanation(refusal: Option<Self>) -> &'static str {
        match refusal {
            Some(Self::Token) => {
                "it does not accept the token of the client: do the replicas have the same tokens, roles and views?"
            }
            Some(Self::Version) | None => {
                "it is of another version, which takes no requests of this one"
            }
            Some(Self::Signature) => "it has another session key",
            Some(Self::Replica) => "another process has its address",
            Some(Self::Request) => {
                "the request was changed on the way, or the token of the client was revoked meanwhile"
            }
            Some(Self::Time) => "the time of the request is not that of the database",
            Some(Self::Used) => "the request came twice, or too many came",
        }
    }
}
