//! OpenTelemetry: exports the spans of requests over OTLP/HTTP, as the `OTEL_*` variables say.
//!
//! The SDK reads most of them. Spans wait in its bounded queue, from which a thread of its own sends them: no call waits
//! for a collector. The features with which the SDK would log are left out, so that no export is traced itself and a
//! collector that is away fills no log.

mod collector;
mod settings;

use std::str::FromStr as _;
use std::time::Duration;

use mcp_core::trace::{TARGET, TraceContext, Tracer};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use self::collector::Collector;
use self::settings::Settings;

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
