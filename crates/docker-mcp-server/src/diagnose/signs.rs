//! Signs of known problems in a log, and the line that tells most.

use std::sync::LazyLock;

use super::table::{Row, has};

/// The line of a log that tells most about a problem.
#[derive(Clone, Copy)]
pub(super) struct TellingLine<'a> {
    pub(super) line: &'a str,
    pub(super) sign: Option<&'static Row>,
}

static SIGNS: LazyLock<Vec<Row>> = LazyLock::new(|| Row::parse(include_str!("signs.txt")));
const SEVERE: &str =
    "fatal*|panic*|*error*|*exception*|critical|caused by|failed|cannot|unable|abort*";
const HARMLESS: &str = "*warn*|deprecat*|notice";

/// The line that tells most: one with a known sign before one that only sounds severe, no warning, no frame of a
/// stack; among equals the latest.
pub(super) fn telling_line(log: &str) -> Option<TellingLine<'_>> {
    let lines = log.lines().filter(|line| !line.trim().is_empty());
    let is_frame =
        |line: &str| line.starts_with([' ', '\t', '}', ']']) || line.starts_with("goroutine ");
    let last = lines.clone().rfind(|line| !is_frame(line));
    let scored = lines.map(|line| {
        let lower = line.to_lowercase();
        let sign = SIGNS.iter().find(|sign| sign.matches(&lower));
        let begin = lower.get(..lower.floor_char_boundary(60));
        let weights = [
            (sign.is_some(), 3),
            (has(&lower, SEVERE), 2),
            (lower.starts_with("caused by"), 2),
            (last == Some(line), 1),
            (has(begin.unwrap_or_default(), HARMLESS), -4),
            (is_frame(line), -3),
        ];
        let score: i32 = weights
            .iter()
            .filter(|weight| weight.0)
            .map(|weight| weight.1)
            .sum();
        let line = line.trim();
        (
            score,
            TellingLine {
                line,
                sign: sign.filter(|_| score > 0),
            },
        )
    });
    Some(scored.max_by_key(|(score, _)| *score)?.1)
}

#[cfg(test)]
mod tests {
    use super::super::finding::parsed;
    use super::*;

    /// Lines of real programs; `none` if the line has no known sign.
    #[test]
    fn lines_of_real_programs_are_not_misread() {
        for row in include_str!("signs_lines.txt").lines() {
            let (cause, line) = row.split_once(" | ").unwrap();
            let found = telling_line(line).unwrap().sign.map(|sign| sign.cause);
            assert_eq!(found, parsed(cause), "{line}");
        }
    }

    #[test]
    fn telling_line_is_found_among_others() {
        let frames = "    at a.b.C.d(C.java:1)\n".repeat(30);
        for row in include_str!("signs_cases.txt").lines() {
            let [cause, part, log] = row.splitn(3, " | ").collect::<Vec<_>>().try_into().unwrap();
            let log = log.replace("\\n", "\n").replace("FRAMES\n", &frames);
            let telling = telling_line(&log).unwrap();
            let found = telling.sign.map(|sign| sign.cause);
            assert_eq!(found, parsed(cause), "{log}");
            assert!(telling.line.contains(part), "{}", telling.line);
        }
        assert!(telling_line(" \n").is_none());
    }
}
