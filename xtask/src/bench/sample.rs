//! Two servers under the same load, in turns, so that what else the machine does meets both; and the
//! table of what came of it.

use serde_json::Value;

/// Rounds of A B B A.
const ROUNDS: usize = 4;

/// What was measured of both.
pub(super) struct Sample {
    pub(super) ours: f64,
    pub(super) floor: f64,
    /// The median of the ratios of neighbours.
    pub(super) ratio: f64,
}

/// What the load has measured: of ours, and of the other right before or after.
pub(super) struct Pairs(Vec<(Value, Value)>);

/// Measures both.
pub(super) fn compare(
    mut ours: impl FnMut() -> anyhow::Result<Value>,
    mut floor: impl FnMut() -> anyhow::Result<Value>,
) -> anyhow::Result<Pairs> {
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        pairs.push((ours()?, floor()?));
        let floor = floor()?;
        pairs.push((ours()?, floor));
    }
    Ok(Pairs(pairs))
}

/// What a ratio is to be.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Nothing in particular.
    None,
}

/// A figure that the load has measured, as it stands in the table.
pub(super) struct Figure<'a> {
    pub(super) work: &'a str,
    /// Its name in what the load has measured.
    pub(super) field: &'a str,
    /// Digits after the point.
    pub(super) digits: usize,
    /// What it is compared with.
    pub(super) beside: &'a str,
    pub(super) limit: Limit,
}

impl Pairs {
    /// Returns one figure of both.
    pub(super) fn sample(&self, field: &str) -> Sample {
        let of = |measured: &Value| measured[field].as_f64().unwrap_or(f64::NAN);
        let both = self.0.iter().map(|(ours, floor)| (of(ours), of(floor)));
        let (ours, floor): (Vec<_>, Vec<_>) = both.unzip();
        let ratios = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor);
        Sample {
            ratio: median(ratios.collect()),
            ours: median(ours),
            floor: median(floor),
        }
    }

    /// Returns the line about a figure, with how long the slowest hundredth took at least.
    pub(super) fn row(&self, figure: &Figure<'_>) -> Row {
        let Figure {
            work,
            field,
            digits,
            beside,
            limit,
        } = figure;
        let sample = self.sample(field);
        let shown = |limit: &f64| (limit * 100.0).round() / 100.0;
        let (target, is_good) = match limit {
            Limit::AtMost(most) => (
                format!("at most {} × {beside}", shown(most)),
                sample.ratio <= *most,
            ),
            Limit::AtLeast(least) => (
                format!("at least {} × {beside}", shown(least)),
                sample.ratio >= *least,
            ),
            Limit::None => (String::new(), true),
        };
        let slowest = self.sample("p99_us");
        let is_shown = !matches!(limit, Limit::None) && *field != "p99_us";
        let p99 = is_shown.then(|| format!("{:.0} / {:.0}", slowest.ours, slowest.floor));
        Row {
            floor: format!("{:.digits$} ({beside})", sample.floor),
            ratio: format!("{:.2}", sample.ratio),
            p99: p99.unwrap_or_default(),
            ..Row::new(work, &format!("{:.digits$}", sample.ours), &target, is_good)
        }
    }
}

/// Returns the middle one; of two, the middle between them.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

/// One line of the table.
pub(super) struct Row {
    work: String,
    ours: String,
    floor: String,
    ratio: String,
    p99: String,
    target: String,
    is_good: bool,
}

impl Row {
    /// What is compared with nothing, or only its target.
    pub(super) fn new(work: &str, ours: &str, target: &str, is_good: bool) -> Self {
        Self {
            work: work.to_owned(),
            ours: ours.to_owned(),
            floor: String::new(),
            ratio: String::new(),
            p99: String::new(),
            target: target.to_owned(),
            is_good,
        }
    }

    /// The same beside the floor.
    pub(super) fn beside(self, floor: String, ratio: f64) -> Self {
        Self {
            floor,
            ratio: format!("{ratio:.2}"),
            ..self
        }
    }

    pub(super) fn is_missed(&self) -> bool {
        !self.is_good
    }

    pub(super) fn cells(&self) -> [String; 7] {
        // Of what has no target, nothing can be said.
        let verdict = match (self.target.is_empty(), self.is_good) {
            (true, _) => "",
            (false, true) => "ok",
            (false, false) => "MISSED",
        };
        let Self {
            work,
            ours,
            floor,
            ratio,
            p99,
            target,
            ..
        } = self;
        [work, ours, floor, ratio, p99, target, verdict].map(str::to_owned)
    }
}

pub(super) fn heading() -> [String; 7] {
    ["work", "ours", "floor", "ratio", "p99 µs", "target", ""].map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_ratio_is_of_neighbours() {
        let mut slow = [2.0, 20.0, 4.0, 2.0].iter().cycle();
        let mut fast = [1.0, 10.0, 2.0, 1.0].iter().cycle();
        let pairs = compare(
            || Ok(json!({"x": slow.next()})),
            || Ok(json!({"x": fast.next()})),
        );
        let pairs = pairs.unwrap();
        let sample = pairs.sample("x");
        assert_eq!((sample.ours, sample.floor, sample.ratio), (3.0, 1.5, 2.0));
        let row = |limit| {
            let (work, field, beside) = ("work", "x", "hyper");
            let row = pairs.row(&Figure {
                work,
                field,
                digits: 1,
                beside,
                limit,
            });
            row.cells()[5..].join(" ")
        };
        assert_eq!(row(Limit::AtMost(1.9)), "at most 1.9 × hyper MISSED");
        assert_eq!(row(Limit::AtLeast(2.0)), "at least 2 × hyper ok");
        assert_eq!(row(Limit::None), " ");
    }
}
