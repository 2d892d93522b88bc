//! Findings, the possible problems of a container, and the signs of known problems in a log.
//!
//! Tables of phrases have the problem that each means: `signs.txt` and `messages.txt`. A phrase matches whole words:
//! `enfile` is not a part of `tokenfile`. With `*` at its begin or end it also matches there within a word.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};

/// Why a container is in the state that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// It used more memory than its limit.
    OomKilled,
    /// SIGKILL from outside of it.
    Killed,
    /// It was stopped on request.
    Stopped,
    /// The application ended with an error of its own.
    AppError,
    /// The application crashed with a signal.
    Crashed,
    CommandNotFound,
    NotExecutable,
    PortTaken,
    BindSourceMissing,
    /// A directory where a file is expected, or the reverse.
    MountMismatch,
    MissingLibrary,
    /// The image is for another CPU or system.
    WrongPlatform,
    NetworkMissing,
    /// The container whose network it uses does not run.
    NetworkOwnerGone,
    NameResolution,
    /// Another service refused, or did not answer.
    PeerUnreachable,
    AuthenticationFailed,
    DiskFull,
    HeapExhausted,
    /// Of processes and threads.
    PidsLimit,
    OpenFilesLimit,
    /// Nothing listens on a published port, or only on 127.0.0.1.
    NotListening,
    /// The engine does not answer about this container.
    Stuck,
    /// It ends and is restarted, again and again.
    CrashLoop,
    Unhealthy,
    /// Its log cannot be read.
    NoLogs,
    /// It could not be started for another reason.
    StartFailed,
    NeverStarted,
    /// It did its work and ended.
    Finished,
    Paused,
    /// Nothing is wrong.
    Running,
}

/// The confidence in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confidence {
    /// The engine itself says so.
    High,
    /// Likely; others are possible.
    Medium,
    Low,
}

/// One possible answer to "what is wrong". The texts may contain output of the container and the
/// engine, so they are redacted before they are returned.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) cause: Cause,
    pub(super) confidence: Confidence,
    /// One sentence.
    pub(super) summary: String,
    /// Facts that support it.
    pub(super) evidence: Vec<String>,
    /// Actions to take, the most promising first.
    pub(super) next_steps: Vec<String>,
}

impl Finding {
    pub(super) fn new(cause: Cause, summary: impl Into<String>) -> Self {
        Self {
            cause,
            confidence: Confidence::High,
            summary: summary.into(),
            evidence: Vec::new(),
            next_steps: Vec::new(),
        }
    }

    /// The finding with this name in `findings.txt`, with these values.
    pub(super) fn named(name: &str, values: &[&dyn Display]) -> Self {
        let text = text(name);
        let finding = Self::new(
            text.cause.unwrap_or(Cause::Running),
            fill(text.summary, values),
        );
        finding.add(name, values)
    }

    /// Adds the evidence, the next steps and the confidence of the text with this name.
    pub(super) fn add(mut self, name: &str, values: &[&dyn Display]) -> Self {
        let text = text(name);
        for (mark, line) in &text.lines {
            let line = fill(line, values);
            match mark {
                '-' => self.evidence.push(line),
                '<' => self.next_steps.insert(0, line),
                _ => self.next_steps.push(line),
            }
        }
        self.confidence = text.confidence.unwrap_or(self.confidence);
        self
    }

    /// With high confidence if the evidence is `conclusive`, else with medium.
    pub(super) fn sure_if(mut self, conclusive: bool) -> Self {
        self.confidence = match conclusive {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        self
    }

    pub(super) fn because(mut self, fact: impl Into<String>) -> Self {
        self.evidence.push(fact.into());
        self
    }

    pub(super) fn next(mut self, step: impl Into<String>) -> Self {
        self.next_steps.push(step.into());
        self
    }
}

/// A block of `findings.txt`.
#[derive(Default)]
struct Text {
    cause: Option<Cause>,
    confidence: Option<Confidence>,
    summary: &'static str,
    /// Lines with their marks.
    lines: Vec<(char, &'static str)>,
}

static TEXTS: LazyLock<HashMap<&str, Text>> = LazyLock::new(|| {
    let blocks = include_str!("findings.txt").split("\n\n");
    blocks.filter_map(Text::parse).collect()
});

impl Text {
    fn parse(block: &'static str) -> Option<(&'static str, Self)> {
        let mut lines = block.trim_end().lines();
        let mut head = lines.next()?.split(' ');
        let (name, words) = (head.next()?, head);
        let mut text = Self::default();
        for word in words {
            text.cause = text.cause.or(parsed(word));
            text.confidence = text.confidence.or(parsed(word));
        }
        for line in lines {
            match line.split_once(' ') {
                Some(("-" | "<" | ">", rest)) => text.lines.push((line.chars().next()?, rest)),
                _ => text.summary = line,
            }
        }
        Some((name, text))
    }
}

/// The text of a finding. A test checks that those of all names exist.
fn text(name: &str) -> &'static Text {
    static NONE: LazyLock<Text> = LazyLock::new(Text::default);
    TEXTS.get(name).unwrap_or(&NONE)
}

/// The text with the values in place of `$1`, `$2` and so on.
fn fill(text: &str, values: &[&dyn Display]) -> String {
    let mut parts = text.split('$');
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_at(1);
        let number: usize = number.parse().unwrap_or(1);
        if let Some(value) = values.get(number - 1) {
            filled.push_str(&value.to_string());
        }
        filled.push_str(rest);
    }
    filled
}

