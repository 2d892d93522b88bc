//! The signed row of a replica: who can only write to the database cannot make others send requests elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use mcp_core::server::ReplicaId;
use mcp_core::sign::Signer;
use mcp_serve::ListeningAddress;
use tokio_postgres::Row;

use super::peers::PeerRow;
use crate::events::StoreError;

/// The form of a signature, with which it begins.
const VERSION: &str = "1";
/// The purpose of the signature.
const PURPOSE: &str = "row of a replica 1";

/// A reason why the row of a replica is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowFault {
    /// The signature is missing, or has the form of another version.
    Version,
    /// It is not the signature of this row.
    Signature,
}

impl RowFault {
    pub(super) fn explanation(self) -> &'static str {
        match self {
            Self::Version => {
                "the row of a replica has no signature of this version: it is used once all replicas have the same version"
            }
            Self::Signature => {
                "the row of a replica has a wrong signature: somebody else has written it, and it is not used"
            }
        }
    }
}

/// The columns that are signed.
#[derive(Clone, Copy)]
pub(super) struct SignedRow<'a> {
    pub(super) id: ReplicaId,
    pub(super) address: Option<&'a str>,
    pub(super) version: &'a str,
}

impl SignedRow<'_> {
    fn payload(self) -> Vec<u8> {
        let row = (self.id.bits(), self.address, self.version);
        serde_json::to_vec(&row).unwrap_or_default()
    }

    /// Returns the signature of this row.
    pub(super) fn sign(self, signer: &Signer) -> String {
        format!("{VERSION}.{}", signer.seal(PURPOSE, &self.payload()))
    }

    /// Checks the signature of this row.
    pub(super) fn check(self, signature: &str, signer: &Signer) -> Result<(), RowFault> {
        let sealed = match signature.split_once('.') {
            Some((VERSION, sealed)) => sealed,
            _ => return Err(RowFault::Version),
        };
        let signed = signer.open(PURPOSE, sealed);
        match signed.is_some_and(|signed| signed == self.payload()) {
            true => Ok(()),
            false => Err(RowFault::Signature),
        }
    }
}

/// The rows that are not used, to log each only once.
#[derive(Default)]
pub(super) struct FaultyRows {
    logged: BTreeSet<ReplicaId>,
    checked: CheckedRows,
}

/// The rows of the last reading with the outcomes of their checks: a signature is verified again only if its row has
/// changed. As many as the table has.
#[derive(Default)]
struct CheckedRows(BTreeMap<ReplicaId, CheckedRow>);

struct CheckedRow {
    address: Option<String>,
    version: String,
    signature: String,
    outcome: Result<(), RowFault>,
}

impl CheckedRows {
    /// Checks the signature of a row, unless that was done in the reading `before`.
    fn check(
        &mut self,
        before: &mut Self,
        row: SignedRow<'_>,
        signature: &str,
        signer: &Signer,
    ) -> Result<(), RowFault> {
        let is_same = |checked: &CheckedRow| {
            checked.address.as_deref() == row.address
                && checked.version == row.version
                && checked.signature == signature
        };
        let known = before.0.remove(&row.id).filter(is_same);
        let checked = known.unwrap_or_else(|| CheckedRow {
            address: row.address.map(str::to_owned),
            version: row.version.to_owned(),
            signature: signature.to_owned(),
            outcome: row.check(signature, signer),
        });
        let outcome = checked.outcome;
        self.0.insert(row.id, checked);
        outcome
    }
}

impl FaultyRows {
    /// Reads the rows of a query, and leaves out those with our key and a wrong signature. Rows with another key stay: they
    /// are of replicas that have no use for this one. Before this process has a port, it forwards nothing.
    ///
    /// # Errors
    /// A column has another type.
    pub(super) fn without_faulty(
        &mut self,
        rows: &[Row],
        listening: Option<&ListeningAddress>,
    ) -> Result<Vec<PeerRow>, StoreError> {
        let (mut peers, mut faulty) = (Vec::new(), BTreeSet::new());
        let mut before = std::mem::take(&mut self.checked);
        for row in rows {
            let (peer, checked) = read(row, listening, &mut before, &mut self.checked)?;
            match checked {
                Ok(()) => peers.push(peer),
                Err(fault) => {
                    // One line for each reading, however many rows are forged.
                    if !self.logged.contains(&peer.id) && faulty.is_subset(&self.logged) {
                        let (version, why) = (&*peer.version, fault.explanation());
                        tracing::warn!(replica = %peer.id, version, why, "a replica is ignored");
                    }
                    faulty.insert(peer.id);
                }
            }
        }
        self.logged = faulty;
        Ok(peers)
    }
}

