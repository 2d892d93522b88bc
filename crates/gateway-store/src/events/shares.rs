//! The events that go first when there are too many: the oldest of the principals with the most, so that no principal can
//! push out what others have done.

use std::collections::HashMap;

/// The number of events of each principal. Events without a principal, such as the gateway's own, are together.
pub(super) type Shares = HashMap<Option<Box<str>>, u64>;

/// Returns how many of the oldest events of which principals to remove, so that `excess` go: all of them keep at most
/// the same number.
pub(super) fn surplus(shares: &Shares, excess: u64) -> Vec<(Option<Box<str>>, u64)> {
    let mut sorted: Vec<(&Option<Box<str>>, u64)> = shares
        .iter()
        .map(|(principal, rows)| (principal, *rows))
        .collect();
    sorted.sort_unstable_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    let (mut sum, mut level) = (0_u64, 0);
    for (at, (_, rows)) in sorted.iter().enumerate() {
        sum = sum.saturating_add(*rows);
        level = sum.saturating_sub(excess) / (at as u64 + 1);
        if sorted.get(at + 1).is_none_or(|(_, next)| *next <= level) {
            break;
        }
    }
    let mut left = excess;
    let mut found = Vec::new();
    for (principal, rows) in sorted {
        let removed = rows.saturating_sub(level).min(left);
        if removed > 0 {
            found.push((principal.clone(), removed));
            left -= removed;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_with_the_most_events_lose_theirs() {
        for (shares, excess, expected) in [
            (vec![("a", 1), ("m", 100)], 10, vec![("m", 10)]),
            (
                vec![("a", 10), ("b", 20), ("m", 22)],
                6,
                vec![("b", 2), ("m", 4)],
            ),
            (vec![("a", 5), ("b", 5)], 4, vec![("a", 2), ("b", 2)]),
            (vec![("a", 5), ("b", 3)], 100, vec![("a", 5), ("b", 3)]),
            (vec![("a", 5)], 0, vec![]),
            (vec![], 5, vec![]),
        ] {
            let shares: Shares = shares
                .iter()
                .map(|(name, rows)| (Some((*name).into()), *rows))
                .collect();
            let mut found = surplus(&shares, excess);
            found.sort();
            let expected: Vec<_> = expected
                .iter()
                .map(|(name, rows)| (Some((*name).into()), *rows))
                .collect();
            assert_eq!(found, expected);
        }
        let one: Shares = (0..7).map(|n| (Some(n.to_string().into()), 10)).collect();
        let removed: u64 = surplus(&one, 3).iter().map(|(_, rows)| rows).sum();
        assert_eq!(removed, 3);
    }
}
