//! Findings: the possible problems of a container.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_has_a_text() {
        let sources = [
            include_str!("../diagnose.rs"),
            include_str!("end.rs"),
            include_str!("peer.rs"),
            include_str!("refine.rs"),
            include_str!("run.rs"),
            include_str!("start.rs"),
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
}
