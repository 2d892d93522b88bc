//! Names that a mistaken one may stand for.

/// The most similar name, or all names if none is, as the end of a message.
pub fn suggestion<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(name, names.iter().copied()).first() {
        Some(nearest) => format!("; did you mean {nearest:?}?"),
        None if names.is_empty() => "; there are none".to_owned(),
        None => format!("; there are: {}", names.join(", ")),
    }
}

/// The names that are similar to `name`, best first.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_ascii_lowercase();
    let score = |known: &'a str| {
        let lower = known.to_ascii_lowercase();
        // Of three bytes at least: one letter is in most names. People often type only the service's name of
        // `project-service-1`.
        let is_part = |part: &str, whole: &str| part.len() > 2 && whole.contains(part);
        let bonus = f64::from(is_part(&wanted, &lower) || is_part(&lower, &wanted));
        (bonus + strsim::jaro_winkler(&wanted, &lower), known)
    };
    let mut scored: Vec<_> = names.map(score).collect();
    scored.retain(|(score, _)| *score > 0.75);
    scored.sort_by(|(a, left), (b, right)| b.total_cmp(a).then(left.cmp(right)));
    scored.into_iter().map(|(_, known)| known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_are_suggested() {
        let names = ["shop-web-1", "shop-db-1", "redis", "a-very-different-one"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("web"), ["shop-web-1"]);
        assert_eq!(nearest("rediss"), ["redis"]);
        assert_eq!(nearest("shop-db")[0], "shop-db-1");
        let tools = ["docker__list_images", "docker__list_containers"];
        let nearest_tool = super::nearest("list_containers", tools.into_iter());
        assert_eq!(nearest_tool[0], "docker__list_containers");
        for none in ["zzz", "b", ""] {
            assert_eq!(nearest(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn all_names_are_told_if_none_is_similar() {
        let told = |name| suggestion(name, ["port", "host"].into_iter());
        assert_eq!(told("prot"), "; did you mean \"port\"?");
        assert_eq!(told("xyz"), "; there are: port, host");
        assert_eq!(suggestion("xyz", [].into_iter()), "; there are none");
    }
}
