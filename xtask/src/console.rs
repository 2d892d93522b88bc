//! Prints whole lines on the terminal, each with the name of what it is about.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Width of the longest name that is used as a prefix.
const PREFIX_WIDTH: usize = 9;

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Prints a line on the terminal: `print_line!("{} tests", 2)`.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::console::write_line(format_args!($($text)*)) };
}

/// Prints a line with a name as its prefix: `print_as!("n8n", "ready")`.
macro_rules! print_as {
    ($who:expr, $($text:tt)*) => {
        $crate::console::write_line_as($who, format_args!($($text)*))
    };
}

/// Writes one line to stdout. A closed stdout is no error.
pub(crate) fn write_line(text: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

pub(crate) fn write_line_as(who: &str, text: impl Display) {
    write_line(format_args!("{who:<PREFIX_WIDTH$} | {text}"));
}

/// Formats rows as columns; the first row is the heading.
pub(crate) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(move |row| row[column].chars().count())
            .max()
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let rule = widths.map(|width| "-".repeat(width));
    let (heading, rest) = rows.split_at(rows.len().min(1));
    let rows = heading.iter().chain([&rule]).chain(rest);
    let text = rows.map(|row| {
        let cells = row.iter().zip(widths);
        let cells: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    });
    text.collect()
}

/// Copies a child's output to the terminal, every line with its prefix, until the child closes it.
pub(crate) fn copy_lines(who: &'static str, output: impl Read + Send + 'static) {
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        // Bytes, not `lines()`, which would end at the first line that is not UTF-8.
        while matches!(output.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            print_as!(who, "{}", String::from_utf8_lossy(&bytes).trim_end());
            bytes.clear();
        }
    });
}

/// Prints from time to time that a long step is still running.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    who: &'static str,
    step: String,
    started: Instant,
    next: Duration,
}

impl Heartbeat {
    /// Prints the start of the step.
    pub(crate) fn start(who: &'static str, step: impl Into<String>) -> Self {
        let step = step.into();
        print_as!(who, "{step} …");
        Self {
            who,
            step,
            started: Instant::now(),
            next: HEARTBEAT_INTERVAL,
        }
    }

    /// Prints a line if the interval is over; to be called often.
    pub(crate) fn beat(&mut self) {
        let elapsed = self.started.elapsed();
        if elapsed >= self.next {
            self.next += HEARTBEAT_INTERVAL;
            print_as!(self.who, "{} … {} s", self.step, elapsed.as_secs());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_spaces() {
        let rows = [["server", "state"], ["n8n-mcp-server", "online"], ["ä", ""]]
            .map(|row| row.map(str::to_owned));
        assert_eq!(
            table(&rows),
            "server          state\n--------------  ------\nn8n-mcp-server  online\nä\n"
        );
    }
}
