//! Writes the command line of the load program.

const NAMES: &str = include_str!("load.txt");

/// Returns the arguments of a line with names of `load.txt`. `BATCH` stands for ten echoes, and `SIZE`
/// for the path with the size of a response.
pub(super) fn args(line: &str, size: usize) -> Vec<String> {
    let options = |word| match meaning(word) {
        Some(options) if word.chars().all(|c| !c.is_ascii_uppercase()) => options,
        _ => word,
    };
    let words = line.split_whitespace().map(options);
    let words = words.flat_map(str::split_whitespace);
    let arg = |word| match word {
        "BATCH" => format!("[{}]", [meaning("ECHO").unwrap_or_default(); 10].join(",")),
        "SIZE" => format!("/{size}"),
        word => meaning(word).unwrap_or(word).to_owned(),
    };
    words.map(arg).collect()
}

fn meaning(name: &str) -> Option<&'static str> {
    let mut lines = NAMES.lines().filter_map(|line| line.split_once('='));
    let found = lines.find(|(other, _)| other.trim() == name);
    found.map(|(_, meaning)| meaning.trim())
}
