//! Composes the `_meta` of a request from the caller's members and our own.

use std::borrow::Cow;
use std::fmt::Write as _;

use mcp_core::jsonrpc::{Members, push_quoted};
use mcp_core::revision::MODERN;
use serde_json::value::RawValue;

use crate::{ClientInfo, Error, Options};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";
/// The members of a trace context.
const TRACE: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// A field of a trace context, with its name.
pub(crate) type TraceField<'a> = (&'static str, Cow<'a, str>);

/// The `_meta` members that every request of the modern era carries.
#[derive(Clone)]
pub(crate) struct Envelope {
    /// The members as JSON, up to the value of the last.
    members: String,
    capabilities: Box<RawValue>,
}

/// The parameters of a request, as the caller passes them.
#[derive(Clone, Copy)]
pub(crate) enum Params<'a> {
    Members(&'a Members),
    /// JSON, if there are parameters.
    Text(Option<&'a str>),
}

/// Parameters that are ready to be sent.
#[derive(Default)]
pub(crate) struct ComposedParams<'a> {
    /// JSON that is sent as it is, if it was not parsed.
    text: Option<&'a str>,
    /// The members, if they had to be parsed: always in the modern era.
    pub(crate) members: Option<Cow<'a, Members>>,
    /// Their `_meta`.
    meta: Option<String>,
    /// The JSON of the caller's progress token, which was replaced by ours.
    pub(crate) token: Option<String>,
}

impl Envelope {
    pub(crate) fn new(who: &ClientInfo) -> Result<Self, Error> {
        let client_info = raw(&who.client_info)?;
        Ok(Self {
            members: format!(
                r#""{VERSION}":"{MODERN}","{CLIENT_INFO}":{client_info},"{CAPABILITIES}":"#
            ),
            capabilities: raw(&who.capabilities)?,
        })
    }

    /// The JSON of the capabilities for a request with these options.
    fn capabilities<'a>(&'a self, options: &'a Options) -> &'a str {
        let of_request = options.capabilities.as_deref();
        of_request.unwrap_or(&self.capabilities).get()
    }
}

/// Composes the parameters of the request `id`: writes `_meta` into them; everything else keeps its
/// bytes and its place. The members that describe a connection are ours: those of the caller's
/// connection are removed.
pub(crate) fn compose<'a>(
    params: Params<'a>,
    id: u64,
    envelope: Option<&Envelope>,
    options: &Options,
    trace: &[TraceField<'_>],
) -> Result<ComposedParams<'a>, Error> {
    let asks_for_progress = options.progress.is_some();
    let needs_meta = envelope.is_some() || !trace.is_empty() || asks_for_progress;
    let members = match params {
        Params::Members(members) => Some(Cow::Borrowed(members)),
        Params::Text(text) => read(text, needs_meta)?.map(Cow::Owned),
    };
    let has_meta = |members: &Members| members.get("_meta").is_some();
    let Some(members) = members.filter(|members| needs_meta || has_meta(members)) else {
        return Ok(params.into());
    };
    let meta = members.get("_meta").and_then(Members::read);
    let mut meta = meta.unwrap_or_default();
    // Without a handler nothing would receive the progress that the caller asks for.
    let token = meta
        .get(PROGRESS_TOKEN)
        .filter(|_| options.handler.is_some());
    let token = token.map(ToOwned::to_owned);
    for name in [PROGRESS_TOKEN, VERSION, CLIENT_INFO, CAPABILITIES] {
        meta.remove(name);
    }
    if !trace.is_empty() {
        TRACE.iter().for_each(|name| meta.remove(name));
    }
    // Earlier eras have `logging/setLevel` instead.
    if envelope.is_none() || options.log_level.is_some() {
        meta.remove(LOG_LEVEL);
    }
    let mut meta = meta.encode();
    let progress = (asks_for_progress || token.is_some()).then_some(id);
    write_own_members(&mut meta, progress, envelope, options, trace);
    Ok(ComposedParams {
        text: None,
        members: Some(members),
        meta: Some(meta).filter(|meta| meta != "{}"),
        token,
    })
}

/// Adds our own members to the JSON object `meta`.
fn write_own_members(
    meta: &mut String,
    progress: Option<u64>,
    envelope: Option<&Envelope>,
    options: &Options,
    trace: &[TraceField<'_>],
) {
    let separate = |meta: &mut String| {
        if meta.len() > 1 {
            meta.push(',');
        }
    };
    meta.pop();
    if let Some(token) = progress {
        separate(meta);
        // Writing to a string cannot fail.
        let _ = write!(meta, r#""{PROGRESS_TOKEN}":{token}"#);
    }
    for (name, value) in trace {
        separate(meta);
        meta.extend(["\"", name, "\":"]);
        push_quoted(meta, value);
    }
    if let Some(envelope) = envelope {
        separate(meta);
        if let Some(level) = options.log_level {
            meta.extend(["\"", LOG_LEVEL, "\":\"", level.as_str(), "\","]);
        }
        meta.extend([&envelope.members, envelope.capabilities(options)]);
    }
    meta.push('}');
}

impl<'a> From<Params<'a>> for ComposedParams<'a> {
    /// Parameters without `_meta`, which need none.
    fn from(params: Params<'a>) -> Self {
        match params {
            Params::Members(members) => Self {
                members: Some(Cow::Borrowed(members)),
                ..Self::default()
            },
            Params::Text(text) => Self {
                text,
                ..Self::default()
            },
        }
    }
}

impl ComposedParams<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_none() && self.members.is_none()
    }

    /// Adds their JSON to a message.
    pub(crate) fn push_to(&self, message: &mut String) {
        match &self.members {
            Some(members) => members.push_with("_meta", self.meta.as_deref(), message),
            None => message.push_str(self.text.unwrap_or_default()),
        }
    }
}

