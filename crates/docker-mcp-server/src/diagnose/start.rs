//! Findings about containers that could not be started, from the engine's error message. Its wording
//! has hardly changed since 2020.

use super::facts::Facts;
use super::finding::{Cause, Finding};

/// The finding of an engine's error when it could not create or start a container.
pub(super) fn explain(error: &str, facts: Option<&Facts>) -> Finding {
    let lower = error.to_ascii_lowercase();
    let has = |parts: &str| parts.split('|').any(|part| lower.contains(part));
    let finding = if has("port is already allocated|address already in use|port is not available") {
        port_taken(error, facts)
    } else if has("bind source path does not exist|error while creating mount source path")
        || (has("error mounting") && has("no such file or directory"))
    {
        let summary = "A file or directory of the host that it mounts does not exist.";
        Finding::high(Cause::BindSourceMissing, summary).next(
            "Create the path on the engine's host, or recreate the container with the right path.",
        )
    } else if has("permission denied|is a directory|exec format error") && has("exec") {
        let summary = "Its command exists and cannot be executed.";
        Finding::high(Cause::NotExecutable, summary)
            .next("Set the execute bit in the image (chmod +x), or name a program and not a directory.")
            .next("`exec format error` means another CPU architecture or a script without `#!`.")
    } else if has("executable file not found|no such file or directory") {
        Finding::high(Cause::CommandNotFound, "Its command is not in the image.")
            .next("Correct the command or entrypoint, and recreate the container: get_container shows it.")
            .next("A script that exists fails like this if its `#!` interpreter is missing.")
    } else {
        Finding::high(Cause::StartFailed, "The engine could not start it.").next(advice(&lower))
    };
    finding.because(format!("The engine said: {}", error.trim()))
}

fn port_taken(error: &str, facts: Option<&Facts>) -> Finding {
    let summary = match address(error) {
        Some(address) => format!("The host port that it publishes is taken: {address}."),
        None => "A host port that it publishes is taken.".to_owned(),
    };
    let finding = Finding::high(Cause::PortTaken, summary);
    match facts.map_or(&[][..], |facts| &facts.port_holders) {
        [] => finding.next(
            "No running container publishes it, so it is a process of the host: end that, or \
             publish another port.",
        ),
        holders => {
            let holders = holders.join("`, `");
            let next =
                format!("Stop `{holders}`, or recreate this container with another host port.");
            finding
                .because(format!("`{holders}` publishes the same port and runs."))
                .next(next)
        }
    }
}

/// The address in `Bind for 0.0.0.0:80 failed` or `listen tcp4 0.0.0.0:80: bind`.
fn address(error: &str) -> Option<&str> {
    let words = error.split([' ', ',']);
    let mut words = words.map(|word| word.trim_matches([':', '"']));
    words.find(|word| {
        let port = word.rsplit_once(':').map(|(_, port)| port);
        port.is_some_and(|port| port.parse::<u16>().is_ok())
    })
}

fn advice(error: &str) -> &'static str {
    let has = |part| error.contains(part);
    if has("no space left") {
        "Free disk space on the engine's host."
    } else if has("no such image") {
        "Pull the image, or correct its name."
    } else if has("network") {
        "Check that its networks exist; recreate it if one was removed."
    } else if has("device driver") {
        "The engine lacks the driver (for example for GPUs) that it asks for."
    } else if has("rlimit") {
        "The engine may not raise the limits (ulimits) that it asks for: lower them."
    } else if has("cgroup") {
        "The host does not allow a resource limit that it asks for."
    } else if has("volume") {
        "Check that its volumes and their drivers exist."
    } else {
        "Fix what the engine names, then start it again."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_of_all_engines_are_recognized() {
        use Cause::*;
        let oci = "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process";
        let driver = "driver failed programming external connectivity on endpoint b (32)";
        for (error, cause) in [
            (format!("{oci}: exec: \"/nope\": stat /nope: no such file or directory: unknown"), CommandNotFound),
            (format!("{oci}: exec: \"nope\": executable file not found in $PATH: unknown"), CommandNotFound),
            (format!("{oci}: exec: \"/etc\": permission denied"), NotExecutable),
            (format!("{oci}: exec: \"/etc\": is a directory: unknown"), NotExecutable),
            (format!("{oci}: exec /app: exec format error"), NotExecutable),
            (format!("{driver}: Bind for 0.0.0.0:18080 failed: port is already allocated"), PortTaken),
            (format!("{driver}: Error starting userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use"), PortTaken),
            ("invalid mount config for type \"bind\": bind source path does not exist: /x".into(), BindSourceMissing),
            ("OCI runtime create failed: error mounting \"/a\" to rootfs at \"/b\": stat /a: no such file or directory".into(), BindSourceMissing),
            ("network 12ab not found".into(), StartFailed),
        ] {
            let finding = explain(&error, None);
            assert_eq!(finding.cause, cause, "{error}");
            assert!(!finding.next_steps.is_empty() && finding.evidence[0].contains(&error));
        }
    }

    #[test]
    fn the_taken_port_is_named() {
        let error = "Bind for 0.0.0.0:18080 failed: port is already allocated";
        assert!(explain(error, None).summary.contains("0.0.0.0:18080"));
        let error = "listen tcp4 127.0.0.1:80: bind: address already in use";
        assert!(explain(error, None).summary.contains("127.0.0.1:80"));
        let holders = Facts {
            port_holders: vec!["web".into()],
            ..Facts::default()
        };
        let finding = explain(error, Some(&holders));
        assert!(finding.next_steps[0].contains("Stop `web`"));
    }
}
