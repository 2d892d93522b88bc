//! The list of containers as single resources, for clients in which people pick one.

use std::sync::Arc;

use mcp_core::resource::ResourceDefinition;
use mcp_core::server::{Server, ServerItems};
use upstream::redact::Redactor;

use super::{definitions, uri};
use crate::docker::Docker;
use crate::engine::ContainerSummary;

/// Most containers that are listed, the newest; the others can still be read.
const MAX_LISTED: usize = 50;
/// Most containers that are requested, before the policy filters them.
const MAX_REQUESTED: usize = 200;

/// Publishes the current containers as resources of `server`, which notifies clients of changes. Does
/// nothing if the engine is down.
pub(crate) async fn publish(docker: &Arc<Docker>, server: &Server) {
    let Ok(mut listed) = docker.newest_containers(MAX_REQUESTED).await else {
        return;
    };
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
    let mut own = super::all().bind(docker).into_iter();
    let of_container = own.find(|(own, _)| own.uri == definitions::CONTAINER_TEMPLATE);
    let Some((template, resource)) = of_container else {
        return;
    };
    let redactor = docker.redactor();
    let listed = listed.iter();
    let listed = listed.filter_map(|container| definition(container, &template, &redactor));
    let resources = listed.map(|definition| (definition, Arc::clone(&resource)));
    server.publish(ServerItems {
        resources: resources.take(MAX_LISTED).collect(),
        ..ServerItems::default()
    });
}

fn definition(
    container: &ContainerSummary,
    template: &ResourceDefinition,
    redactor: &Redactor,
) -> Option<ResourceDefinition> {
    // A container that could not be parsed has no name.
    let name = Some(container.display_name()).filter(|name| !name.is_empty())?;
    Some(ResourceDefinition {
        uri: uri::container(name).into(),
        name: name.to_owned().into(),
        // Only what never changes, since a new description would notify all clients.
        description: format!(
            "Container of the image {}.",
            redactor.text(&container.image)
        ),
        ..template.clone()
    })
}
