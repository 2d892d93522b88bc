//! `list_networks`.

use super::prelude::*;
use crate::engine::Network;

/// Labels of a network that are shown.
const MAX_LABELS: usize = 20;

/// List networks; or inspect one, with the containers in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNetworks {
    /// Name or id of the one to inspect.
    network: Option<ObjectName>,
    /// Rows to skip; of one network: containers.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Networks {
    networks: Vec<NetworkRow>,
    omitted: Option<usize>,
    note: Option<String>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct NetworkRow {
    id: String,
    name: String,
    driver: String,
    scope: String,
    subnets: Vec<String>,
    /// No outside access.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    internal: bool,
    created: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// Name to address.
    containers: Option<BTreeMap<String, String>>,
}

impl Tool for ListNetworks {
    const NAME: &'static str = "list_networks";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Networks;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Networks, ToolError> {
        let redactor = docker.redactor();
        let row = |network: Network| {
            let ranges = network.ipam.config.into_iter();
            NetworkRow {
                id: short_id(&network.id).to_owned(),
                name: redactor.text(&network.name),
                driver: redactor.text(&network.driver),
                scope: redactor.text(&network.scope),
                subnets: ranges.map(|range| range.subnet).collect(),
                internal: network.internal,
                created: network.created,
                labels: redacted_labels(&network.labels, MAX_LABELS, &redactor),
                containers: None,
            }
        };
        let (networks, omitted, note) = match &self.network {
            Some(name) => {
                let network = docker.network(name).await?;
                let mut users = docker.network_users(&network).await?;
                users.sort();
                let users = users.iter();
                let users = users.map(|(name, address)| (redactor.text(name), address.clone()));
                let (users, omitted, note) = page(users, self.offset, usize::MAX);
                let mut row = row(network);
                row.containers = Some(users.into_iter().collect());
                (vec![row], omitted, note)
            }
            None => {
                let listed = docker.networks().await?;
                page(listed.into_iter().map(row), self.offset, usize::MAX)
            }
        };
        Ok(Networks {
            networks,
            omitted,
            note,
        })
    }
}
