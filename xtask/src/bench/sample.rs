//! Two servers under the same load, in turns, so that what else the machine does meets both.

use serde_json::Value;

/// Rounds of A B B A.
const ROUNDS: usize = 4;

/// One figure of both.
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

impl Pairs {
    /// Returns one figure of both.
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

/// Returns a figure that the load has measured.
pub(super) fn figure(measured: &Value, field: &str) -> f64 {
    measured[field].as_f64().unwrap_or(f64::NAN)
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
        let sample = pairs.unwrap().sample("x");
        assert_eq!((sample.ours, sample.floor, sample.ratio), (3.0, 1.5, 2.0));
    }
}
