//! `list_networks`.

use super::prelude::*;

/// Labels of a network that are shown.
const MAX_LABELS: usize = 20;

/// List networks; or inspect one, with the containers in it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListNetworks {
    /// Name or id of the one to inspect.
    network: Option<ObjectName>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct Networks {
    networks: Vec<NetworkRow>,
    omitted: Option<usize>,
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
        let (listed, users, max_bytes) = match &self.network {
            Some(name) => {
                let network = docker.network(name).await?;
                let users = docker.network_users(&network).await?;
                (vec![network], Some(users), usize::MAX)
            }
            None => (docker.networks().await?, None, DEFAULT_ROW_BYTES),
        };
        let users = users.map(|users| {
            let users = users.into_iter();
            users
                .map(|(name, address)| (redactor.text(&name), address))
                .collect()
        });
        let rows = listed.into_iter().map(|network| {
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
                containers: users.clone(),
            }
        });
        let (networks, omitted) = fit(rows.collect(), max_bytes);
        Ok(Networks { networks, omitted })
    }
}
