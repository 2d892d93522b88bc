//! The containers that there are, as resources of their own: what clients list and people pick.

use std::sync::Arc;

use mcp_core::resource::ResourceDefinition;
use mcp_core::server::{Server, ServerItems};
use upstream::redact::Redactor;

use super::{containers, uri};
use crate::docker::Docker;
use crate::engine::ContainerSummary;

/// Containers that are listed, the newest; the others can be read all the same.
const MAX_LISTED: usize = 50;
/// Containers among which those are looked for that the policy lets be seen.
const MAX_ASKED: usize = 200;

/// Has `server` list the containers that there are now. Clients hear of it if they are others than
/// before. An engine that is away changes nothing.
pub(crate) async fn publish(docker: &Arc<Docker>, server: &Server) {
    let Ok(mut listed) = docker.newest_containers(MAX_ASKED).await else {
        return;
    };
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
    let mut own = super::all().bind(docker).into_iter();
    let Some((template, resource)) = own.find(|(template, _)| template.uri == containers::TEMPLATE)
    else {
        return;
    };
    let redactor = docker.redactor();
    let definitions = listed
        .iter()
        .filter_map(|container| definition(container, &template, &redactor));
    let resources = definitions.take(MAX_LISTED);
    server.publish(ServerItems {
        resources: resources
            .map(|definition| (definition, Arc::clone(&resource)))
            .collect(),
        ..ServerItems::default()
    });
}

fn definition(
    container: &ContainerSummary,
    template: &ResourceDefinition,
    redactor: &Redactor,
) -> Option<ResourceDefinition> {
    // One that is not understood is left out, and its neighbours are not.
    let name = Some(container.display_name()).filter(|name| !name.is_empty())?;
    Some(ResourceDefinition {
        uri: uri::container(name).into(),
        name: name.to_owned().into(),
        // Nothing that changes while it lives, or the list would change with it.
        description: format!(
            "Container of the image {}.",
            redactor.text(&container.image)
        ),
        ..template.clone()
    })
}
