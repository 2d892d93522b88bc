//! `get_image`.

use std::collections::BTreeMap;

use serde_json::Value;
use upstream::text::truncate;
use upstream::time::rfc3339;

use super::prelude::*;
use super::short_id;

/// Bytes of history in an answer, which has it twice.
const HISTORY_BYTES: usize = 4_000;
/// Longest text that is shown of it, in characters.
const MAX_TEXT: usize = 300;
/// Values of a list that are shown.
const MAX_ITEMS: usize = 40;

/// Inspect an image: its configuration, and the layers it was built from.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetImage {
    /// Name or id.
    image: ImageName,
}

#[skip_serializing_none]
#[derive(Serialize, JsonSchema)]
pub(super) struct ImageView {
    id: String,
    tags: Vec<String>,
    digests: Vec<String>,
    created: String,
    size_bytes: i64,
    /// `linux/amd64`.
    platform: String,
    /// `root` where none is set.
    user: String,
    working_dir: String,
    entrypoint: String,
    command: String,
    env: Vec<String>,
    ports: Vec<String>,
    volumes: Vec<String>,
    labels: BTreeMap<String, String>,
    has_health_check: bool,
    /// Newest layer first.
    history: Vec<Layer>,
    omitted_layers: Option<usize>,
    /// Values hidden as `***`.
    redacted: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Layer {
    created: String,
    size_bytes: i64,
    command: String,
}

impl Tool for GetImage {
    const NAME: &'static str = "get_image";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ImageView;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ImageView, ToolError> {
        let details = docker.image(&self.image).await?;
        let name = self.image.to_string();
        let history = docker
            .engine
            .call(|engine| async move { engine.image_history(&name).await })
            .await?;
        let redactor = docker.redactor();
        let config = &details.config;
        let layers = history.iter().map(|past| Layer {
            created: rfc3339(past.created),
            size_bytes: past.size,
            command: truncate(&redactor.text(readable(&past.created_by)), MAX_TEXT),
        });
        let (history, omitted) = fit(layers.collect(), HISTORY_BYTES);
        let words = |words: &[String]| words.to_vec();
        let labels = config.labels.iter().take(MAX_ITEMS);
        let labels = labels
            .map(|(key, value)| (key.clone(), truncate(&redactor.named(key, value), MAX_TEXT)));
        let labels = labels.collect();
        let env = config.env.iter().take(MAX_ITEMS);
        let env = env
            .map(|text| truncate(&redactor.assignment(text), MAX_TEXT))
            .collect();
        let line = |list: &[String]| {
            let list = words(list);
            truncate(&redactor.command(list.iter().map(String::as_str)), MAX_TEXT)
        };
        let (entrypoint, command) = (line(&config.entrypoint), line(&config.cmd));
        let keys = |map: &BTreeMap<String, Value>| map.keys().take(MAX_ITEMS).cloned().collect();
        let first = |list: &[String]| list.iter().take(MAX_ITEMS).cloned().collect();
        Ok(ImageView {
            id: short_id(&details.id).to_owned(),
            tags: first(&details.repo_tags),
            digests: first(&details.repo_digests),
            created: details.created.clone(),
            size_bytes: details.size,
            platform: format!("{}/{}", details.os, details.architecture),
            user: match &*config.user {
                "" => "root".to_owned(),
                user => redactor.text(user),
            },
            working_dir: redactor.text(&config.working_dir),
            entrypoint,
            command,
            env,
            ports: keys(&config.exposed_ports),
            volumes: keys(&config.volumes),
            labels,
            has_health_check: config.healthcheck.is_some(),
            history,
            omitted_layers: (omitted > 0).then_some(omitted),
            redacted: redactor.hidden(),
        })
    }
}

/// What the builder was told, without its own words.
fn readable(created_by: &str) -> &str {
    let text = created_by.trim_start_matches("/bin/sh -c ");
    text.trim_start_matches("#(nop) ").trim()
}
