//! The settings of a container that explain a line of its log.

use super::facts::Facts;
use super::finding::{Cause, Finding};
use super::peer;
use super::signs::TellingLine;

/// Adds the telling line and what the container's settings say about it, with the next steps.
pub(super) fn refine(finding: Finding, telling: TellingLine<'_>, facts: &Facts) -> Finding {
    let Some(sign) = telling.sign else {
        return finding;
    };
    let finding = finding
        .because(format!("Its log says: {}", telling.line))
        .next(sign.next);
    advise(finding, telling, facts)
}

/// Adds what the container's settings say about a line with a sign.
pub(super) fn advise(finding: Finding, telling: TellingLine<'_>, facts: &Facts) -> Finding {
    let Some(sign) = telling.sign else {
        return finding;
    };
    let line = telling.line;
    let details = &facts.details;
    let mounts = details.mounts.iter().map(|mount| &mount.destination);
    let mounts = mounts.chain(details.host_config.tmpfs.keys());
    let mount = mounts
        .filter(|path| line.contains(path.as_str()))
        .max_by_key(|path| path.len());
    let (limit, tmpfs) = (details.host_config.pids_limit, &details.host_config.tmpfs);
    match (sign.cause, mount) {
        (Cause::NameResolution | Cause::PeerUnreachable, _) => peer::explain(finding, line, facts),
        (Cause::PidsLimit, _) if limit > 0 => finding.add("process_limit", &[&limit]),
        (Cause::DiskFull, Some(path)) => match tmpfs.get(path) {
            Some(options) => finding.add("tmpfs_full", &[path, options]),
            None => finding.add("mount_full", &[path]),
        },
        (Cause::MountMismatch | Cause::AppError, Some(path)) => finding.add("mount", &[path]),
        _ => named_variable(finding, line, sign.next, facts),
    }
}

/// Adds the first environment variable that the line names, and whether it is set. One that is not set is only named
/// if `advice` is about variables: other words look the same.
fn named_variable(finding: Finding, line: &str, advice: &str, facts: &Facts) -> Finding {
    let may_be_missing = advice.contains("the variable");
    for word in variables(line) {
        let mut env = facts.details.config.env.iter();
        match env.find(|set| set.split('=').next() == Some(word)) {
            Some(set) => return finding.add("variable", &[&word, set]),
            None if may_be_missing && word.contains('_') => {
                return finding.add("variable_missing", &[&word]);
            }
            None => {}
        }
    }
    finding
}

/// The whole words of a line that may be names of environment variables.
fn variables(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let is_name = |word: &&str| {
        let is_upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        // Codes of Node.js: `ERR_INVALID_ARG_TYPE`.
        let is_code = word.starts_with("ERR_");
        word.len() > 2
            && !is_code
            && !word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(is_upper)
    };
    line.split(move |c| !is_part(c)).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables_are_whole_words() {
        for (line, expected) in [
            ("KeyError: 'DB_PASSWORD'", "DB_PASSWORD"),
            ("environment variable API_URL is not set", "API_URL"),
            ("/lib/x86_64-linux-gnu/libc.so.6: not found", ""),
            ("TypeError [ERR_INVALID_ARG_TYPE]: Expected", ""),
            ("aDB_URL DB_URLs 9_A", ""),
        ] {
            let found: Vec<_> = variables(line).collect();
            assert_eq!(found.join(" "), expected, "{line}");
        }
    }

    /// `GLIBC_2` looks like a variable.
    #[test]
    fn only_a_line_about_variables_names_a_missing_one() {
        let named = |advice: &str| {
            let finding = Finding::named("running", &[]);
            let finding = named_variable(finding, "needs GLIBC_2.34", advice, &Facts::default());
            finding.evidence.join(" ").contains("GLIBC_2")
        };
        assert!(!named("Use another image."));
        assert!(named(
            "Correct the variable or the argument that the line names."
        ));
    }
}
