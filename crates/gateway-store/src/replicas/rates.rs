//! The rate limit over all replicas: each admits its part of the limit, in proportion to its part of the requests of a
//! client in the last seconds. No request waits for that, and without the database the parts stay.

use std::collections::{HashMap, HashSet};

use mcp_core::server::ReplicaId;
use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::events::{PostgresConnection, StoreError, StoreFault};

/// Clients whose requests are counted; the others have equal parts at all replicas.
const MAX_CLIENTS: usize = 10_000;
/// The weight of the last interval in the average demand.
const NEWEST_WEIGHT: f64 = 0.5;
/// Average requests per interval below which a client is forgotten.
const MIN_DEMAND: f64 = 0.01;

const WRITE_DEMANDS: &str = "
    insert into mcp_rates (client, replica, demand)
        select client, $3, demand from unnest($1::text[], $2::double precision[]) as own (client, demand)
        on conflict (client, replica) do update set demand = excluded.demand, beat = now()
";
const READ_DEMANDS: &str = "
    select client, sum(demand) from mcp_rates
        where client = any($1) and beat > now() - interval '3 seconds' group by client
";

/// The part of each client's requests that come to this replica.
#[derive(Default)]
pub(super) struct RateShares(Mutex<HashMap<String, ClientDemand>>);

struct ClientDemand {
    /// Since the last beat.
    requests: u32,
    /// Average requests per interval.
    demand: f64,
    share: f64,
}

impl RateShares {
    /// Counts a request, and returns the part of the limit that this replica may admit: `equal` for a new client.
    pub(super) fn count(&self, client: &str, equal: f64) -> f64 {
        let mut clients = self.0.lock();
        if let Some(known) = clients.get_mut(client) {
            known.requests = known.requests.saturating_add(1);
            return known.share;
        }
        // PostgreSQL has no NUL in texts.
        if clients.len() < MAX_CLIENTS && !client.contains('\0') {
            let new = ClientDemand {
                requests: 1,
                demand: 0.0,
                share: equal,
            };
            clients.insert(client.to_owned(), new);
        }
        equal
    }

    /// Writes how many requests of each client come here, and reads those of all replicas together.
    pub(super) fn exchange(
        &self,
        connection: &PostgresConnection,
        own: ReplicaId,
    ) -> Result<(), StoreError> {
        let (names, demands) = self.end_interval();
        if names.is_empty() {
            return Ok(());
        }
        let own = i64::from(own.bits());
        let values: [(&(dyn ToSql + Sync), Type); 3] = [
            (&names, Type::TEXT_ARRAY),
            (&demands, Type::FLOAT8_ARRAY),
            (&own, Type::INT8),
        ];
        let client = &connection.client;
        let totals = connection.within(async {
            client.execute_typed(WRITE_DEMANDS, &values).await?;
            let names: (&(dyn ToSql + Sync), Type) = (&names, Type::TEXT_ARRAY);
            Ok(client.query_typed(READ_DEMANDS, &[names]).await?)
        });
        let totals = match totals {
            // A name of a client may not cost the beats; the parts stay as they are.
            Err(error) if error.fault == StoreFault::Rejected => {
                tracing::debug!(reason = error.reason, "the demands are not stored");
                return Ok(());
            }
            totals => totals?,
        };
        let total = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let totals = totals.iter().map(total);
        let totals = totals.collect::<Result<Vec<_>, StoreError>>()?;
        self.set_totals(totals);
        Ok(())
    }

    /// Ends an interval: returns the clients with their average demand here.
    pub(super) fn end_interval(&self) -> (Vec<String>, Vec<f64>) {
        let mut clients = self.0.lock();
        for client in clients.values_mut() {
            let requests = f64::from(std::mem::take(&mut client.requests));
            client.demand = match client.demand > 0.0 {
                true => NEWEST_WEIGHT.mul_add(requests, (1.0 - NEWEST_WEIGHT) * client.demand),
                false => requests,
            };
        }
        clients.retain(|_, client| client.demand > MIN_DEMAND);
        let demands = clients.iter();
        demands
            .map(|(name, client)| (name.clone(), client.demand))
            .unzip()
    }

    /// Sets the parts by the demand at all replicas together.
    pub(super) fn set_totals(&self, totals: impl IntoIterator<Item = (String, f64)>) {
        let mut clients = self.0.lock();
        let mut seen = HashSet::new();
        for (name, total) in totals {
            if let Some(client) = clients.get_mut(&name).filter(|_| seen.insert(name)) {
                client.share = (client.demand / total.max(client.demand)).clamp(0.0, 1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `requests[i]` requests of one client to replica `i`, and exchanges the demands.
    fn second(replicas: &[RateShares], requests: &[u32]) -> Vec<f64> {
        for (replica, count) in replicas.iter().zip(requests) {
            for _ in 0..*count {
                replica.count("ada", 1.0 / 3.0);
            }
        }
        let demands = replicas.iter().map(|replica| replica.end_interval().1);
        let total: f64 = demands.flatten().sum();
        for replica in replicas {
            replica.set_totals([("ada".to_owned(), total)]);
        }
        let shares = replicas
            .iter()
            .map(|replica| replica.count("ada", 1.0 / 3.0));
        shares.collect()
    }

    #[test]
    fn parts_follow_the_requests_and_are_one_together() {
        let replicas = [(); 3].map(|()| RateShares::default());
        assert!((replicas[0].count("ada", 0.25) - 0.25).abs() < 1e-9, "new");
        for requests in [
            [20, 20, 20],
            [60, 0, 0],
            [60, 0, 0],
            [60, 0, 0],
            [0, 30, 30],
        ] {
            let shares = second(&replicas, &requests);
            let sum: f64 = shares.iter().sum();
            assert!((0.95..1.4).contains(&sum), "{requests:?}: {shares:?}");
        }
        let replicas = [(); 3].map(|()| RateShares::default());
        for _ in 0..8 {
            second(&replicas, &[60, 0, 0]);
        }
        let shares = second(&replicas, &[60, 0, 0]);
        assert!(shares[0] > 0.95, "{shares:?}");
    }

    #[test]
    fn name_that_the_database_refuses_is_not_written() {
        let shares = RateShares::default();
        assert!((shares.count("a\0", 0.5) - 0.5).abs() < 1e-9);
        assert!(shares.end_interval().0.is_empty());
    }

    #[test]
    fn clients_without_requests_are_forgotten_and_others_bounded() {
        let shares = RateShares::default();
        for number in 0..=MAX_CLIENTS {
            shares.count(&number.to_string(), 0.5);
        }
        assert_eq!(shares.end_interval().0.len(), MAX_CLIENTS);
        for _ in 0..10 {
            shares.end_interval();
        }
        assert!(shares.end_interval().0.is_empty());
    }
}
