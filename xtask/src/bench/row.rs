//! The rows of the table, and the figures of two servers under the same load.

use anyhow::bail;
use serde_json::Value;

/// Rounds of measurements in the order A B B A.
const MEASUREMENT_ROUNDS: usize = 4;

/// The target of a figure.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Limit {
    /// Parses `at most 2`, `at least 0.5` or nothing.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let limit = |prefix| text.strip_prefix(prefix).map(str::parse);
        Ok(match (limit("at most "), limit("at least ")) {
            (Some(most), _) => Self::AtMost(most?),
            (_, Some(least)) => Self::AtLeast(least?),
            _ if text.is_empty() => Self::None,
            _ => bail!("not a limit: {text}"),
        })
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::None => true,
        }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}{unit}"),
            Self::AtLeast(least) => format!("at least {least}{unit}"),
            Self::None => String::new(),
        }
    }
}

pub(super) struct Row {
    cells: [String; 6],
    is_good: bool,
}

impl Row {
    /// Creates a row with a figure of ours and its limit, and that of the floor if there is one.
    pub(super) fn absolute(work: &str, ours: f64, floor: Option<f64>, limit: Limit) -> Self {
        let ratio = floor.map_or_else(String::new, |floor| format!("{:.2}", ours / floor));
        let floor = floor.map_or_else(String::new, shown);
        let cells = [shown(ours), floor, ratio, String::new(), limit.shown("")];
        Self::new(work, cells, limit.holds(ours))
    }

    /// Creates a row with the ratio of both figures, and the 99th percentiles of both in µs.
    pub(super) fn relative(
        work: &str,
        sample: &Sample,
        p99: Option<Sample>,
        other: &str,
        limit: Limit,
    ) -> Self {
        let p99 = p99.map(|p99| format!("{:.0} / {:.0}", p99.ours, p99.floor));
        let cells = [
            shown(sample.ours),
            format!("{} ({other})", shown(sample.floor)),
            format!("{:.2}", sample.ratio),
            p99.unwrap_or_default(),
            limit.shown(&format!(" × {other}")),
        ];
        Self::new(work, cells, limit.holds(sample.ratio))
    }

    fn new(work: &str, [ours, floor, ratio, p99, target]: [String; 5], is_good: bool) -> Self {
        Self {
            cells: [work.to_owned(), ours, floor, ratio, p99, target],
            is_good,
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        !self.is_good
    }

    pub(super) fn cells(&self) -> [String; 7] {
        let [work, ours, floor, ratio, p99, target] = self.cells.clone();
        let verdict = match (target.is_empty(), self.is_good) {
            (true, _) => "",
            (false, true) => "ok",
            (false, false) => "MISSED",
        };
        [work, ours, floor, ratio, p99, target, verdict.to_owned()]
    }
}

pub(super) fn heading() -> [String; 7] {
    ["work", "ours", "floor", "ratio", "p99 µs", "target", ""].map(str::to_owned)
}

fn shown(figure: f64) -> String {
    let digits = usize::from(figure < 100.0);
    format!("{figure:.digits$}")
}

/// One figure of both servers.
pub(super) struct Sample {
    pub(super) ours: f64,
    pub(super) floor: f64,
    /// The median of the ratios of neighbours.
    pub(super) ratio: f64,
}

/// The measurements: of ours, and of the other server right before or after.
pub(super) struct Pairs(Vec<(Value, Value)>);

/// Measures both in turns, so that other work on the machine affects both.
pub(super) fn compare(
    mut ours: impl FnMut() -> anyhow::Result<Value>,
    mut floor: impl FnMut() -> anyhow::Result<Value>,
) -> anyhow::Result<Pairs> {
    let mut pairs = Vec::new();
    for _ in 0..MEASUREMENT_ROUNDS {
        pairs.push((ours()?, floor()?));
        let floor = floor()?;
        pairs.push((ours()?, floor));
    }
    Ok(Pairs(pairs))
}

impl Pairs {
    pub(super) fn sample(&self, field: &str) -> Sample {
        let both = self.0.iter();
        let both = both.map(|(ours, floor)| (figure(ours, field), figure(floor, field)));
        let (ours, floor): (Vec<_>, Vec<_>) = both.unzip();
        let ratios = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor);
        Sample {
            ratio: median(ratios.collect()),
            ours: median(ours),
            floor: median(floor),
        }
    }
}

pub(super) fn figure(measured: &Value, field: &str) -> f64 {
    measured[field].as_f64().unwrap_or(f64::NAN)
}

/// Returns the middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_shows_whether_its_limit_holds() {
        let sample = Sample {
            ours: 3.0,
            floor: 150.0,
            ratio: 2.0,
        };
        let relative = |limit| Row::relative("work", &sample, None, "hyper", limit);
        let row = |limit| relative(limit).cells().join("|");
        assert_eq!(
            row(Limit::AtMost(1.9)),
            "work|3.0|150 (hyper)|2.00||at most 1.9 × hyper|MISSED"
        );
        assert!(row(Limit::AtLeast(2.0)).ends_with("at least 2 × hyper|ok"));
        assert!(row(Limit::None).ends_with("2.00|||"));
        let row = Row::absolute("work", 9.0, None, Limit::AtMost(10.0));
        assert_eq!(row.cells().join("|"), "work|9.0||||at most 10|ok");
    }

    #[test]
    fn the_ratio_is_of_neighbours() {
        let mut slow = [2.0, 20.0, 4.0, 2.0].iter().cycle();
        let mut fast = [1.0, 10.0, 2.0, 1.0].iter().cycle();
        let pairs = compare(
            || Ok(json!({"x": slow.next()})),
            || Ok(json!({"x": fast.next()})),
        );
        let sample = pairs.unwrap().sample("x");
        assert_eq!((sample.ours, sample.floor, sample.ratio), (3.0, 1.5, 2.0));
    }
}
