//! The `OTEL_*` variables of the specification.

use std::time::Duration;

use mcp_client::Endpoint;
use percent_encoding::percent_decode_str;

use crate::sampler::Sampler;

/// The collector of the specification, for `OTEL_TRACES_EXPORTER=otlp` alone.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// The only form of OTLP that is spoken.
const PROTOCOL: &str = "http/protobuf";

/// The data to export, and how. Has no `Debug`: headers hold tokens.
pub struct Settings {
    /// The attributes of the resource.
    pub(crate) resource: Vec<(String, String)>,
    /// The destination of spans; `None` if they are not exported.
    pub(crate) traces: Option<Destination>,
    /// The destination of durations; `None` if they are not exported.
    pub(crate) metrics: Option<Destination>,
    pub(crate) sampler: Sampler,
    /// The longest time that a span waits for others.
    pub(crate) schedule_delay: Duration,
    /// Limit of spans that wait.
    pub(crate) max_queued: usize,
    /// Limit of spans in one request.
    pub(crate) max_batch: usize,
    pub(crate) metric_interval: Duration,
    /// Variables that cannot be used, in words without their values.
    pub(crate) problems: Vec<String>,
}

/// The place that gets one kind of data.
pub(crate) struct Destination {
    pub(crate) endpoint: Endpoint,
    /// Timeout of one request.
    pub(crate) timeout: Duration,
}

/// Reads variables, of which a blank one counts as unset.
struct Reader<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
}

impl Settings {
    /// Reads the variables of the environment for the program of this name.
    pub fn from_environment(name: &str, version: &str) -> Self {
        Self::read(name, version, &|variable| std::env::var(variable).ok())
    }

    fn read(name: &str, version: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Reader {
            variable,
            problems: Vec::new(),
        };
        let is_disabled = reader.text("OTEL_SDK_DISABLED");
        let is_disabled = is_disabled.is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let mut destination = |signal, path| match is_disabled {
            true => None,
            false => reader.destination(signal, path),
        };
        let traces = destination("TRACES", "/v1/traces");
        let metrics = destination("METRICS", "/v1/metrics");
        if traces.is_none() && metrics.is_none() {
            // The other variables have no effect.
            let problems = reader.problems;
            return Self::new(problems);
        }
        let max_queued = reader.number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048);
        Self {
            resource: reader.resource(name, version),
            traces,
            metrics,
            sampler: reader.sampler(),
            schedule_delay: reader.millis("OTEL_BSP_SCHEDULE_DELAY", 5_000),
            max_queued,
            max_batch: reader
                .number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)
                .min(max_queued),
            metric_interval: reader.millis("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
            problems: reader.problems,
        }
    }

    /// The settings that export nothing.
    fn new(problems: Vec<String>) -> Self {
        Self {
            resource: Vec::new(),
            traces: None,
            metrics: None,
            sampler: Sampler::default(),
            schedule_delay: Duration::ZERO,
            max_queued: 0,
            max_batch: 0,
            metric_interval: Duration::ZERO,
            problems,
        }
    }
}

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let text = (self.variable)(name)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// The variable for one kind of data, else that for all.
    fn of_signal(&self, signal: &str, name: &str) -> Option<String> {
        let own = self.text(&format!("OTEL_EXPORTER_OTLP_{signal}_{name}"));
        own.or_else(|| self.text(&format!("OTEL_EXPORTER_OTLP_{name}")))
    }

    fn number(&mut self, name: &str, default: usize) -> usize {
        let Some(text) = self.text(name) else {
            return default;
        };
        match text.parse() {
            Ok(number) if number > 0 => number,
            _ => {
                self.problems
                    .push(format!("{name} is not a number above 0; {default} is used"));
                default
            }
        }
    }

    fn millis(&mut self, name: &str, default: usize) -> Duration {
        let millis = self.number(name, default);
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    fn sampler(&mut self) -> Sampler {
        let Some(name) = self.text("OTEL_TRACES_SAMPLER") else {
            return Sampler::default();
        };
        let share = self.text("OTEL_TRACES_SAMPLER_ARG");
        Sampler::parse(&name, share.as_deref()).unwrap_or_else(|problem| {
            self.problems.push(format!("{problem}; all is exported"));
            Sampler::default()
        })
    }

    /// The destination of one kind of data. Needs an address or an exporter.
    fn destination(&mut self, signal: &str, path: &str) -> Option<Destination> {
        let variable = format!("OTEL_{signal}_EXPORTER");
        let exporter = self.text(&variable);
        let own = self.text(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
        let shared = self.text("OTEL_EXPORTER_OTLP_ENDPOINT");
        match exporter.as_deref() {
            Some("otlp") => {}
            None if own.is_some() || shared.is_some() => {}
            Some("none") | None => return None,
            Some(_) => {
                self.problems.push(format!(
                    "{variable} is neither otlp nor none; nothing is exported there"
                ));
                return None;
            }
        }
        if self
            .of_signal(signal, "PROTOCOL")
            .is_some_and(|protocol| protocol != PROTOCOL)
        {
            self.problems.push(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL must be {PROTOCOL}, mostly on port 4318; nothing is exported there"
            ));
            return None;
        }
        let url = own.unwrap_or_else(|| {
            let base = shared.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
            format!("{}{path}", base.trim_end_matches('/'))
        });
        let endpoint = Endpoint::new(&url)
            .map_err(|error| error.to_string())
            .and_then(|endpoint| {
                let headers = self.of_signal(signal, "HEADERS");
                with_headers(endpoint, headers.as_deref().unwrap_or_default())
            });
        let millis = match self.text(&format!("OTEL_EXPORTER_OTLP_{signal}_TIMEOUT")) {
            Some(_) => self.number(&format!("OTEL_EXPORTER_OTLP_{signal}_TIMEOUT"), 10_000),
            None => self.number("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000),
        };
        match endpoint {
            Ok(endpoint) => Some(Destination {
                endpoint,
                timeout: Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)),
            }),
            Err(problem) => {
                self.problems.push(format!(
                    "the endpoint or the headers for {} cannot be used: {problem}",
                    signal.to_ascii_lowercase()
                ));
                None
            }
        }
    }

    fn resource(&mut self, name: &str, version: &str) -> Vec<(String, String)> {
        let given = self.text("OTEL_RESOURCE_ATTRIBUTES");
        let mut resource = pairs(given.as_deref().unwrap_or_default()).unwrap_or_else(|| {
            self.problems
                .push("OTEL_RESOURCE_ATTRIBUTES is not KEY=VALUE,…; it is not used".to_owned());
            Vec::new()
        });
        if let Some(service) = self.text("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), service));
        }
        for (key, value) in [
            ("service.name", name),
            ("service.version", version),
            ("telemetry.sdk.name", "mcp-servers"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ] {
            if resource.iter().all(|(known, _)| known != key) {
                resource.push((key.to_owned(), value.to_owned()));
            }
        }
        // Replicas have the same name.
        if resource.iter().all(|(key, _)| key != "service.instance.id") {
            let id = mcp_core::trace::TraceContext::for_request(None).trace_id();
            resource.push(("service.instance.id".to_owned(), format!("{id:032x}")));
        }
        resource
    }
}

