//! The field `protocol` of a backend: the revision of the specification that is spoken with it.

use mcp_client::{EraChoice, Revision};
use mcp_core::revision::MODERN;
use serde::Deserialize;

/// `mcp` (the newest revision that the backend supports), a revision, or `rpc` (no handshake, seed 000).
#[derive(Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Protocol(EraChoice);

impl TryFrom<String> for Protocol {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let era = match text.as_str() {
            "mcp" => EraChoice::Newest,
            "rpc" => EraChoice::Unversioned,
            MODERN => EraChoice::Modern,
            revision => match Revision::parse(revision) {
                Some(revision) => EraChoice::Revision(revision),
                None => return Err(unknown()),
            },
        };
        Ok(Self(era))
    }
}

impl From<Protocol> for EraChoice {
    fn from(Protocol(era): Protocol) -> Self {
        era
    }
}

fn unknown() -> String {
    let revisions = Revision::ALL.map(Revision::as_str).join(", ");
    format!("expected one of mcp, rpc, {revisions}, {MODERN}")
}
