//! The containers that share namespaces of another one, and are cut off when that is replaced.

use futures_util::stream;
use serde_json::Value;

use super::super::prelude::*;
use crate::docker::HIDDEN;
use crate::engine::ContainerSummary;
use crate::policy::Subject;

/// Containers that are inspected concurrently.
const MAX_CONCURRENT_READS: usize = 8;
/// The options that may name another container, and what they share.
const SHARED: [(&str, &str); 3] = [
    ("NetworkMode", "network"),
    ("PidMode", "processes"),
    ("IpcMode", "IPC"),
];

/// Errors when others use the network or another namespace of the container, or links to it: they would be cut off,
/// and could not be started again.
pub(super) async fn permit_none(
    docker: &Docker,
    container: &ContainerDetails,
) -> Result<(), ToolError> {
    let listed = docker.engine.containers(true).await?;
    let mut reads = Vec::new();
    for other in listed.iter().filter(|other| other.id != container.id) {
        reads.push(dependant(docker, other, container));
    }
    let dependants = stream::iter(reads).buffered(MAX_CONCURRENT_READS);
    let dependants: Vec<Option<String>> = dependants.collect().await;
    let dependants: Vec<String> = dependants.into_iter().flatten().collect();
    if dependants.is_empty() {
        return Ok(());
    }
    let name = container.display_name();
    Err(conflict(format!(
        "`{name}` cannot be replaced while other containers share what is its own: {}. They would be cut off \
         and could not start again. Remove these first, and create them again afterwards.",
        dependants.join(", ")
    )))
}

/// The name of the other container, and what it shares of `owner`; `None` if it shares nothing.
async fn dependant(
    docker: &Docker,
    other: &ContainerSummary,
    owner: &ContainerDetails,
) -> Option<String> {
    let id = ContainerName::new(&other.id).ok()?;
    let details = docker.engine.try_get(Path::container(&id, "/json")).await;
    // It may have been removed meanwhile.
    let details: Value = details.ok()?;
    let shared = shared(&details["HostConfig"], owner)?;
    let name = match docker.policy.permits(&Subject::from(other)) {
        true => other.display_name(),
        false => HIDDEN,
    };
    Some(format!("`{name}` ({shared})"))
}

/// The namespace of `owner` that a container with this `HostConfig` shares.
fn shared(host: &Value, owner: &ContainerDetails) -> Option<&'static str> {
    let name = owner.display_name();
    let is_owner =
        |other: &str| other == name || (!other.is_empty() && owner.id.starts_with(other));
    let option = SHARED.iter().find(|(option, _)| {
        let mode = host[option].as_str().unwrap_or_default();
        mode.strip_prefix("container:").is_some_and(is_owner)
    });
    let mut links = host["Links"].as_array().into_iter().flatten();
    let is_linked = links.any(|link| {
        let link = link.as_str().unwrap_or_default().trim_start_matches('/');
        link.split(':').next().is_some_and(is_owner)
    });
    let link = is_linked.then_some("a link");
    option.map(|(_, shared)| *shared).or(link)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_that_share_something_are_found() {
        let owner = ContainerDetails {
            id: "ab12".repeat(16),
            name: "/vpn".to_owned(),
            ..ContainerDetails::default()
        };
        for (host, expected) in [
            (json!({"NetworkMode": "container:vpn"}), Some("network")),
            (
                json!({"NetworkMode": format!("container:{}", owner.id)}),
                Some("network"),
            ),
            (json!({"NetworkMode": "container:vpn2"}), None),
            (json!({"NetworkMode": "vpn"}), None),
            (json!({"PidMode": "container:vpn"}), Some("processes")),
            (json!({"IpcMode": "container:ab12"}), Some("IPC")),
            (json!({"IpcMode": "container:"}), None),
            (json!({"Links": ["/vpn:/app/gate"]}), Some("a link")),
            (json!({"Links": ["/db:/app/vpn"]}), None),
        ] {
            assert_eq!(shared(&host, &owner), expected, "{host}");
        }
    }
}
