//! The containers that there are, as resources of their own: what clients list and people pick.

use std::sync::Arc;

use mcp_core::resource::ResourceDefinition;
use mcp_core::server::{Lists, Server};

use super::{containers, uri};
use crate::Docker;
use crate::engine::Summary;
use crate::redact::Redactor;

/// Containers that are listed, the newest; the others can be read all the same.
const MAX_LISTED: usize = 50;

/// Has `server` list the containers that there are now. Clients hear of it if they are others than
/// before. An engine that is away changes nothing.
pub(crate) async fn publish(docker: &Arc<Docker>, server: &Server) {
    let Ok(mut listed) = super::visible(docker).await else {
        return;
    };
    listed.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
    let template = super::all().bind(docker).into_iter();
    let Some((template, resource)) = template
        .into_iter()
        .find(|(template, _)| template.uri == containers::TEMPLATE)
    else {
        return;
    };
    let mut redactor = docker.redactor();
    let definitions = listed
        .iter()
        .filter_map(|container| definition(container, &template, &mut redactor));
    let resources = definitions.take(MAX_LISTED);
    server.publish(Lists {
        resources: resources
            .map(|definition| (definition, Arc::clone(&resource)))
            .collect(),
        ..Lists::default()
    });
}

fn definition(
    container: &Summary,
    template: &ResourceDefinition,
    redactor: &mut Redactor,
) -> Option<ResourceDefinition> {
    let name = container.names.first()?.trim_start_matches('/');
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
