//! `get_image`.

use std::collections::BTreeMap;

use mcp_core::tool::{Call, Effect, Tool, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{fit, short_id};
use crate::Docker;
use crate::engine::{Asked, Kind, Path};
use crate::name::ImageName;
use crate::policy::Subject;
use crate::when::rfc3339;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_layers: Option<usize>,
    /// Values hidden as `***`.
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct Layer {
    created: String,
    size_bytes: i64,
    command: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Details {
    pub(super) id: String,
    pub(super) repo_tags: Vec<String>,
    repo_digests: Vec<String>,
    created: String,
    pub(super) size: i64,
    os: String,
    architecture: String,
    pub(super) config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Config {
    user: String,
    working_dir: String,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    env: Vec<String>,
    exposed_ports: BTreeMap<String, Value>,
    volumes: BTreeMap<String, Value>,
    pub(super) labels: BTreeMap<String, String>,
    healthcheck: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Past {
    created: i64,
    created_by: String,
    size: i64,
}

impl Tool for GetImage {
    const NAME: &'static str = "get_image";
    const EFFECT: Effect = Effect::ReadOnly;
    type Service = Docker;
    type Output = ImageView;

    async fn call(self, docker: &Docker, _: &Call) -> Result<ImageView, ToolError> {
        let details = inspect(docker, &self.image).await?;
        let path = Path::to("/images").id(&self.image).then("/history");
        let history: Result<Vec<Past>, _> = docker.engine.read_json(path).await;
        let history = history.map_err(|failure| docker.engine.explain(failure))?;
        let mut redactor = docker.redactor();
        let config = &details.config;
        let layers = history.iter().map(|past| Layer {
            created: rfc3339(past.created),
            size_bytes: past.size,
            command: clipped(&redactor.text(readable(&past.created_by))),
        });
        let (history, omitted) = fit(layers.collect(), HISTORY_BYTES);
        let words = |words: &[String]| words.to_vec();
        let labels = config.labels.iter().take(MAX_ITEMS);
        let labels = labels.map(|(key, value)| (key.clone(), clipped(&redactor.value(key, value))));
        let labels = labels.collect();
        let env = config.env.iter().take(MAX_ITEMS);
        let env = env
            .map(|text| clipped(&redactor.assignment(text)))
            .collect();
        let mut line = |list: &[String]| {
            let list = words(list);
            clipped(&redactor.command(list.iter().map(String::as_str)))
        };
        let (entrypoint, command) = (line(&config.entrypoint), line(&config.cmd));
        let keys = |map: &BTreeMap<String, Value>| map.keys().take(MAX_ITEMS).cloned().collect();
        let first = |list: &[String]| list.iter().take(MAX_ITEMS).cloned().collect();
        Ok(ImageView {
            id: short_id(details.id.trim_start_matches("sha256:")).to_owned(),
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

/// The details of an image that the rules leave in sight.
pub(super) async fn inspect(docker: &Docker, image: &ImageName) -> Result<Details, ToolError> {
    docker.permit(&Subject::Image(image.as_str()))?;
    let path = Path::to("/images").id(image).then("/json");
    let details: Details = match docker.engine.read_json(path).await {
        Ok(details) => details,
        Err(failure) => {
            let (kind, name) = (Kind::Image, image.as_str());
            let engine = &docker.engine;
            return Err(engine
                .explain_missing(failure, kind, name, Asked::Read)
                .await);
        }
    };
    // An id must not be the way around a rule about names.
    for tag in &details.repo_tags {
        docker.permit(&Subject::Image(tag))?;
    }
    Ok(details)
}

/// What the builder was told, without its own words.
fn readable(created_by: &str) -> &str {
    let text = created_by.trim_start_matches("/bin/sh -c ");
    text.trim_start_matches("#(nop) ").trim()
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