/// The value that a word of a table stands for.
pub(super) fn parsed<'a, T: Deserialize<'a>>(word: &'a str) -> Option<T> {
    let word: StrDeserializer<'a, serde::de::value::Error> = word.into_deserializer();
    T::deserialize(word).ok()
}

/// A row: a cause and the phrases that mean it.
pub(super) struct Row {
    pub(super) cause: Cause,
    /// Groups separated by ` & `, of which all must match; of the phrases of a group, separated by `|`, one.
    phrases: &'static str,
    pub(super) text: &'static str,
    pub(super) next: &'static str,
}

impl Row {
    /// The rows of a table: blocks of four lines, and comments. A test checks that all are valid.
    pub(super) fn parse(table: &'static str) -> Vec<Self> {
        let blocks = table.split("\n\n").filter(|block| !block.starts_with('#'));
        let row = |block: &'static str| {
            let mut lines = block.lines();
            Some(Self {
                cause: parsed(lines.next()?)?,
                phrases: lines.next()?,
                text: lines.next()?,
                next: lines.next()?,
            })
        };
        blocks.filter_map(row).collect()
    }

    /// Whether a text in lower case has its phrases.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.phrases.split(" & ").all(|group| has(text, group))
    }
}

/// Whether the text contains one of the phrases, as whole words.
pub(super) fn has(text: &str, phrases: &str) -> bool {
    phrases.split('|').any(|phrase| contains(text, phrase))
}

fn contains(text: &str, phrase: &str) -> bool {
    let (bare, open_begin) = phrase
        .strip_prefix('*')
        .map_or((phrase, false), |rest| (rest, true));
    let (bare, open_end) = bare
        .strip_suffix('*')
        .map_or((bare, false), |rest| (rest, true));
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let begins_word = is_word(bare.chars().next()) && !open_begin;
    let ends_word = is_word(bare.chars().next_back()) && !open_end;
    let mut found = text.match_indices(bare);
    found.any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + bare.len()..]);
        let goes_on_before = begins_word && is_word(before.chars().next_back());
        let goes_on_after = ends_word && is_word(after.chars().next());
        !goes_on_before && !goes_on_after
    })
}

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
/// A line of every `sudo` in a container, whose own name has no address.
const OF_SUDO: &str = "sudo: unable to resolve host";

/// The line that tells most: one with a known sign before one that only sounds severe, no warning, no frame of a
/// stack; among equals the latest.
pub(super) fn telling_line(log: &str) -> Option<TellingLine<'_>> {
    let lines = log.lines();
    let lines = lines.filter(|line| !line.trim().is_empty() && !line.starts_with(OF_SUDO));
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
    use super::*;

    #[test]
    fn every_finding_has_a_text() {
        let sources = [
            include_str!("../diagnose.rs"),
            include_str!("conclusions.rs"),
        ];
        let source = sources.concat();
        for (name, text) in &*TEXTS {
            let is_used = *name == "#" || source.contains(&format!("\"{name}\""));
            assert!(is_used, "{name}");
            assert!(
                text.summary.is_empty() == text.cause.is_none() || *name == "#",
                "{name}"
            );
        }
        for used in source
            .split("Finding::named(\"")
            .skip(1)
            .chain(source.split(".add(\"").skip(1))
        {
            let name = used.split('"').next().unwrap();
            assert!(TEXTS.contains_key(name), "{name}");
        }
        assert_eq!(fill("a $2 b $1.", &[&1, &"x$1"]), "a x$1 b 1.");
    }

    #[test]
    fn phrases_match_whole_words() {
        for (text, phrase, expected) in [
            ("getaddrinfo enotfound db", "enotfound", true),
            ("modulenotfounderror: x", "enotfound", false),
            ("(enfile)", "enfile", true),
            ("tokenfile", "enfile", false),
            ("x_enfile", "enfile", false),
            ("tokenfile enfile", "enfile", true),
            ("unknownhostexception", "unknownhost*", true),
            ("javaunknownhost", "unknownhost*", false),
            ("runtimeerror: x", "*error*", true),
            ("required by /app", "required by /", true),
            ("größe: größer", "größe", true),
            ("größer", "größe", false),
            ("", "a", false),
        ] {
            assert_eq!(contains(text, phrase), expected, "{text} {phrase}");
        }
    }

    #[test]
    fn all_rows_are_valid() {
        for table in [include_str!("signs.txt"), include_str!("messages.txt")] {
            let rows = Row::parse(table);
            assert_eq!(rows.len() + 1, table.split("\n\n").count());
            for row in rows {
                assert_eq!(row.phrases, row.phrases.to_lowercase());
                assert!(
                    row.text.len() > 5 && row.next.ends_with('.'),
                    "{}",
                    row.text
                );
            }
        }
    }

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
