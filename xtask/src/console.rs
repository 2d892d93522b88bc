//! Prints whole lines on the terminal, each with the name of what it is about, and below them a bar for each step
//! that is running. Without a terminal there are only lines.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, IsTerminal as _, Read, Write};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::progress::{Expected, style_with_share};

/// Width of the longest name that is used as a prefix.
const PREFIX_WIDTH: usize = 9;

/// Interval of the lines about a long step, without a terminal.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Interval at which bars are drawn.
const BAR_INTERVAL: Duration = Duration::from_millis(200);

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
    let write = || _ = writeln!(io::stdout().lock(), "{text}");
    match bars() {
        Some(bars) => bars.suspend(write),
        None => write(),
    }
}

/// The bars of the running steps; `None` without a terminal.
fn bars() -> Option<&'static MultiProgress> {
    static BARS: OnceLock<Option<MultiProgress>> = OnceLock::new();
    let bars = BARS.get_or_init(|| {
        let has_bars = io::stdout().is_terminal();
        has_bars.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stdout()))
    });
    bars.as_ref()
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
            let line = String::from_utf8_lossy(&bytes);
            print_as!(who, "{}", line.trim_end());
            bytes.clear();
        }
    });
}

/// Shows that a step is running until it is dropped: by a bar with the time that it takes and its share, if that is
/// known, or by a line from time to time.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    who: &'static str,
    step: String,
    started: Instant,
    next: Duration,
    expected: Option<Expected>,
    measured: Duration,
    bar: Option<ProgressBar>,
    /// The end of the line that stays in place of the bar.
    end: &'static str,
}

impl Heartbeat {
    /// Shows the start of the step.
    pub(crate) fn start(who: &'static str, step: impl Into<String>) -> Self {
        let step = step.into();
        let bar = bars().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner().with_style(style()));
            bar.set_prefix(format!("{who:<PREFIX_WIDTH$}"));
            bar.set_message(step.clone());
            bar.enable_steady_tick(BAR_INTERVAL);
            bar
        });
        if bar.is_none() {
            print_as!(who, "{step} …");
        }
        Self {
            who,
            step,
            started: Instant::now(),
            next: HEARTBEAT_INTERVAL,
            expected: None,
            measured: Duration::ZERO,
            bar,
            end: ": failed",
        }
    }

    /// Shows the share that is done, too.
    pub(crate) fn expecting(mut self, expected: Expected) -> Self {
        if let Some(bar) = &self.bar {
            bar.set_style(style_with_share());
            self.show_share(&expected, bar, 0);
        }
        self.expected = Some(expected);
        self
    }

    fn show_share(&self, expected: &Expected, bar: &ProgressBar, done: u64) {
        expected.show(bar, done);
        bar.set_message(format!("{}: {}", self.step, expected.text(done)));
    }

    /// Notes that the step has succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.end = "";
    }

    /// Notes that the step is stopped, which may take some seconds.
    pub(crate) fn stopped(&mut self) {
        self.end = ": stopped";
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: stopping", self.step));
        }
    }

    /// Updates the bar, or prints a line if the interval is over; to be called often.
    pub(crate) fn beat(&mut self) {
        let elapsed = self.started.elapsed();
        let expected = self.expected.as_ref();
        let Some(bar) = &self.bar else {
            if elapsed >= self.next {
                self.next += HEARTBEAT_INTERVAL;
                let share = expected.map(|expected| expected.text(expected.done(elapsed)));
                let share = share.map_or_else(String::new, |share| format!(" ({share})"));
                print_as!(self.who, "{} … {} s{share}", self.step, elapsed.as_secs());
            }
            return;
        };
        if let Some(expected) = expected
            && elapsed >= self.measured + expected.interval()
        {
            self.show_share(expected, bar, expected.done(elapsed));
            self.measured = elapsed;
        }
    }
}

impl Drop for Heartbeat {
    /// A line stays in place of the bar.
    fn drop(&mut self) {
        let Some(bar) = &self.bar else { return };
        bar.finish_and_clear();
        let seconds = self.started.elapsed().as_secs();
        print_as!(self.who, "{}{} ({seconds} s)", self.step, self.end);
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{prefix} | {spinner} {wide_msg} {elapsed}");
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
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
