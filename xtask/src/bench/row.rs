//! The table of what was measured.

use anyhow::bail;

use super::sample::Sample;

/// What a figure is to be.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Nothing in particular.
    Any,
}

impl Limit {
    /// Reads `at most 2`, `at least 0.5` or nothing.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let limit = |prefix| text.strip_prefix(prefix).map(str::parse::<f64>);
        Ok(match (limit("at most "), limit("at least ")) {
            (Some(most), _) => Self::AtMost(most?),
            (_, Some(least)) => Self::AtLeast(least?),
            _ if text.is_empty() => Self::Any,
            _ => bail!("not a limit: {text}"),
        })
    }

    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Any => true,
        }
    }

    fn shown(self, unit: &str) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}{unit}"),
            Self::AtLeast(least) => format!("at least {least}{unit}"),
            Self::Any => String::new(),
        }
    }
}

/// One line of the table.
pub(super) struct Row {
    cells: [String; 6],
    is_good: bool,
}

impl Row {
    /// A figure of ours and its limit, beside that of a floor where there is one.
    pub(super) fn absolute(work: &str, ours: f64, floor: Option<f64>, limit: Limit) -> Self {
        let ratio = floor.map(|floor| format!("{:.2}", ours / floor));
        let floor = floor.map(shown);
        let cells = [Some(shown(ours)), floor, ratio, None, Some(limit.shown(""))];
        Self::new(work, cells, limit.holds(ours))
    }

    /// A figure of ours as a ratio to that of another, with how long the slowest hundredth took of
    /// both at least, in µs.
    pub(super) fn relative(
        work: &str,
        sample: &Sample,
        p99: Option<Sample>,
        beside: &str,
        limit: Limit,
    ) -> Self {
        let p99 = p99.map(|p99| format!("{:.0} / {:.0}", p99.ours, p99.floor));
        let cells = [
            Some(shown(sample.ours)),
            Some(format!("{} ({beside})", shown(sample.floor))),
            Some(format!("{:.2}", sample.ratio)),
            p99,
            Some(limit.shown(&format!(" × {beside}"))),
        ];
        Self::new(work, cells, limit.holds(sample.ratio))
    }

    fn new(work: &str, cells: [Option<String>; 5], is_good: bool) -> Self {
        let [ours, floor, ratio, p99, target] = cells.map(Option::unwrap_or_default);
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
        // Of what has no target, nothing can be said.
        let verdict = match (target.is_empty(), self.is_good) {
            (true, _) => "",
            (false, true) => "ok",
            (false, false) => "MISSED",
        };
        [work, ours, floor, ratio, p99, target, verdict.to_owned()]
    }
}

/// Returns the names of the columns.
pub(super) fn heading() -> [String; 7] {
    ["work", "ours", "floor", "ratio", "p99 µs", "target", ""].map(str::to_owned)
}

fn shown(figure: f64) -> String {
    let digits = usize::from(figure < 100.0);
    format!("{figure:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_whether_its_limit_holds() {
        let sample = Sample {
            ours: 3.0,
            floor: 150.0,
            ratio: 2.0,
        };
        let row = |limit| {
            Row::relative("work", &sample, None, "hyper", limit)
                .cells()
                .join("|")
        };
        let most = row(Limit::AtMost(1.9));
        assert_eq!(
            most,
            "work|3.0|150 (hyper)|2.00||at most 1.9 × hyper|MISSED"
        );
        assert!(row(Limit::AtLeast(2.0)).ends_with("at least 2 × hyper|ok"));
        assert!(row(Limit::Any).ends_with("2.00|||"));
        let row = Row::absolute("work", 9.0, None, Limit::AtMost(10.0));
        assert_eq!(row.cells().join("|"), "work|9.0||||at most 10|ok");
    }
}
