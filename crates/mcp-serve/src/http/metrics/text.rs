//! The text format 0.0.4 of Prometheus, from that of OpenMetrics.

/// Converts the text of OpenMetrics. In the older format a counter is named as its samples are, there is no
/// type `info`, and no end.
pub(super) fn plain(openmetrics: &str) -> String {
    let mut plain = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((name, help)) = described(line, "# HELP ") else {
            // Units are a part of the names.
            if !line.starts_with("# UNIT ") && line != "# EOF" {
                plain.extend([line, "\n"]);
            }
            continue;
        };
        let kind = lines.next().and_then(|line| described(line, "# TYPE "));
        let (suffix, kind) = match kind.map(|(_, kind)| kind) {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            Some("unknown") | None => ("", "untyped"),
            Some(kind) => ("", kind),
        };
        plain.extend(["# HELP ", name, suffix, " ", help, "\n"]);
        plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
    }
    plain
}

/// The name and the rest of a line that begins so.
fn described<'a>(line: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(start)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_info_get_the_names_of_their_samples() {
        let openmetrics = "\
# HELP a_seconds Time.
# TYPE a_seconds histogram
# UNIT a_seconds seconds
a_seconds_sum 1.5
# HELP calls Calls.
# TYPE calls counter
calls_total{x=\"# EOF\"} 2
# HELP build Build.
# TYPE build info
build_info{version=\"1\"} 1
# EOF
";
        let expected = "\
# HELP a_seconds Time.
# TYPE a_seconds histogram
a_seconds_sum 1.5
# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{x=\"# EOF\"} 2
# HELP build_info Build.
# TYPE build_info gauge
build_info{version=\"1\"} 1
";
        assert_eq!(plain(openmetrics), expected);
    }
}
