//! The share of a step that is done, as far as it can be known.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{BinaryBytes, ProgressBar, ProgressStyle};

/// Interval at which a folder is measured: that of n8n has 100,000 files.
const MEASURE_INTERVAL: Duration = Duration::from_secs(3);

/// The expected end of a step.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// It takes about this time.
    Time(Duration),
    /// It fills a folder with about this number of bytes.
    Bytes(PathBuf, u64),
}

impl Expected {
    /// About so many minutes.
    pub(crate) fn minutes(minutes: u64) -> Self {
        Self::Time(Duration::from_secs(60 * minutes))
    }

    /// A folder of about so many megabytes.
    pub(crate) fn megabytes(dir: &Path, megabytes: u64) -> Self {
        Self::Bytes(dir.to_owned(), megabytes << 20)
    }

    /// The interval at which the share is worth a look.
    pub(crate) fn interval(&self) -> Duration {
        match self {
            Self::Time(_) => Duration::ZERO,
            Self::Bytes(..) => MEASURE_INTERVAL,
        }
    }

    /// The part that is done after this time, in seconds or bytes.
    pub(crate) fn done(&self, elapsed: Duration) -> u64 {
        match self {
            Self::Time(_) => elapsed.as_secs(),
            Self::Bytes(dir, _) => size(dir),
        }
    }

    /// The part that is done, in words.
    pub(crate) fn text(&self, done: u64) -> String {
        match self {
            Self::Time(expected) => format!("expected about {} s", expected.as_secs()),
            Self::Bytes(_, total) => {
                format!("{} of about {}", BinaryBytes(done), BinaryBytes(*total))
            }
        }
    }

    /// Makes a bar show the share.
    pub(crate) fn show(&self, bar: &ProgressBar, done: u64) {
        let total = match self {
            Self::Time(expected) => expected.as_secs(),
            Self::Bytes(_, total) => *total,
        };
        bar.set_length(total);
        // The rest is not known: a step that takes longer stays at its end.
        bar.set_position(done.min(total));
    }
}

/// The style of a bar with a share. `{msg}` is cut where the terminal is narrow.
pub(crate) fn style_with_share() -> ProgressStyle {
    let template = "{prefix} | {spinner} {wide_msg} [{bar:20}] {elapsed}";
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

/// The size of all files in a folder, also while another process changes it.
fn size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| {
        let data = entry.metadata().ok()?;
        Some(match data.is_dir() {
            true => size(&entry.path()),
            false => data.len(),
        })
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_that_of_the_folder_and_never_more_than_all() {
        let dir = std::env::temp_dir().join(format!("mcp-progress-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).unwrap();
        fs::write(dir.join("one"), [0; 1000]).unwrap();
        fs::write(dir.join("below/two"), [0; 24]).unwrap();
        let expected = Expected::Bytes(dir.clone(), 2048);
        let done = expected.done(Duration::ZERO);
        assert_eq!(expected.text(done), "1.00 KiB of about 2.00 KiB");
        let bar = ProgressBar::hidden();
        expected.show(&bar, done);
        assert_eq!((bar.position(), bar.length()), (1024, Some(2048)));
        expected.show(&bar, 4096);
        assert_eq!(bar.position(), 2048);
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(expected.done(Duration::ZERO), 0);
    }
}
