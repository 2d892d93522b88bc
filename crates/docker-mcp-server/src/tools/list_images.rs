//! `list_images`.

use upstream::text::truncate_list;

use super::prelude::*;

/// Tags of an image that are shown.
const MAX_TAGS: usize = 20;

/// List images, newest first, each with its container count.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListImages {
    /// Only tags that contain this.
    name: Option<String>,
    /// Only those without a tag.
    #[serde(default)]
    dangling: bool,
    /// Row limit.
    limit: Option<Bounded<1, 500>>,
    /// Rows to skip.
    offset: Option<u32>,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(crate) struct Images {
    images: Vec<ImageRow>,
    /// Rows that do not fit.
    omitted: Option<usize>,
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ImageRow {
    id: String,
    tags: Vec<String>,
    size_bytes: i64,
    created: String,
    /// Containers that were made from it, stopped ones included.
    containers: usize,
}

impl Tool for ListImages {
    const NAME: &'static str = "list_images";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = Images;

    async fn call(self, docker: &Docker, _: &Call) -> Result<Images, ToolError> {
        let mut images = docker.images().await?;
        let users = docker.image_usage().await?;
        let part = self.name.as_deref().map(str::to_lowercase);
        images.retain(|image| {
            let has = |part: &String| {
                let mut tags = image.tags();
                tags.any(|tag| tag.to_lowercase().contains(part))
            };
            part.as_ref().is_none_or(has) && (!self.dangling || image.tags().next().is_none())
        });
        images.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.id.cmp(&b.id)));
        let redactor = docker.redactor();
        let rows = images.iter().map(|image| ImageRow {
            id: short_id(&image.id).to_owned(),
            tags: truncate_list(image.tags().map(|tag| redactor.text(tag)), MAX_TAGS),
            size_bytes: image.size,
            created: rfc3339(image.created),
            containers: users.get(&image.id).copied().unwrap_or_default(),
        });
        let limit = self.limit.map_or(usize::MAX, |limit| limit.get() as usize);
        let (images, omitted, note) = page(rows, self.offset, limit);
        Ok(Images {
            images,
            omitted,
            note,
        })
    }
}
