//! Lines and durations of a TOML file.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use toml::de::DeTable;

/// The line of a field, counted from 1; that of what holds it where it is not there.
pub(super) fn line_of(text: &str, field: &[String]) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let mut table = Some(file.get_ref());
    let mut at = None;
    for part in field {
        let found = table?.iter().find(|(key, _)| *key.get_ref() == *part);
        let Some((key, value)) = found else { break };
        at = Some(key.span().start);
        table = value.get_ref().as_table();
    }
    at.map(|at| line_at(text, at))
}

/// The line of a byte, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// A duration: seconds as a number, or a text like `500ms`, `30s`, `5m`, `2h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

const WANTED: &str = "seconds, or a text like \"500ms\", \"30s\", \"5m\", \"2h\" or \"7d\"";

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (count, unit) = text.split_at(digits);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let count: u64 = count.parse().ok()?;
        count
            .checked_mul(millis)
            .map(Duration::from_millis)
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Span, E> {
        let seconds =
            u64::try_from(seconds).map_err(|_| E::custom(format!("expected {WANTED}")))?;
        Ok(Span(Duration::from_secs(seconds)))
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Span, E> {
        let span = Duration::try_from_secs_f64(seconds).map(Span);
        span.map_err(|_| E::custom(format!("expected {WANTED}")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
        Span::parse(text).ok_or_else(|| E::custom(format!("expected {WANTED}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("0s", 0),
            ("30s", 30_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(Span::parse(text), Some(Span(Duration::from_millis(millis))));
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 s",
            "5S",
            "99999999999999999999s",
            "9999999999999999999d",
        ] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_field_is_found_in_its_line() {
        let text = "a = 1\n\n[b.c]\nd = { e = 2 }\n[b.\"x y\"]\n";
        let line = |field: &str| {
            let field: Vec<String> = field.split('.').map(str::to_owned).collect();
            line_of(text, &field)
        };
        assert_eq!(line("a"), Some(1));
        assert_eq!(line("b.c"), Some(3));
        assert_eq!(line("b.c.d.e"), Some(4));
        assert_eq!(line("b.c.missing"), Some(3));
        assert_eq!(line("b.x y.z"), Some(5));
        assert_eq!(line("missing"), None);
    }
}
