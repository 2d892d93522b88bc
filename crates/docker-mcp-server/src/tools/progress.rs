//! How far the engine is with a pull.

use std::collections::BTreeMap;

use bollard::models::CreateImageInfo;

/// How far all layers of a pull are, in bytes.
#[derive(Default)]
pub(super) struct Layers(BTreeMap<String, (u64, u64)>);

impl Layers {
    /// Takes a line into account: what there is now, and what there will be as far as is known.
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
