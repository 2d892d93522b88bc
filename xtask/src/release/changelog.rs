//! The sections of `CHANGELOG.md`, in the format of Keep a Changelog.

/// The name of the section of what is not released yet.
pub(crate) const UNRELEASED: &str = "Unreleased";

/// A section `## [NAME] - DATE`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// A version, or [`UNRELEASED`].
    pub(crate) name: String,
    pub(crate) date: Option<String>,
    /// The text below the heading, without blank lines around it.
    pub(crate) notes: String,
    pub(crate) line: usize,
}

/// Returns the sections in their order: newest first.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let heading = line.strip_prefix("## [");
        match heading.and_then(|heading| heading.split_once(']')) {
            Some((name, rest)) => sections.push(Section {
                name: name.to_owned(),
                date: rest.trim().strip_prefix("- ").map(str::to_owned),
                notes: String::new(),
                line: at + 1,
            }),
            None => {
                if let Some(section) = sections.last_mut() {
                    section.notes.push_str(line);
                    section.notes.push('\n');
                }
            }
        }
    }
    for section in &mut sections {
        section.notes = section.notes.trim().to_owned();
    }
    sections
}

/// Returns what keeps `version` from being released with these sections.
pub(crate) fn faults(sections: &[Section], version: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let unreleased = sections.iter().find(|section| section.name == UNRELEASED);
    let newest = sections.iter().find(|section| section.name != UNRELEASED);
    let Some(newest) = newest else {
        let line = unreleased.map_or(1, |section| section.line);
        return vec![format!(
            "CHANGELOG.md:{line}: no version is released there: write `## [{version}] - YYYY-MM-DD` below \
             an empty `## [{UNRELEASED}]`"
        )];
    };
    let Section { name, line, .. } = newest;
    if name != version {
        faults.push(format!(
            "CHANGELOG.md:{line}: the newest version is {name}, but Cargo.toml says {version}: change `version` \
             below [workspace.package] and of the crates below [workspace.dependencies], or the CHANGELOG"
        ));
    }
    if !newest.date.as_deref().is_some_and(is_date) {
        faults.push(format!(
            "CHANGELOG.md:{line}: write the date of {name} as ` - YYYY-MM-DD`"
        ));
    }
    if newest.notes.is_empty() {
        faults.push(format!(
            "CHANGELOG.md:{line}: {name} has no text, which would be the notes of the release"
        ));
    }
    if let Some(left) = unreleased.filter(|section| !section.notes.is_empty()) {
        faults.push(format!(
            "CHANGELOG.md:{}: what is below [{UNRELEASED}] would go out without being in the notes: move it to {name}",
            left.line
        ));
    }
    faults
}

/// Returns true for the form `2026-01-31`.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let number = |at: usize, length: usize| {
        let part: &&str = parts.get(at)?;
        let is_number = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<u16>().ok().filter(|_| is_number)
    };
    parts.len() == 3
        && number(0, 4).is_some()
        && number(1, 2).is_some_and(|month| (1..=12).contains(&month))
        && number(2, 2).is_some_and(|day| (1..=31).contains(&day))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Changelog\n\nAbout.\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n\
                        - This.\n\n## [0.1.0] - 2026-11-01\n\n- That.\n";

    fn faults_of(text: &str, version: &str) -> Vec<String> {
        faults(&sections(text), version)
    }

    #[test]
    fn notes_are_those_of_one_version() {
        let sections = sections(GOOD);
        let names: Vec<_> = sections.iter().map(|section| &*section.name).collect();
        assert_eq!(names, [UNRELEASED, "0.2.0", "0.1.0"]);
        assert_eq!(sections[1].date.as_deref(), Some("2026-12-01"));
        assert_eq!(sections[1].notes, "### Added\n\n- This.");
        assert_eq!(sections[1].line, 7);
        assert_eq!(sections[0].notes, "");
    }

    #[test]
    fn version_of_cargo_toml_is_that_of_the_changelog() {
        assert_eq!(faults_of(GOOD, "0.2.0"), [""; 0]);
        let faults = faults_of(GOOD, "0.1.0");
        assert!(
            faults[0].contains("CHANGELOG.md:7: the newest version is 0.2.0"),
            "{faults:?}"
        );
        assert_eq!(faults.len(), 1);
    }

    #[test]
    fn each_fault_says_where_and_what_to_do() {
        for (from, to, fault) in [
            (
                "## [0.2.0] - 2026-12-01",
                "## [0.2.0]",
                "CHANGELOG.md:7: write the date",
            ),
            ("2026-12-01", "2026-13-01", "CHANGELOG.md:7: write the date"),
            ("2026-12-01", "soon", "CHANGELOG.md:7: write the date"),
            (
                "### Added\n\n- This.\n",
                "",
                "CHANGELOG.md:7: 0.2.0 has no text",
            ),
            (
                "## [Unreleased]\n",
                "## [Unreleased]\n\n- More.\n",
                "CHANGELOG.md:5: what is below",
            ),
        ] {
            let faults = faults_of(&GOOD.replace(from, to), "0.2.0");
            assert_eq!(faults.len(), 1, "{from}: {faults:?}");
            assert!(faults[0].starts_with(fault), "{faults:?}");
        }
        let none = faults_of("# Changelog\n\n## [Unreleased]\n\n- All.\n", "0.1.0");
        assert!(
            none[0].starts_with("CHANGELOG.md:3: no version is released"),
            "{none:?}"
        );
    }
}
