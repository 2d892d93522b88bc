//! Pulls and pushes of images, told line by line. The engine ends the work when its connection
//! is closed, so dropping a stream ends it.

use std::collections::BTreeMap;

use bollard::models::{CreateImageInfo, ProgressDetail};
use bollard::query_parameters::{CreateImageOptionsBuilder, PushImageOptionsBuilder};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;

use crate::engine::client::Engine;
use crate::engine::error::EngineError;
use crate::engine::name::ImageName;
use crate::engine::registry::RegistryLogin;

/// The lines of a pull or a push.
pub(crate) type TransferStream = BoxStream<'static, Result<TransferLine, EngineError>>;

/// A line of a pull or a push.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransferLine {
    /// The engine's text, for example `Downloading`; may be empty.
    pub(crate) status: String,
    /// Bytes of all layers that have arrived, and bytes of all layers as far as they are known.
    pub(crate) bytes: (u64, u64),
}

impl Engine {
    /// Pulls an image; by default that of the engine's platform.
    pub(crate) fn pull(
        &self,
        image: &ImageName,
        platform: Option<&str>,
        login: &RegistryLogin,
    ) -> TransferStream {
        let (name, tag) = image.split();
        let mut options = CreateImageOptionsBuilder::new().from_image(name).tag(tag);
        if let Some(platform) = platform {
            options = options.platform(platform);
        }
        let (options, login) = (Some(options.build()), login.credentials());
        let lines = self.streams.create_image(options, None, login);
        let mut layers = Layers::default();
        let lines = lines.map(move |line| Ok(layers.advance(line?)));
        lines.boxed()
    }

    /// Pushes an image to the registry in its name.
    pub(crate) fn push(&self, image: &ImageName, login: &RegistryLogin) -> TransferStream {
        let (name, tag) = image.split();
        let options = PushImageOptionsBuilder::new().tag(tag).build();
        let lines = self
            .streams
            .push_image(name, Some(options), login.credentials());
        let mut layers = Layers::default();
        let lines = lines.map(move |line| {
            let line = line?;
            Ok(layers.advance(CreateImageInfo {
                status: line.status,
                progress_detail: line.progress_detail,
                ..CreateImageInfo::default()
            }))
        });
        lines.boxed()
    }
}

/// The bytes of each layer: those that have arrived, and all.
#[derive(Default)]
struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Applies a line of the engine's output.
    fn advance(&mut self, line: CreateImageInfo) -> TransferLine {
        let bytes = |count: Option<i64>| count.and_then(|bytes| u64::try_from(bytes).ok());
        let status = line.status.unwrap_or_default();
        let ProgressDetail { current, total } = line.progress_detail.unwrap_or_default();
        let (current, total) = (bytes(current), bytes(total).unwrap_or(0));
        let layer = self.0.entry(line.id.unwrap_or_default()).or_default();
        match &*status {
            "Downloading" if total > 0 => *layer = (current.unwrap_or(0), total),
            "Download complete" | "Pull complete" => layer.0 = layer.1,
            _ => {}
        }
        let sum = |sum: (u64, u64), layer: &(u64, u64)| (sum.0 + layer.0, sum.1 + layer.1);
        let bytes = self.0.values().fold((0, 0), sum);
        TransferLine { status, bytes }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layers_add_up() {
        let mut layers = Layers::default();
        for (id, status, detail, expected) in [
            (
                "a",
                "Downloading",
                json!({"current": 5, "total": 10}),
                (5, 10),
            ),
            (
                "b",
                "Downloading",
                json!({"current": 1, "total": 90}),
                (6, 100),
            ),
            ("a", "Download complete", json!({}), (11, 100)),
        ] {
            let line = json!({"id": id, "status": status, "progressDetail": detail});
            let line = layers.advance(serde_json::from_value(line).unwrap());
            assert_eq!((&*line.status, line.bytes), (status, expected));
        }
    }
}
