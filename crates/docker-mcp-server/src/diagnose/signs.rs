//! Signs of known problems in a log, and the line that tells most.

use std::sync::LazyLock;

use super::table::{Row, has};

/// The line of a log that tells most about a problem.
#[derive(Clone, Copy)]
pub(super) struct TellingLine<'a> {
    pub(super) line: &'a str,
    pub(super) sign: Option<&'static Row>,
}

static SIGNS: LazyLock<Vec<Row>> = LazyLock::new(|| Row::parse(include_str!("signs.txt")));
const SEVERE: &str = "fatal|panic|error|exception|critical|caused by|failed|cannot|unable|abort";
const HARMLESS: &str = "warn|deprecat|notice";

/// The line that tells most: one with a known sign before one that only sounds severe, no warning, no frame of a
/// stack; among equals the latest.
pub(super) fn telling_line(log: &str) -> Option<TellingLine<'_>> {
    let lines = log.lines().filter(|line| !line.trim().is_empty());
    let is_frame =
        |line: &str| line.starts_with([' ', '\t', '}', ']']) || line.starts_with("goroutine ");
    let last = lines.clone().rfind(|line| !is_frame(line));
    let scored = lines.map(|line| {
        let lower = line.to_lowercase();
        let sign = SIGNS.iter().find(|sign| sign.matches(&lower));
        let begin = lower.get(..lower.floor_char_boundary(60));
        let weights = [
            (sign.is_some(), 3),
            (has(&lower, SEVERE), 2),
            (lower.starts_with("caused by"), 2),
            (last == Some(line), 1),
            (has(begin.unwrap_or_default(), HARMLESS), -4),
            (is_frame(line), -3),
        ];
        let score: i32 = weights
            .iter()
            .filter(|weight| weight.0)
            .map(|weight| weight.1)
            .sum();
        let line = line.trim();
        (
            score,
            TellingLine {
                line,
                sign: sign.filter(|_| score > 0),
            },
        )
    });
    Some(scored.max_by_key(|(score, _)| *score)?.1)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Cause::*;
    use super::*;

    #[test]
    fn telling_line_is_found_among_others() {
        let frames = "    at a.b.C.d(C.java:1)\n".repeat(30);
        let java = format!(
            "Starting\nException in thread \"main\" java.lang.RuntimeException: x\n{frames}\
            Caused by: java.net.UnknownHostException: db\n{frames}    ... 12 more\n"
        );
        let node = format!(
            "node:net:1\nError: listen EADDRINUSE: address already in use :::3000\n{frames}{{\n  code: 'EADDRINUSE'\n}}\n\nNode.js v20\n"
        );
        for (log, cause, part) in [
            (&*java, Some(NameResolution), "Caused by"),
            (&*node, Some(PortTaken), "Error: listen"),
            (
                "WARNING: deprecated option\nFATAL: cannot connect to db:5432: connection refused\nbye",
                Some(PeerUnreachable),
                "FATAL",
            ),
            (
                "FATAL: connection refused\nWARN: unused key\n",
                Some(PeerUnreachable),
                "FATAL",
            ),
            (
                "WARN cache: connection refused, going on\nerror: frobnication went wrong",
                None,
                "frob",
            ),
            (
                "dd: error writing '/t/x': No space left on device\n1+0 records in\n0+0 records out",
                Some(DiskFull),
                "dd:",
            ),
            ("one\ntwo\n\n", None, "two"),
            (
                "psycopg2.OperationalError: connection to server at \"db\" failed: FATAL:  password authentication failed for user \"x\"",
                Some(AuthenticationFailed),
                "",
            ),
            (
                "./app: error while loading shared libraries: libpq.so.5: cannot open shared object file: No such file or directory",
                Some(MissingLibrary),
                "",
            ),
        ] {
            let telling = telling_line(log).unwrap();
            assert_eq!(telling.sign.map(|sign| sign.cause), cause, "{log}");
            assert!(telling.line.contains(part), "{}", telling.line);
        }
        for line in [
            "Temporary failure in name resolution",
            "EAI_AGAIN db",
            "UnknownHostException: db",
            "wget: bad address 'db'",
            "dial tcp: lookup db on 127.0.0.11:53: no such host",
            "ENOTFOUND db",
            "curl: (6) Could not resolve host: db",
        ] {
            let sign = telling_line(line).unwrap().sign;
            assert_eq!(sign.map(|sign| sign.cause), Some(NameResolution), "{line}");
        }
        assert!(telling_line(" \n").is_none());
    }
}
