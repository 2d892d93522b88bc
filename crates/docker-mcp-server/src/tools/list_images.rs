//! `list_images`.

use std::collections::BTreeMap;

use mcp_core::tool::{Bounded, Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{fit, short_id};
use crate::Docker;
use crate::engine::Path;
use crate::policy::Subject;
use crate::when::rfc3339;

/// Bytes of rows in an answer without `limit`, and with.
const DEFAULT_BYTES: usize = 6_500;
const MAX_BYTES: usize = 128 << 10;

/// List images, newest first, with how many containers use each.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListImages {
    /// Only tags that contain this.
    name: Option<String>,
    /// Only those without a tag.
    #[serde(default)]
    dangling: bool,
    /// Most rows.
    limit: Option<Bounded<1, 500>>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Images {
    images: Vec<Row>,
    /// Rows that do not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

#[derive(Serialize, JsonSchema)]
struct Row {
    id: String,
    tags: Vec<String>,
    size_bytes: i64,
    created: String,
    /// Containers that were made from it, stopped ones included.
    containers: usize,
}

/// An image of the engine's list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Image {
    pub(super) id: String,
    pub(super) repo_tags: Vec<String>,
    pub(super) created: i64,
    pub(super) size: i64,
    pub(super) labels: BTreeMap<String, String>,
}

impl Tool for ListImages {
    const NAME: &'static str = "list_images";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Images;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Images, ToolError> {
        let mut images = list(docker).await?;
        let users = users(docker).await?;
        let part = self.name.as_deref().map(str::to_lowercase);
        images.retain(|image| {
            let has = |part: &String| {
                let mut tags = image.tags();
                tags.any(|tag| tag.to_lowercase().contains(part))
            };
            part.as_ref().is_none_or(has) && (!self.dangling || image.tags().next().is_none())
        });
        images.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let mut redactor = docker.redactor();
        let rows = images.iter().map(|image| Row {
            id: image.short_id().to_owned(),
            tags: image.tags().map(|tag| redactor.text(tag)).collect(),
            size_bytes: image.size,
            created: rfc3339(image.created),
            containers: users.get(&image.id).copied().unwrap_or_default(),
        });
        let (most, room) = match self.limit {
            Some(limit) => (limit.get() as usize, MAX_BYTES),
            None => (usize::MAX, DEFAULT_BYTES),
        };
        let (shown, _) = fit(rows.take(most).collect(), room);
        let omitted = images.len() - shown.len();
        Ok(Images {
            images: shown,
            omitted: (omitted > 0).then_some(omitted),
            note: (omitted > 0).then_some("Give `limit` for more rows, or `name`."),
        })
    }
}

impl Image {
    /// Its names. An image without one has a placeholder on some engines.
    pub(super) fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.repo_tags.iter().map(String::as_str);
        tags.filter(|tag| *tag != "<none>:<none>")
    }

    /// What Docker shows of its id.
    pub(super) fn short_id(&self) -> &str {
        short_id(self.id.trim_start_matches("sha256:"))
    }
}

/// The images that the rules leave in sight.
pub(super) async fn list(docker: &Docker) -> Result<Vec<Image>, ToolError> {
    let listed = docker.engine.read_json(Path::to("/images/json")).await;
    let mut images: Vec<Image> = listed.map_err(|failure| docker.engine.explain(failure))?;
    images.retain(|image| {
        let name = image.tags().next().unwrap_or(&image.id);
        docker.policy.permits(&Subject::Image(name))
    });
    Ok(images)
}

/// How many containers each image has, by its whole id.
pub(super) async fn users(docker: &Docker) -> Result<BTreeMap<String, usize>, ToolError> {
    #[derive(Deserialize)]
    struct User {
        #[serde(rename = "ImageID", default)]
        image: String,
    }
    let path = Path::to("/containers/json").query("all", true);
    let listed = docker.engine.read_json(path).await;
    let users: Vec<User> = listed.map_err(|failure| docker.engine.explain(failure))?;
    let mut counts = BTreeMap::new();
    for user in users {
        *counts.entry(user.image).or_default() += 1;
    }
    Ok(counts)
}