fn read(
    row: &Row,
    listening: Option<&ListeningAddress>,
    before: &mut CheckedRows,
    rows: &mut CheckedRows,
) -> Result<(PeerRow, Result<(), RowFault>), StoreError> {
    let id: i64 = row.try_get(0)?;
    let id = ReplicaId::new(u32::try_from(id).unwrap_or_default());
    let address: Option<&str> = row.try_get(1)?;
    let version: &str = row.try_get(2)?;
    let key: &str = row.try_get(3)?;
    let signature: &str = row.try_get(4)?;
    let has_same_key = listening.is_none_or(|listening| listening.key == key);
    let checked = match listening.filter(|_| has_same_key) {
        Some(listening) => {
            let signed = SignedRow {
                id,
                address,
                version,
            };
            rows.check(before, signed, signature, &listening.signer)
        }
        None => Ok(()),
    };
    let peer = PeerRow {
        id,
        address: address.map(Into::into),
        version: version.into(),
        has_same_key,
        beat: row.try_get(5)?,
    };
    Ok((peer, checked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_is_verified_again_only_after_a_change() {
        let [signer, other] = [[1; 32], [2; 32]].map(Signer::new);
        let row = SignedRow {
            id: ReplicaId::new(7),
            address: Some("http://10.0.0.7:1"),
            version: "0.1.0",
        };
        let signature = row.sign(&signer);
        let mut last = CheckedRows::default();
        let mut check = |row, signature: &str, signer| {
            let mut next = CheckedRows::default();
            let outcome = next.check(&mut last, row, signature, signer);
            last = next;
            outcome
        };
        assert_eq!(check(row, &signature, &signer), Ok(()));
        // Another key would refuse it, if it were asked.
        assert_eq!(check(row, &signature, &other), Ok(()));
        let moved = SignedRow {
            address: Some("http://10.0.0.8:1"),
            ..row
        };
        let newer = SignedRow {
            version: "0.2.0",
            ..row
        };
        for changed in [moved, newer] {
            let outcome = check(changed, &signature, &signer);
            assert_eq!(outcome, Err(RowFault::Signature));
            // A refusal is remembered only for the same row.
            assert_eq!(check(changed, &signature, &other), outcome);
            assert_eq!(check(row, &signature, &signer), Ok(()));
        }
        assert_eq!(check(row, "", &signer), Err(RowFault::Version));
        assert_eq!(check(row, &signature, &signer), Ok(()));
        // A replica that is not in a reading is forgotten.
        let id = ReplicaId::new(8);
        let _ = check(SignedRow { id, ..row }, &signature, &signer);
        assert_eq!(check(row, &signature, &other), Err(RowFault::Signature));
    }

    #[test]
    fn signature_is_of_one_row_and_one_key() {
        let signer = Signer::new([1; 32]);
        let row = SignedRow {
            id: ReplicaId::new(7),
            address: Some("http://10.0.0.7:1"),
            version: "0.1.0",
        };
        let signature = row.sign(&signer);
        assert_eq!(row.check(&signature, &signer), Ok(()));
        let others = [
            SignedRow {
                id: ReplicaId::new(8),
                ..row
            },
            SignedRow {
                address: Some("http://10.0.0.8:1"),
                ..row
            },
            SignedRow {
                address: None,
                ..row
            },
            SignedRow {
                version: "0.2.0",
                ..row
            },
        ];
        for other in others {
            let checked = other.check(&signature, &signer);
            assert_eq!(checked, Err(RowFault::Signature));
        }
        let key = Signer::new([2; 32]);
        assert_eq!(row.check(&signature, &key), Err(RowFault::Signature));
        let ticket = format!("1.{}", signer.seal("hop 2", &row.payload()));
        assert_eq!(row.check(&ticket, &signer), Err(RowFault::Signature));
        let later = signature.replacen("1.", "2.", 1);
        for other in ["", "x", &later] {
            assert_eq!(row.check(other, &signer), Err(RowFault::Version), "{other}");
        }
    }
}
