//! Containers that could not be started: the engine says why, in words that have hardly changed
//! since 2020.

use super::facts::Facts;
use super::finding::{Cause, Confidence, Finding};

/// What the engine said when it could not create or start a container.
pub(super) fn read(said: &str, facts: Option<&Facts>) -> Finding {
    let lower = said.to_ascii_lowercase();
    let has = |any: &[&str]| any.iter().any(|part| lower.contains(part));
    let high = |cause, summary: &str| Finding::new(cause, Confidence::High, summary);
    let finding = if has(&[
        "port is already allocated",
        "address already in use",
        "port is not available",
    ]) {
        port_taken(said, facts)
    } else if has(&[
        "bind source path does not exist",
        "error while creating mount source path",
    ]) || (has(&["error mounting"]) && has(&["no such file or directory"]))
    {
        high(
            Cause::BindSourceMissing,
            "A file or directory of the host that it mounts does not exist.",
        )
        .next(
            "Create the path on the engine's host, or recreate the container with the right path.",
        )
    } else if has(&["permission denied", "is a directory", "exec format error"]) && has(&["exec"]) {
        high(
            Cause::NotExecutable,
            "Its command exists and cannot be executed.",
        )
        .next("Set the execute bit in the image (chmod +x), or name a program and not a directory.")
        .next("`exec format error` means another CPU architecture or a script without `#!`.")
    } else if has(&["executable file not found", "no such file or directory"]) {
        high(
            Cause::CommandNotFound,
            "Its command is not in the image.",
        )
        .next("Correct the command or entrypoint, and recreate the container: get_container shows it.")
        .next("A script that exists fails like this where its `#!` interpreter is missing.")
    } else {
        high(Cause::StartFailed, "The engine could not start it.").next(hint(&lower))
    };
    finding.because(format!("The engine said: {}", said.trim()))
}

fn port_taken(said: &str, facts: Option<&Facts>) -> Finding {
    let summary = match address(said) {
        Some(address) => format!("The host port that it publishes is taken: {address}."),
        None => "A host port that it publishes is taken.".to_owned(),
    };
    let finding = Finding::new(Cause::PortTaken, Confidence::High, summary);
    match facts.map_or(&[][..], |facts| &facts.port_holders) {
        [] => finding.next(
            "No running container publishes it, so it is a process of the host: end that, or \
             publish another port.",
        ),
        holders => {
            let holders = holders.join("`, `");
            finding
                .because(format!("`{holders}` publishes the same port and runs."))
                .next(format!(
                    "Stop `{holders}`, or recreate this container with another host port."
                ))
        }
    }
}

/// The address in `Bind for 0.0.0.0:80 failed` or `listen tcp4 0.0.0.0:80: bind`.
fn address(said: &str) -> Option<&str> {
    let words = said
        .split([' ', ','])
        .map(|word| word.trim_matches([':', '"']));
    words.filter(|word| !word.is_empty()).find(|word| {
        let port = word.rsplit_once(':').map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok())
    })
}

fn hint(said: &str) -> &'static str {
    let hints = [
        ("no space left", "Free disk space on the engine's host."),
        ("no such image", "Pull the image, or correct its name."),
        (
            "network",
            "Check that its networks exist; recreate it where one was removed.",
        ),
        (
            "device driver",
            "The engine lacks the driver (for example for GPUs) that it asks for.",
        ),
        (
            "rlimit",
            "The engine may not raise the limits (ulimits) that it asks for: lower them.",
        ),
        (
            "cgroup",
            "The host does not allow a resource limit that it asks for.",
        ),
        (
            "volume",
            "Check that its volumes and their drivers are there.",
        ),
    ];
    let found = hints.iter().find(|(part, _)| said.contains(part));
    found.map_or(
        "Mend what the engine names, then start it again.",
        |(_, hint)| hint,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_all_engines_are_understood() {
        let oci = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process";
        let cases = [
            (format!("{oci}: exec: \"/nope\": stat /nope: no such file or directory: unknown"), Cause::CommandNotFound),
            (format!("{oci}: exec: \"nope\": executable file not found in $PATH: unknown"), Cause::CommandNotFound),
            (format!("{oci}: exec: \"/etc\": permission denied"), Cause::NotExecutable),
            (format!("{oci}: exec: \"/etc\": is a directory: unknown"), Cause::NotExecutable),
            (format!("{oci}: exec /app: exec format error"), Cause::NotExecutable),
            ("driver failed programming external connectivity on endpoint b (32): Bind for 0.0.0.0:18080 failed: port is already allocated".into(), Cause::PortTaken),
            ("driver failed programming external connectivity on endpoint b (32): Error starting userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use".into(), Cause::PortTaken),
            ("invalid mount config for type \"bind\": bind source path does not exist: /x".into(), Cause::BindSourceMissing),
            ("OCI runtime create failed: error mounting \"/a\" to rootfs at \"/b\": stat /a: no such file or directory".into(), Cause::BindSourceMissing),
            ("network 12ab not found".into(), Cause::StartFailed),
        ];
        for (said, cause) in cases {
            let finding = read(&said, None);
            assert_eq!(finding.cause, cause, "{said}");
            assert!(!finding.next_steps.is_empty() && finding.evidence[0].contains(&said));
        }
    }

    #[test]
    fn the_taken_port_is_named() {
        let said = "Bind for 0.0.0.0:18080 failed: port is already allocated";
        assert!(read(said, None).summary.contains("0.0.0.0:18080"));
        let said = "listen tcp4 127.0.0.1:80: bind: address already in use";
        assert!(read(said, None).summary.contains("127.0.0.1:80"));
        let holders = Facts {
            port_holders: vec!["web".into()],
            ..Facts::default()
        };
        let finding = read(said, Some(&holders));
        assert!(finding.next_steps[0].contains("Stop `web`"));
    }
}
