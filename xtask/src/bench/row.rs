//! The rows of the table, and the figures of two servers under the same load.

use anyhow::bail;
use serde_json::Value;

/// Rounds of measurements in the order A B B A: 12 pairs.
const MEASUREMENT_ROUNDS: usize = 6;

/// The spread of the floor, relative to its median, above which the machine has other work and a figure tells nothing.
const MAX_FLOOR_SPREAD: f64 = 0.1;

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

    fn judge(self, value: f64) -> Verdict {
        let holds = match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::None => return Verdict::None,
        };
        match holds {
            true => Verdict::Good,
            false => Verdict::Missed,
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
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    None,
    Good,
    Missed,
    /// The floor has moved.
    Unknown,
    /// A server could not be started, or did not answer.
    Unmeasured,
}

impl Row {
    /// Creates a row with a figure of ours and its limit, and that of the floor if there is one.
    pub(super) fn absolute(work: &str, ours: f64, floor: Option<f64>, limit: Limit) -> Self {
        let ratio = floor.map_or_else(String::new, |floor| format!("{:.2}", ours / floor));
        let floor = floor.map_or_else(String::new, shown);
        let cells = [shown(ours), floor, ratio, String::new(), limit.shown("")];
        Self::new(work, cells, limit.judge(ours))
    }

    /// Creates a row with the median of ours and its limit, beside that of the floor.
    pub(super) fn sampled(work: &str, sample: &Sample, limit: Limit) -> Self {
        let cells = [
            shown(sample.ours),
            shown(sample.floor),
            sample.shown_ratio(),
            String::new(),
            limit.shown(""),
        ];
        Self::new(work, cells, sample.judge(limit, sample.ours))
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
            sample.shown_ratio(),
            p99.unwrap_or_default(),
            limit.shown(&format!(" × {other}")),
        ];
        Self::new(work, cells, sample.judge(limit, sample.ratio))
    }

    /// Creates a row without figures.
    pub(super) fn unmeasured(work: &str) -> Self {
        Self::new(work, Default::default(), Verdict::Unmeasured)
    }

    fn new(work: &str, [ours, floor, ratio, p99, target]: [String; 5], verdict: Verdict) -> Self {
        Self {
            cells: [work.to_owned(), ours, floor, ratio, p99, target],
            verdict,
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        self.verdict == Verdict::Missed
    }

    pub(super) fn cells(&self) -> [String; 7] {
        let [work, ours, floor, ratio, p99, target] = self.cells.clone();
        let verdict = match self.verdict {
            Verdict::None => "",
            Verdict::Good => "ok",
            Verdict::Missed => "MISSED",
            Verdict::Unknown => "unknown: the floor moved",
            Verdict::Unmeasured => "not measured",
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
    /// The spread of these ratios.
    ratio_spread: f64,
    /// The spread of the floor.
    floor_spread: f64,
}

impl Sample {
    fn shown_ratio(&self) -> String {
        format!("{:.2} ±{:.0} %", self.ratio, self.ratio_spread * 100.0)
    }

    fn judge(&self, limit: Limit, value: f64) -> Verdict {
        match limit.judge(value) {
            Verdict::None => Verdict::None,
            _ if self.floor_spread > MAX_FLOOR_SPREAD => Verdict::Unknown,
            verdict => verdict,
        }
    }
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
        let ratios: Vec<f64> = ratios.collect();
        Sample {
            ratio_spread: spread(&ratios),
            floor_spread: spread(&floor),
            ratio: median(ratios),
            ours: median(ours),
            floor: median(floor),
        }
    }
}

pub(super) fn figure(measured: &Value, field: &str) -> f64 {
    measured[field].as_f64().unwrap_or(f64::NAN)
}

/// Returns half of the distance between the quartiles, relative to the median: half of all values are no farther
/// from the middle.
fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarter = sorted.len() / 4;
    let distance = sorted[sorted.len() - 1 - quarter] - sorted[quarter];
    distance / 2.0 / median(sorted)
}

/// Returns the middle value, or the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
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
            ratio_spread: 0.03,
            floor_spread: 0.1,
        };
        let relative = |limit| Row::relative("work", &sample, None, "hyper", limit);
        let row = |limit| relative(limit).cells().join("|");
        assert_eq!(
            row(Limit::AtMost(1.9)),
            "work|3.0|150 (hyper)|2.00 ±3 %||at most 1.9 × hyper|MISSED"
        );
        assert!(row(Limit::AtLeast(2.0)).ends_with("at least 2 × hyper|ok"));
        assert!(row(Limit::None).ends_with("2.00 ±3 %|||"));
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
        // The ratio is always the same; the floor is not.
        assert_eq!(sample.ratio_spread, 0.0);
        assert!(sample.floor_spread > MAX_FLOOR_SPREAD);
        let row = Row::relative("work", &sample, None, "hyper", Limit::AtMost(1.0));
        assert!(!row.is_missed());
        assert!(row.cells().join("|").ends_with("|unknown: the floor moved"));
        let row = Row::sampled("work", &sample, Limit::AtLeast(4.0));
        assert_eq!(row.cells()[3], "2.00 ±0 %");
        assert!(!row.is_missed());
    }
}
