//! Whole lines on the terminal, each with the name of what it is about, and below them a bar for each step that is
//! running. Without a terminal there are only lines.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Interval of the lines about a long step, without a terminal.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(60);

const BAR_INTERVAL: Duration = Duration::from_millis(200);

macro_rules! print_line {
    ($($text:tt)*) => { $crate::console::write_line(format_args!($($text)*)) };
}

/// Prints a line with a name as its prefix, of which the longest has 9 letters: `print_as!("n8n", "ready")`.
macro_rules! print_as {
    ($who:expr, $($text:tt)*) => { print_line!("{:<9} | {}", $who, format_args!($($text)*)) };
}

/// The bars of the running steps, which are hidden without a terminal.
static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stdout()));

/// Writes one line to stdout. A closed stdout is no error.
pub(crate) fn write_line(text: impl Display) {
    BARS.suspend(|| _ = writeln!(io::stdout().lock(), "{text}"));
}

pub(crate) fn table<const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> String {
    let heading = heading.map(str::to_owned);
    let all = || [&heading].into_iter().chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let rule = widths.map(|width| "-".repeat(width));
    let rows = [&heading, &rule].into_iter().chain(rows);
    let text = rows.map(|row| {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    text.collect()
}

/// Copies a child's output to the terminal, every line with its prefix, until the child closes it.
pub(crate) fn copy_lines(who: &'static str, output: impl Read + Send + 'static) {
    thread::spawn(move || {
        // Not `lines()`, which would end at the first line that is not UTF-8.
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            print_as!(who, "{}", String::from_utf8_lossy(&line).trim_end());
        }
    });
}

/// Shows that a step is running until it is dropped: by a bar, or without a terminal by a line from time to time.
pub(crate) struct Heartbeat {
    who: &'static str,
    pub(crate) step: String,
    started: Instant,
    next: Duration,
    expected: Option<Duration>,
    bar: ProgressBar,
    /// The end of the line that stays in place of the bar.
    end: &'static str,
}

impl Heartbeat {
    pub(crate) fn start(who: &'static str, step: impl Into<String>) -> Self {
        let step = step.into();
        let bar = BARS.add(ProgressBar::new_spinner());
        bar.set_style(style("{prefix} | {spinner} {wide_msg} {elapsed}"));
        bar.set_prefix(format!("{who:<9}"));
        bar.set_message(step.clone());
        bar.enable_steady_tick(BAR_INTERVAL);
        if BARS.is_hidden() {
            print_as!(who, "{step} …");
        }
        Self {
            who,
            step,
            started: Instant::now(),
            next: HEARTBEAT_INTERVAL,
            expected: None,
            bar,
            end: ": failed",
        }
    }

    /// Shows the share of the time in which the step usually ends, too.
    pub(crate) fn expecting(mut self, expected: Duration) -> Self {
        let template = "{prefix} | {spinner} {wide_msg} [{bar:20}] {elapsed}";
        self.bar.set_style(style(template).progress_chars("=> "));
        self.bar.set_length(expected.as_secs());
        self.expected = Some(expected);
        self
    }

    pub(crate) fn succeeded(&mut self) {
        self.end = "";
    }

    /// Notes that the step is stopped, which may take some seconds.
    pub(crate) fn stopped(&mut self) {
        self.end = ": stopped";
        self.bar.set_message(format!("{}: stopping", self.step));
    }

    /// Updates the bar, or prints a line if the interval is over; to be called often.
    pub(crate) fn beat(&mut self) {
        let elapsed = self.started.elapsed();
        if let Some(expected) = self.expected {
            // A step that takes longer stays at its end.
            self.bar.set_position(elapsed.min(expected).as_secs());
        }
        if BARS.is_hidden() && elapsed >= self.next {
            self.next += HEARTBEAT_INTERVAL;
            let expected = self.expected.map(|time| time.as_secs());
            let expected = expected.map(|seconds| format!(" (expected about {seconds} s)"));
            let (seconds, expected) = (elapsed.as_secs(), expected.unwrap_or_default());
            print_as!(self.who, "{} … {seconds} s{expected}", self.step);
        }
    }
}

impl Drop for Heartbeat {
    /// A line stays in place of the bar.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        if !BARS.is_hidden() {
            let seconds = self.started.elapsed().as_secs();
            print_as!(self.who, "{}{} ({seconds} s)", self.step, self.end);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
