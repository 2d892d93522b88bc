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
    let known = match (row.map(|row| row.cause), facts) {
        (Some(PortTaken), _) => Some(port_taken(error, facts)),
        (Some(NetworkOwnerGone), Some(facts)) => run::network_owner_gone(facts),
        (Some(NotExecutable), Some(facts)) => wrong_platform(facts),
        _ => None,
    };
    let finding = known.unwrap_or_else(|| match row {
        Some(row) => Finding::new(row.cause, row.text).next(row.next),
        None => Finding::new(StartFailed, "The engine could not start it.")
            .next("Fix what the engine names, then start it again."),
    });
    finding.because(format!("The engine said: {}", error.trim()))
}

/// The finding if the platforms of the image and the engine differ.
pub(super) fn wrong_platform(facts: &Facts) -> Option<Finding> {
    let (image, engine) = facts.platforms.as_ref()?;
    (image != engine).then(|| Finding::named("platform", &[image, engine]))
}

fn port_taken(error: &str, facts: Option<&Facts>) -> Finding {
    let summary = match address(error) {
        Some(address) => format!("The host port that it publishes is taken: {address}."),
        None => "A host port that it publishes is taken.".to_owned(),
    };
    let finding = Finding::new(PortTaken, summary);
    match facts
        .map(Facts::port_holders)
        .unwrap_or_default()
        .join("`, `")
    {
        none if none.is_empty() => finding.add("port_of_host", &[]),
        holders => finding.add("port_of_container", &[&holders]),
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

#[cfg(test)]
mod tests {
    use super::super::finding::parsed;
    use super::*;

    #[test]
    fn error_messages_of_all_engines_are_recognized() {
        for row in include_str!("messages_cases.txt").lines() {
            let (cause, error) = row.split_once(": ").unwrap();
            let error = error
                .replace("OCI:", "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process:")
                .replace("DRIVER:", "driver failed programming external connectivity on endpoint b (32):");
            let finding = explain(&error, None);
            assert_eq!(Some(finding.cause), parsed(cause), "{error}");
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
