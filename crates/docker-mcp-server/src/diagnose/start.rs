//! Findings about containers that could not be started, from the engine's error message. Its wording
//! has hardly changed since 2020.

use std::sync::LazyLock;

use super::facts::Facts;
use super::finding::Cause::*;
use super::finding::Finding;
use super::run;
use super::table::Row;

static MESSAGES: LazyLock<Vec<Row>> = LazyLock::new(|| Row::parse(include_str!("messages.txt")));

/// The finding of an engine's error when it could not create or start a container.
pub(super) fn explain(error: &str, facts: Option<&Facts>) -> Finding {
    let lower = error.to_ascii_lowercase();
    let row = MESSAGES.iter().find(|row| row.matches(&lower));
    let finding = match (row.map(|row| row.cause), facts) {
        (Some(PortTaken), _) => port_taken(error, facts),
        (Some(NetworkOwnerGone), Some(facts))
            if let Some(found) = run::network_owner_gone(facts) =>
        {
            found
        }
        (Some(NotExecutable), Some(facts)) if let Some(found) = wrong_platform(facts) => found,
        _ => match row {
            Some(row) => Finding::high(row.cause, row.text).next(row.next),
            None => {
                Finding::high(StartFailed, "The engine could not start it.").next(advice(&lower))
            }
        },
    };
    finding.because(format!("The engine said: {}", error.trim()))
}

/// The finding if the platforms of the image and the engine differ.
pub(super) fn wrong_platform(facts: &Facts) -> Option<Finding> {
    let (image, engine) = facts.platforms.as_ref()?;
    let summary = format!("Its image is for {image}, and the engine runs on {engine}.");
    (image != engine).then(|| {
        Finding::high(WrongPlatform, summary)
            .because("Its program could not be executed: exec format error.")
            .next(format!("Build or pull the image for {engine} (pull_image with platform), or register an emulator (binfmt) on the host."))
    })
}

fn port_taken(error: &str, facts: Option<&Facts>) -> Finding {
    let summary = match address(error) {
        Some(address) => format!("The host port that it publishes is taken: {address}."),
        None => "A host port that it publishes is taken.".to_owned(),
    };
    let finding = Finding::high(PortTaken, summary);
    match facts
        .map(Facts::port_holders)
        .unwrap_or_default()
        .as_slice()
    {
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
    if error.contains("no such image") {
        "Pull the image, or correct its name."
    } else if error.contains("rlimit") {
        "The engine may not raise the limits (ulimits) that it asks for: lower them."
    } else if error.contains("cgroup") {
        "The host does not allow a resource limit that it asks for."
    } else {
        "Fix what the engine names, then start it again."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_of_all_engines_are_recognized() {
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
            ("network 12ab not found".into(), NetworkMissing),
            ("cannot join network of a non running container: 12ab".into(), NetworkOwnerGone),
            ("error gathering device information while adding custom device \"/dev/nope\": no such file or directory".into(), StartFailed),
            (format!("{oci}: open /proc/sys/net/ipv4/nope: no such file or directory"), StartFailed),
            ("error while mounting volume '/v/_data': failed to mount local volume: mount /nope:/v/_data, flags: 0x1000: no such file or directory".into(), StartFailed),
            ("failed to start shim: exec: \"runc\": executable file not found in $PATH".into(), StartFailed),
            (format!("{oci}: error running prestart hook #0: libnvidia-ml.so.1: cannot open shared object file: no such file or directory"), StartFailed),
            ("error creating overlay mount to /o/merged: no such file or directory".into(), StartFailed),
            (format!("{oci}: chdir to cwd (\"/nope\") set in config.json failed: no such file or directory"), StartFailed),
            ("failed to initialize logging driver: dial unixgram /dev/log: connect: no such file or directory".into(), StartFailed),
            (format!("{oci}: error mounting \"/a\" to rootfs at \"/b\": not a directory: Are you trying to mount a directory onto a file (or vice-versa)?"), MountMismatch),
            ("unable to find user nope: no matching entries in passwd file".into(), StartFailed),
            ("image with reference x was found but does not match the specified platform: wanted linux/arm64".into(), WrongPlatform),
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
        let mut holders = Facts::default();
        let json = r#"{"Id":"b","Names":["/web"],"Ports":[{"PublicPort":80}]}"#;
        holders.others.push(serde_json::from_str(json).unwrap());
        let bindings = serde_json::from_str(r#"{"80/tcp":[{"HostPort":"80"}]}"#).unwrap();
        holders.details.host_config.port_bindings = bindings;
        let finding = explain(error, Some(&holders));
        assert!(finding.next_steps[0].contains("Stop `web`"));
    }
}
