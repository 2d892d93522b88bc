//! What the engine says while it works on an image: `POST /images/create`, `POST /build`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One line of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    /// Of a pull: what is done now.
    pub(super) status: String,
    /// Of a pull: the layer.
    id: String,
    #[serde(rename = "progressDetail")]
    detail: Detail,
    /// Of a build: output.
    pub(super) stream: String,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// Of a build: the image.
    pub(super) aux: Option<Aux>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    current: u64,
    total: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Aux {
    #[serde(rename = "ID")]
    pub(super) id: String,
}

/// How far all layers of a pull are, in bytes.
#[derive(Default)]
pub(super) struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Takes a line into account: what there is now, and what there will be as far as is known.
    pub(super) fn advance(&mut self, line: &Line) -> (u64, u64) {
        let layer = self.0.entry(line.id.clone()).or_default();
        if line.detail.total > 0 && line.status == "Downloading" {
            *layer = (line.detail.current, line.detail.total);
        } else if line.status == "Download complete" || line.status == "Pull complete" {
            layer.0 = layer.1;
        }
        let sum = |sum: (u64, u64), layer: &(u64, u64)| (sum.0 + layer.0, sum.1 + layer.1);
        self.0.values().fold((0, 0), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_add_up() {
        let line = |json| serde_json::from_str::<Line>(json).unwrap();
        let mut layers = Layers::default();
        let first =
            r#"{"status":"Downloading","id":"a","progressDetail":{"current":5,"total":10}}"#;
        assert_eq!(layers.advance(&line(first)), (5, 10));
        let second =
            r#"{"status":"Downloading","id":"b","progressDetail":{"current":1,"total":90}}"#;
        assert_eq!(layers.advance(&line(second)), (6, 100));
        let done = r#"{"status":"Download complete","id":"a","progressDetail":{}}"#;
        assert_eq!(layers.advance(&line(done)), (11, 100));
    }
}
