//! The progress of a pull.

use std::collections::BTreeMap;

use bollard::models::CreateImageInfo;

/// The downloaded and the total bytes of each layer.
#[derive(Default)]
pub(super) struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Applies a line of the engine's output. Returns the downloaded and the known total bytes.
    pub(super) fn advance(&mut self, line: &CreateImageInfo) -> (u64, u64) {
        let bytes = |count: Option<i64>| count.and_then(|bytes| u64::try_from(bytes).ok());
        let detail = line.progress_detail.as_ref();
        let total = detail.and_then(|detail| bytes(detail.total)).unwrap_or(0);
        let layer = self.0.entry(line.id.clone().unwrap_or_default());
        let layer = layer.or_default();
        match line.status.as_deref() {
            Some("Downloading") if total > 0 => {
                let current = detail.and_then(|detail| bytes(detail.current));
                *layer = (current.unwrap_or(0), total);
            }
            Some("Download complete" | "Pull complete") => layer.0 = layer.1,
            _ => {}
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
        let line = |json| serde_json::from_str::<CreateImageInfo>(json).unwrap();
        let mut layers = Layers::default();
        for (text, expected) in [
            (
                r#"{"status":"Downloading","id":"a","progressDetail":{"current":5,"total":10}}"#,
                (5, 10),
            ),
            (
                r#"{"status":"Downloading","id":"b","progressDetail":{"current":1,"total":90}}"#,
                (6, 100),
            ),
            (
                r#"{"status":"Download complete","id":"a","progressDetail":{}}"#,
                (11, 100),
            ),
        ] {
            assert_eq!(layers.advance(&line(text)), expected);
        }
    }
}
