//! OpenTelemetry: exports the spans of requests over OTLP/HTTP, as the `OTEL_*` variables say.
//!
//! The SDK reads most of them. Spans wait in its bounded queue, from which a thread of its own sends them: no call waits
//! for a collector. The features with which the SDK would log are left out, so that no export is traced itself and a
//! collector that is away fills no log.

use std::fmt;
use std::str::FromStr as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use mcp_client::{Endpoint, Poster};
use mcp_core::trace::{TARGET, TraceContext, Tracer};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Time for the last spans when the program stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The export of spans.
pub(crate) struct Telemetry(SdkTracerProvider);

impl Telemetry {
    /// Starts to export the spans of the program of this name; `None` if the variables do not ask for that.
    ///
    /// # Errors
    /// The reason why nothing is exported, in words for the log.
    pub(crate) fn start(name: &str, version: &str) -> Result<Option<Self>, String> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(settings) = Settings::read(&variable)? else {
            return Ok(None);
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(&settings)?)
            .with_endpoint(settings.url)
            .with_timeout(settings.timeout)
            .with_retry_policy(retries())
            .build()
            .map_err(|error| error.to_string())?;
        let resource = resource(name, version, settings.service_name);
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .build();
        Ok(Some(Self(provider)))
    }

    /// The layer for the subscriber of the program, which takes the spans of requests and nothing else.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        mcp_core::trace::install(Box::new(Spans));
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer(env!("CARGO_PKG_NAME")))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(Targets::new().with_target(TARGET, Level::INFO))
    }

    /// Sends the spans that wait, within a few seconds.
    pub(crate) fn stop(self) {
        // The log has told that the collector is away.
        let _ = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT);
    }
}

/// A collector that restarts is back within seconds; the SDK would give up after one.
fn retries() -> RetryPolicy {
    RetryPolicy::recommended()
        .with_max_retries(4)
        .with_initial_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(8))
}

/// The attributes of the process. Those of the operator replace ours.
fn resource(name: &str, version: &str, given_name: Option<String>) -> Resource {
    // Several gateways have the same name.
    let instance = TraceContext::for_request(None).trace_id();
    let resource = Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", name.to_owned()),
            KeyValue::new("service.version", version.to_owned()),
            KeyValue::new("service.instance.id", format!("{instance:032x}")),
        ])
        .with_detectors(&[
            Box::new(TelemetryResourceDetector),
            Box::new(EnvResourceDetector::new()),
        ]);
    match given_name {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// Places spans in the traces of the SDK.
struct Spans;

impl Tracer for Spans {
    fn place(&self, span: &Span, parent: Option<&TraceContext>, is_remote: bool) -> TraceContext {
        if let Some(parent) = parent {
            let context = SpanContext::new(
                TraceId::from(parent.trace_id()),
                SpanId::from(parent.span_id()),
                TraceFlags::new(parent.flags()),
                is_remote,
                TraceState::from_str(parent.state().unwrap_or_default()).unwrap_or_default(),
            );
            // The span is new, and of the layer that was installed with this.
            let _ = span.set_parent(Context::new().with_remote_span_context(context));
        }
        let context = span.context().span().span_context().clone();
        let (trace, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
        let ids = (u128::from_be_bytes(trace), u64::from_be_bytes(span));
        TraceContext::placed(ids, context.is_sampled(), parent)
    }
}

/// Sends the requests of the SDK, from its thread.
pub(super) struct Collector {
    runtime: Runtime,
    poster: Poster,
    timeout: Duration,
    /// True if the last request failed. Only a change is logged.
    is_failing: AtomicBool,
}

impl Collector {
    /// Prepares to send. Does not connect.
    pub(super) fn new(settings: &Settings) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let poster = Endpoint::new(&settings.url).and_then(Poster::new);
        Ok(Self {
            runtime: runtime.map_err(|error| error.to_string())?,
            poster: poster.map_err(|error| error.to_string())?,
            timeout: settings.timeout,
            is_failing: AtomicBool::default(),
        })
    }

    /// Logs the first failure, and its end.
    fn tell(&self, problem: Option<&str>) {
        let peer = self.poster.peer();
        match (problem, self.is_failing.swap(problem.is_some(), Relaxed)) {
            (Some(problem), false) => tracing::warn!(
                "OpenTelemetry: cannot export to {peer}: {problem}. Calls are not affected; spans are dropped \
                 when too many wait"
            ),
            (None, true) => tracing::info!("OpenTelemetry: {peer} accepts the export again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (mut head, body) = request.into_parts();
        let values = head.headers.values_mut();
        values.for_each(|value| value.set_sensitive(true));
        // The thread of the SDK has no runtime, and nothing else to do meanwhile.
        let answered = self.runtime.block_on(async {
            timeout(
                self.timeout,
                self.poster.send(head.method, head.headers, body),
            )
            .await
        });
        // An error names the address and the kind of failure, and no header.
        let answered = answered.map_err(|_| "it did not answer in time".to_owned());
        let answered = answered.and_then(|answer| answer.map_err(|error| error.to_string()));
        let status = answered.as_ref().map(Response::status);
        match status {
            Ok(status) if status.is_success() => self.tell(None),
            Ok(status) => self.tell(Some(&format!(
                "it answered with status {}",
                status.as_u16()
            ))),
            Err(problem) => self.tell(Some(problem)),
        }
        Ok(answered?)
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

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
