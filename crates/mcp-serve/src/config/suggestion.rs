//! Names that a mistaken one may stand for.

/// The most similar name, or all names if none is, as the end of a message.
pub(super) fn suggestion<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    let similar = names.iter().map(|known| (strsim::jaro(name, known), known));
    let nearest = similar.max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest.filter(|(similarity, _)| *similarity > 0.7) {
        Some((_, nearest)) => format!("; did you mean {nearest:?}?"),
        None => format!("; there are: {}", names.join(", ")),
    }
}
