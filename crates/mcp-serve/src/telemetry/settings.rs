//! The variables that the SDK does not read, or reads in another way.

use std::time::Duration;

/// The collector of the specification, for `OTEL_TRACES_EXPORTER=otlp` alone.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";
/// The only form of OTLP that is spoken.
const PROTOCOL: &str = "http/protobuf";

/// The place that gets the spans.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) url: String,
    /// Timeout of an export, with all of its tries.
    pub(super) timeout: Duration,
    /// The name of the service, if it is not that of the program.
    pub(super) service_name: Option<String>,
}

impl Settings {
    /// Reads variables, of which a blank one counts as unset; `None` if no span is to be exported.
    ///
    /// # Errors
    /// The reason why none can be, without the value of a variable.
    pub(super) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let text = |name: &str| {
            let text = variable(name)?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let of_traces = |name: &str| {
            let own = text(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"));
            own.or_else(|| text(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_disabled = text("OTEL_SDK_DISABLED");
        if is_disabled.is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        match text("OTEL_TRACES_EXPORTER").as_deref() {
            Some("otlp") => {}
            None if of_traces("ENDPOINT").is_some() => {}
            Some("none") | None => return Ok(None),
            Some(_) => return Err("OTEL_TRACES_EXPORTER is neither otlp nor none".to_owned()),
        }
        if of_traces("PROTOCOL").is_some_and(|protocol| protocol != PROTOCOL) {
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL must be {PROTOCOL}, mostly on port 4318"
            ));
        }
        let url = text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").unwrap_or_else(|| {
            let base = text("OTEL_EXPORTER_OTLP_ENDPOINT");
            let base = base.as_deref().unwrap_or(DEFAULT_ENDPOINT);
            format!("{}/v1/traces", base.trim_end_matches('/'))
        });
        let millis = of_traces("TIMEOUT").and_then(|millis| millis.parse().ok());
        Ok(Some(Self {
            url,
            timeout: Duration::from_millis(millis.unwrap_or(10_000)),
            service_name: text("OTEL_SERVICE_NAME"),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exported_to_an_address_or_by_an_exporter() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1/t");
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        for (variables, expected) in [
            (&[][..], Ok(None)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], Ok(None)),
            (&[endpoint], Ok(Some("http://127.0.0.1:4318/v1/traces"))),
            (&[endpoint, own], Ok(Some("http://127.0.0.1/t"))),
            (
                &[("OTEL_TRACES_EXPORTER", "otlp")],
                Ok(Some("http://localhost:4318/v1/traces")),
            ),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "none")], Ok(None)),
            (&[endpoint, ("OTEL_TRACES_EXPORTER", "zipkin")], Err(())),
            (&[endpoint, ("OTEL_SDK_DISABLED", "True")], Ok(None)),
            (
                &[endpoint, ("OTEL_SDK_DISABLED", "1")],
                Ok(Some("http://127.0.0.1:4318/v1/traces")),
            ),
            (&[endpoint, grpc], Err(())),
        ] {
            let read = Settings::read(&|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            let url = read.map(|read| read.map(|settings| settings.url));
            let expected = expected.map(|url| url.map(ToOwned::to_owned));
            assert_eq!(url.map_err(drop), expected, "{variables:?}");
        }
    }
}
