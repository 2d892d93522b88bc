//! Parses a duration in a configuration file.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

/// A duration: seconds as a number, or a text like `500ms`, `30s`, `5m`, `2h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConfigDuration(pub(super) Duration);

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Seconds(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duration = match NumberOrText::deserialize(deserializer) {
            Ok(NumberOrText::Seconds(seconds)) => Duration::try_from_secs_f64(seconds).ok(),
            Ok(NumberOrText::Text(text)) => upstream::time::parse_duration(&text),
            Err(_) => None,
        };
        duration.map(Self).ok_or_else(|| {
            D::Error::custom(
                "expected seconds, or a string like \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"",
            )
        })
    }
}
