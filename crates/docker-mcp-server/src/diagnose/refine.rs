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
    let line = telling.line;
    let finding = finding
        .because(format!("Its log says: {line}"))
        .next(sign.next);
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
        _ => named_variable(finding, line, facts),
    }
}

/// Adds the first environment variable that the line names, and whether it is set.
fn named_variable(finding: Finding, line: &str, facts: &Facts) -> Finding {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    for word in line.split(|c| !is_name(c)).filter(|word| word.len() > 2) {
        let mut env = facts.details.config.env.iter();
        match env.find(|set| set.split('=').next() == Some(word)) {
            Some(set) => return finding.add("variable", &[&word, set]),
            None if word.contains('_') => return finding.add("variable_missing", &[&word]),
            None => {}
        }
    }
    finding
}
