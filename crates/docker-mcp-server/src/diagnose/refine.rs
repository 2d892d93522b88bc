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
    match (sign.cause, mount) {
        (Cause::NameResolution | Cause::PeerUnreachable, _) => peer::explain(finding, line, facts),
        (Cause::PidsLimit, _) if details.host_config.pids_limit > 0 => {
            let limit = details.host_config.pids_limit;
            let finding = finding.because(format!("Its limit of processes is {limit}."));
            finding.first("Raise pids_limit (update_container), or find what starts so many processes.")
        }
        (Cause::DiskFull, Some(path)) => match details.host_config.tmpfs.get(path) {
            Some(options) => finding
                .because(format!("`{path}` is a tmpfs ({options})."))
                .first(format!("Recreate it with a larger tmpfs at `{path}` (size=…), or with a volume there.")),
            None => finding
                .because(format!("`{path}` is a mount."))
                .first(format!("Free space in the volume or directory that is mounted at `{path}`, or use a larger one.")),
        },
        (Cause::MountMismatch, Some(path)) => finding.because(format!("`{path}` is a mount.")),
        (Cause::AppError, Some(path)) => finding.because(format!("`{path}` is a mount.")),
        _ => named_variables(finding, line, facts),
    }
}

/// Adds the environment variables that the line names, and whether they are set.
fn named_variables(mut finding: Finding, line: &str, facts: &Facts) -> Finding {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    for word in line.split(|c| !is_name(c)).filter(|word| word.len() > 2) {
        let env = &facts.details.config.env;
        let set = env.iter().find(|set| set.split('=').next() == Some(word));
        let fact = match set {
            Some(set) => format!("Its environment has {set}"),
            None if word.contains('_') => format!("`{word}` is not in its environment."),
            None => continue,
        };
        finding = finding
            .because(fact)
            .first(format!("Recreate it with the right value of `{word}`."));
        break;
    }
    finding
}
