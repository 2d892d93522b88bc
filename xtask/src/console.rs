//! What the person at the terminal reads: whole lines, each with who says it.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Width of the longest name that is used as a prefix.
const PREFIX_WIDTH: usize = 9;

/// Writes one line to stdout. A reader that has gone away is no error.
pub(crate) fn line(text: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// Writes one line with the name of the part of the work that it is about.
pub(crate) fn say(who: &str, text: impl Display) {
    line(format_args!("{who:<PREFIX_WIDTH$} | {text}"));
}

/// Copies a child's output to the terminal, every line with its prefix, until the child closes it.
pub(crate) fn follow(who: &'static str, output: impl Read + Send + 'static) {
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        // Bytes, not `lines()`: a log that is not UTF-8 must not end the following.
        while matches!(output.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            say(who, String::from_utf8_lossy(&bytes).trim_end());
            bytes.clear();
        }
    });
}

/// Says from time to time that a long step still runs.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    who: &'static str,
    step: String,
    started: Instant,
    next: Duration,
}

impl Heartbeat {
    const EVERY: Duration = Duration::from_secs(15);

    /// Announces the step.
    pub(crate) fn start(who: &'static str, step: impl Into<String>) -> Self {
        let step = step.into();
        say(who, format_args!("{step} …"));
        Self {
            who,
            step,
            started: Instant::now(),
            next: Self::EVERY,
        }
    }

    /// To be called often; prints when it is time to.
    pub(crate) fn beat(&mut self) {
        if self.started.elapsed() >= self.next {
            self.next += Self::EVERY;
            say(
                self.who,
                format_args!("{} … {} s", self.step, self.started.elapsed().as_secs()),
            );
        }
    }
}
