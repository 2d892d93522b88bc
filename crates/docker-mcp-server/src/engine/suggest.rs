//! Suggestions for a name that does not exist.

/// Up to three of `names` that are most similar to `name`, in backticks, best first.
pub(super) fn nearest(name: &str, names: &[String]) -> Vec<String> {
    let wanted = name.to_ascii_lowercase();
    let mut scored: Vec<(f64, &String)> = names
        .iter()
        .map(|known| {
            let lower = known.to_ascii_lowercase();
            // People often type only the service's name of `project-service-1`.
            let contained = lower.contains(&wanted) || wanted.contains(&lower);
            let bonus = if contained { 1.0 } else { 0.0 };
            (bonus + strsim::jaro_winkler(&wanted, &lower), known)
        })
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then(left.cmp(right)));
    let near = scored.into_iter().take(3);
    near.map(|(_, known)| format!("`{known}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_suggested() {
        let names = ["shop-web-1", "shop-db-1", "redis", "a-very-different-one"].map(String::from);
        assert_eq!(nearest("web", &names), ["`shop-web-1`"]);
        assert_eq!(nearest("rediss", &names), ["`redis`"]);
        assert_eq!(nearest("shop-db", &names)[0], "`shop-db-1`");
        assert!(nearest("zzz", &names).is_empty());
    }
}
