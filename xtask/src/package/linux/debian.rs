//! Files that only Debian wants.

use std::fmt::Write as _;

use super::{HOMEPAGE, MAINTAINER, RELEASE};
use crate::package::archive::{self, Entry};
use crate::package::{Build, Product, files};

/// Tags of lintian that do not hold here, each with its reason.
const OVERRIDES: [(&str, &str); 3] = [
    (
        "initial-upload-closes-no-bugs",
        "not an upload to the archive of Debian",
    ),
    (
        "maintainer-script-calls-systemctl",
        "only while systemd runs; the unit is not enabled by the package",
    ),
    (
        "non-standard-file-perm",
        "the file is for secrets, and read by systemd as root",
    ),
];

/// Returns the name of the processor.
pub(super) fn arch(build: &Build) -> &'static str {
    if build.arch == "x86_64" {
        "amd64"
    } else {
        "arm64"
    }
}

/// Returns copyright, changelogs and overrides.
pub(super) fn documents(product: &Product, build: &Build) -> anyhow::Result<Vec<Entry>> {
    let name = product.name;
    let folder = format!("/usr/share/doc/{name}");
    let changes = std::fs::read(build.layout.root.join("CHANGELOG.md"))?;
    Ok(vec![
        Entry::new(format!("{folder}/copyright"), copyright(build)?),
        Entry::new(format!("{folder}/changelog.gz"), archive::gzip(&changes)?),
        Entry::new(
            format!("{folder}/changelog.Debian.gz"),
            archive::gzip(changelog(product, build).as_bytes())?,
        ),
        Entry::new(
            format!("/usr/share/lintian/overrides/{name}"),
            overrides(name),
        ),
    ])
}

fn overrides(name: &str) -> String {
    let mut text = String::new();
    for (tag, reason) in OVERRIDES {
        let _ = writeln!(text, "# {reason}\n{name}: {tag}");
    }
    text
}

fn changelog(product: &Product, build: &Build) -> String {
    let (name, version) = (product.name, &build.version);
    let date = date(build.epoch);
    format!(
        "{name} ({version}-{RELEASE}) unstable; urgency=medium\n\n  * Version {version}: see changelog.gz.\n\n -- \
         {MAINTAINER}  {date}\n"
    )
}

fn copyright(build: &Build) -> anyhow::Result<String> {
    let licences = files::licences(build)?;
    let mit = licences.iter().find(|file| file.path == "LICENSE-MIT");
    let mit = mit
        .map(|file| String::from_utf8_lossy(&file.bytes))
        .unwrap_or_default();
    let holder = mit
        .lines()
        .find(|line| line.starts_with("Copyright"))
        .unwrap_or_default();
    let holder = holder
        .trim_start_matches("Copyright")
        .trim()
        .trim_start_matches("(c)")
        .trim();
    let terms = mit
        .lines()
        .skip_while(|line| !line.starts_with("Permission"));
    let terms: String = terms
        .map(|line| format!(" {}\n", if line.is_empty() { "." } else { line }))
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: mcp-servers\n\
         Source: {HOMEPAGE}\nComment: The crates that are linked into the program, with their licences, are listed in \
         the\n file with the extension cdx.json beside this one.\n\nFiles: *\nCopyright: {holder}\nLicense: Expat or \
         Apache-2.0\n\nLicense: Expat\n{terms}\nLicense: Apache-2.0\n On Debian systems the text is in \
         /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

/// Returns a time as in the mails of RFC 5322.
fn date(epoch: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, seconds) = (epoch / 86_400, epoch % 86_400);
    let (year, month, day) = archive::date(days);
    let name = |names: &[&'static str], index: u64| {
        let index = usize::try_from(index).unwrap_or(0);
        names.get(index).copied().unwrap_or_default()
    };
    let (weekday, month) = (name(&DAYS, days % 7), name(&MONTHS, month - 1));
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}