/// Parses the parameters if `_meta` is or has to be in them. Parameters by position have none, and the
/// unversioned era allows them.
fn read(text: Option<&str>, needs_meta: bool) -> Result<Option<Members>, Error> {
    // The name may be written with an escape.
    let may_have_meta = |text: &str| text.contains("\"_meta\"") || text.contains("\\u");
    if !needs_meta && !text.is_some_and(may_have_meta) {
        return Ok(None);
    }
    let members = Members::read(text.unwrap_or("{}"));
    if needs_meta && members.is_none() {
        return Err(Error::Invalid("params must be an object".to_owned()));
    }
    Ok(members)
}

/// The parameters of a progress report, with the caller's own token.
pub(crate) fn with_token(report: &RawValue, token: &str) -> Option<Box<RawValue>> {
    let members = Members::read(report.get())?;
    RawValue::from_string(members.encode_with(PROGRESS_TOKEN, Some(token))).ok()
}

fn raw(value: &impl serde::Serialize) -> Result<Box<RawValue>, Error> {
    serde_json::value::to_raw_value(value).map_err(|error| Error::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_core::tool::LogLevel;
    use mcp_core::trace::{TraceContext, TraceFields};

    use super::*;
    use crate::handler::DefaultHandler;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[track_caller]
    fn check<'a>(
        params: Option<&'a str>,
        envelope: Option<&Envelope>,
        options: &Options,
        expected: Option<&str>,
    ) -> ComposedParams<'a> {
        let composed = compose(
            Params::Text(params),
            9,
            envelope,
            options,
            &Vec::from_iter(options.trace.iter().flat_map(TraceContext::fields)),
        )
        .unwrap();
        let mut text = String::new();
        composed.push_to(&mut text);
        assert_eq!(text, expected.unwrap_or_default());
        assert_eq!(composed.is_empty(), expected.is_none());
        composed
    }

    #[test]
    fn params_without_meta_keep_their_bytes() {
        for params in [
            None,
            Some(r#"{"a":  1e400}"#),
            Some("[1]"),
            Some(r#"{"a":"\u00e4"}"#),
        ] {
            check(params, None, &Options::default(), params);
        }
    }

    #[test]
    fn progress_token_of_the_caller_is_replaced_if_there_is_a_handler() {
        let params =
            r#"{"name":"t","_meta":{"a":1,"progressToken":"x"},"n":12345678901234567890123}"#;
        let expected =
            r#"{"name":"t","_meta":{"a":1,"progressToken":9},"n":12345678901234567890123}"#;
        let relayed = Options::default().handler(Arc::new(DefaultHandler));
        let composed = check(Some(params), None, &relayed, Some(expected));
        assert_eq!(composed.token.unwrap(), r#""x""#);

        let expected = r#"{"name":"t","_meta":{"a":1},"n":12345678901234567890123}"#;
        let composed = check(Some(params), None, &Options::default(), Some(expected));
        assert!(composed.token.is_none());
        let own = Options::default().progress(tokio::sync::mpsc::channel(1).0);
        check(None, None, &own, Some(r#"{"_meta":{"progressToken":9}}"#));
    }

    #[test]
    fn meta_of_the_callers_connection_is_removed() {
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"},"x":1}"#;
        check(Some(modern), None, &Options::default(), Some(r#"{"x":1}"#));
        let envelope = Envelope::new(&ClientInfo::new("us", "1")).unwrap();
        let capabilities = raw(&serde_json::json!({"roots": {}})).unwrap();
        let options =
            Options::default()
                .capabilities(capabilities.into())
                .trace(TraceContext::parse(TraceFields {
                    parent: Some(PARENT),
                    state: Some("a=1"),
                    baggage: None,
                }));
        check(
            Some(modern),
            Some(&envelope),
            &options,
            Some(
                r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}},"x":1}"#,
            ),
        );
        // That of a caller of an earlier era, who has set it once.
        let options = Options::default().log_level(LogLevel::Warning);
        let expected = r#"{"_meta":{"io.modelcontextprotocol/logLevel":"warning","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"x":1}"#;
        check(Some(modern), Some(&envelope), &options, Some(expected));
        check(Some(modern), None, &options, Some(r#"{"x":1}"#));
    }
}
