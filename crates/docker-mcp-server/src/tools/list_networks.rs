//! `list_networks`.

use std::collections::BTreeMap;

use upstream::redact::Redactor;

use super::prelude::*;
use super::short_id;
use crate::engine::Network;

/// Bytes of rows in an answer, which has them twice.
const MAX_BYTES: usize = 6_500;

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
    networks: Vec<Row>,
    omitted: Option<usize>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
struct Row {
    id: String,
    name: String,
    driver: String,
    scope: String,
    subnets: Vec<String>,
    /// Without a way out.
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
        if let Some(name) = &self.network {
            let network = docker.network(name).await?;
            let containers = network.containers.values();
            let containers = containers
                .map(|at| (redactor.text(&at.name), at.ip_address.clone()))
                .collect();
            let mut row = Row::new(&network, &redactor);
            row.containers = Some(containers);
            return Ok(Networks {
                networks: vec![row],
                omitted: None,
            });
        }
        let listed = docker.networks().await?;
        let rows = listed.iter().map(|network| Row::new(network, &redactor));
        let (networks, omitted) = fit(rows.collect(), MAX_BYTES);
        Ok(Networks {
            networks,
            omitted: (omitted > 0).then_some(omitted),
        })
    }
}

impl Row {
    fn new(network: &Network, redactor: &Redactor) -> Self {
        let ranges = network.ipam.config.iter();
        let labels = network.labels.iter().take(20);
        Self {
            id: short_id(&network.id).to_owned(),
            name: redactor.text(&network.name),
            driver: redactor.text(&network.driver),
            scope: redactor.text(&network.scope),
            subnets: ranges.map(|range| range.subnet.clone()).collect(),
            internal: network.internal,
            created: network.created.clone(),
            labels: labels
                .map(|(key, value)| (key.clone(), redactor.named(key, value)))
                .collect(),
            containers: None,
        }
    }
}
