//! The row of this process.

use mcp_core::server::ReplicaId;
use mcp_serve::ListeningAddress;

use super::row::SignedRow;
use crate::events::{PostgresConnection, StoreError};

/// The database sees the address of a process that listens on all of them.
const SEEN_HOST: &str = "
    select case family(inet_client_addr())
        when 6 then '[' || host(inet_client_addr()) || ']' else host(inet_client_addr()) end
";

/// The columns of the own row that this process knows.
pub(super) struct OwnRow {
    pub(super) address: Option<String>,
    pub(super) key: String,
    pub(super) signature: String,
}

/// Returns true if only the database sees the address of this process.
pub(super) fn asks_address(listening: Option<&ListeningAddress>, configured: Option<&str>) -> bool {
    let is_everywhere = |listening: &ListeningAddress| listening.address.ip().is_unspecified();
    configured.is_none() && listening.is_some_and(is_everywhere)
}

/// Returns the host of this process as the database sees it.
pub(super) fn seen_host(connection: &PostgresConnection) -> Result<Option<String>, StoreError> {
    connection.within(async {
        let rows = connection.client.query_typed(SEEN_HOST, &[]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    })
}

impl OwnRow {
    /// The row of a process with a configured URL, or else one of its port: at the host that the database sees if it
    /// listens on all addresses.
    pub(super) fn new(
        id: ReplicaId,
        listening: &ListeningAddress,
        configured: Option<&str>,
        seen_host: Option<&str>,
    ) -> Self {
        let (scheme, socket) = (listening.scheme, listening.address);
        let address = match (configured, asks_address(Some(listening), configured)) {
            (Some(configured), _) => Some(configured.to_owned()),
            (None, false) => Some(format!("{scheme}://{socket}")),
            (None, true) => seen_host.map(|host| format!("{scheme}://{host}:{}", socket.port())),
        };
        let row = SignedRow {
            id,
            address: address.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let signature = row.sign(&listening.signer);
        Self {
            address,
            key: listening.key.clone(),
            signature,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use mcp_core::sign::Signer;

    use super::*;

    #[test]
    fn address_is_the_configured_one_or_that_of_the_port() {
        let address = |socket: &str, configured, seen| {
            let listening = ListeningAddress {
                scheme: "https",
                address: socket.parse::<SocketAddr>().unwrap(),
                key: "0".to_owned(),
                signer: Signer::new([1; 32]),
            };
            OwnRow::new(ReplicaId::new(1), &listening, configured, seen).address
        };
        let url = Some("http://gateway-1");
        assert_eq!(address("0.0.0.0:1", url, None).as_deref(), url);
        let own = address("10.0.0.1:1", None, Some("10.0.0.2"));
        assert_eq!(own.as_deref(), Some("https://10.0.0.1:1"));
        let seen = address("0.0.0.0:1", None, Some("10.0.0.2"));
        assert_eq!(seen.as_deref(), Some("https://10.0.0.2:1"));
        let seen = address("[::]:1", None, Some("[fd00::2]"));
        assert_eq!(seen.as_deref(), Some("https://[fd00::2]:1"));
        assert_eq!(address("0.0.0.0:1", None, None), None);
    }
}