/// Parses `KEY=VALUE,…`, with values that may be percent-encoded (W3C Baggage).
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let members = text.split(',').map(str::trim);
    let members = members.filter(|member| !member.is_empty());
    let pair = |member: &str| {
        let (key, value) = member.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let key = key.trim();
        (!key.is_empty()).then(|| (key.to_owned(), value.into_owned()))
    };
    members.map(pair).collect()
}

fn with_headers(endpoint: Endpoint, headers: &str) -> Result<Endpoint, String> {
    let headers = pairs(headers).ok_or("the headers are not NAME=VALUE,…")?;
    headers
        .iter()
        .try_fold(endpoint, |endpoint, (name, value)| {
            // The error names the header, and does not quote its value.
            endpoint
                .header(name, value)
                .map_err(|error| error.to_string())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Settings {
        pub(crate) fn from_variables(variables: &[(&str, &str)]) -> Self {
            Self::read("server", "1.0.0", &|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        }
    }

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::from_variables(variables)
    }

    #[test]
    fn exported_is_what_has_an_address_or_an_exporter() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
        let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1/t");
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        for (variables, has_traces, has_metrics, problems) in [
            (&[][..], false, false, 0),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], false, false, 0),
            (&[endpoint], true, true, 0),
            (&[traces], true, false, 0),
            (&[("OTEL_METRICS_EXPORTER", "otlp")], false, true, 0),
            (
                &[endpoint, ("OTEL_METRICS_EXPORTER", "none")],
                true,
                false,
                0,
            ),
            (
                &[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")],
                false,
                true,
                1,
            ),
            (&[endpoint, ("OTEL_SDK_DISABLED", "True")], false, false, 0),
            (&[endpoint, ("OTEL_SDK_DISABLED", "1")], true, true, 0),
            (&[endpoint, grpc], false, false, 2),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")],
                false,
                false,
                2,
            ),
            (&[endpoint, ("OTEL_BSP_MAX_QUEUE_SIZE", "0")], true, true, 1),
            (
                &[endpoint, ("OTEL_TRACES_SAMPLER", "jaeger")],
                true,
                true,
                1,
            ),
            (
                &[endpoint, ("OTEL_RESOURCE_ATTRIBUTES", "a")],
                true,
                true,
                1,
            ),
        ] {
            let settings = read(variables);
            let found = (settings.traces.is_some(), settings.metrics.is_some());
            assert_eq!(found, (has_traces, has_metrics), "{variables:?}");
            assert_eq!(settings.problems.len(), problems, "{:?}", settings.problems);
        }
    }

    #[test]
    fn problems_do_not_quote_headers() {
        for headers in ["authorization=to\u{1}ken", "to ken=x", "token"] {
            let settings = read(&[
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1"),
                ("OTEL_EXPORTER_OTLP_HEADERS", headers),
            ]);
            assert!(settings.traces.is_none());
            assert!(
                !settings.problems[0].contains("ken"),
                "{:?}",
                settings.problems
            );
        }
    }

    #[test]
    fn names_of_the_operator_replace_ours() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a, team=x%20y,"),
            ("OTEL_SERVICE_NAME", "b"),
        ];
        let settings = read(&variables);
        let value = |key: &str| {
            let mut found = settings.resource.iter().filter(|(known, _)| known == key);
            let value = found.next().map(|(_, value)| value.as_str());
            assert!(found.next().is_none(), "{key} is there twice");
            value
        };
        assert_eq!(value("service.name"), Some("b"));
        assert_eq!(value("service.version"), Some("1.0.0"));
        assert_eq!(value("team"), Some("x y"));
        assert!(value("service.instance.id").is_some());
        let settings = read(&variables[..2]);
        assert!(
            settings
                .resource
                .contains(&("service.name".to_owned(), "a".to_owned()))
        );
    }
}
