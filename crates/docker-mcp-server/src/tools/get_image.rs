//! `get_image`.

use serde_json::Value;

use super::prelude::*;

/// Longest text, in characters.
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
    /// `root` if none is set.
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

/// A layer as the engine describes it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct PastLayer {
    created: i64,
    created_by: String,
    size: i64,
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
        let path = Path::to("/images").id(&self.image).then("/history");
        let history: Vec<PastLayer> = docker.engine.get(path).await?;
        let redactor = docker.redactor();
        let config = &details.config;
        let short = |text: String| truncate(&text, MAX_TEXT);
        let layers = history.iter().map(|past| Layer {
            created: rfc3339(past.created),
            size_bytes: past.size,
            command: short(redactor.text(instruction(&past.created_by))),
        });
        let (history, omitted_layers) = fit(layers.collect());
        let labels = redacted_labels(&config.labels, MAX_ITEMS, &redactor).into_iter();
        let env = config.env.iter().take(MAX_ITEMS);
        let line = |words: &[String]| short(redactor.command(words.iter().map(String::as_str)));
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
            entrypoint: line(&config.entrypoint),
            command: line(&config.cmd),
            env: env.map(|text| short(redactor.assignment(text))).collect(),
            ports: keys(&config.exposed_ports),
            volumes: keys(&config.volumes),
            labels: labels.map(|(key, value)| (key, short(value))).collect(),
            has_health_check: config.healthcheck.is_some(),
            history,
            omitted_layers,
            redacted: redactor.hidden(),
        })
    }
}

/// The instruction of a layer, without the prefixes that the builder adds.
fn instruction(created_by: &str) -> &str {
    let text = created_by.trim_start_matches("/bin/sh -c ");
    text.trim_start_matches("#(nop) ").trim()
}
