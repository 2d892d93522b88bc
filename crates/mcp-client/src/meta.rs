//! The `_meta` of a request: what the caller put there, and what we have to say.

use std::borrow::Cow;
use std::fmt::Write as _;

use mcp_core::jsonrpc::{Members, push_quoted};
use mcp_core::revision::MODERN;
use serde_json::value::RawValue;

use crate::{ClientInfo, Error};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";
const TRACEPARENT: &str = "traceparent";

/// What every request of the modern era says about us.
#[derive(Clone)]
pub(crate) struct Envelope {
    /// Its members as JSON, but for the value of the last.
    said: String,
    capabilities: Box<RawValue>,
}

/// What one request has to say in its `_meta`, beside what the caller put there.
#[derive(Clone, Copy, Default)]
pub(crate) struct Say<'a> {
    pub(crate) envelope: Option<&'a Envelope>,
    /// Instead of those of the envelope.
    pub(crate) capabilities: Option<&'a RawValue>,
    pub(crate) traceparent: Option<&'a str>,
    /// Report progress, whether or not the caller's `_meta` asks for it.
    pub(crate) progress: bool,
    /// Somebody takes the progress that the caller's `_meta` asks for.
    pub(crate) may_report: bool,
}

/// The parameters of a request as the caller has them.
#[derive(Clone, Copy)]
pub(crate) enum Params<'a> {
    Members(&'a Members),
    /// JSON, if there are any.
    Text(Option<&'a str>),
}

/// Parameters that are ready to be sent.
pub(crate) struct Composed<'a> {
    pub(crate) text: Option<Cow<'a, str>>,
    /// What is in them beside `_meta`, where that had to be looked at: always in the modern era.
    pub(crate) members: Option<Cow<'a, Members>>,
    /// The JSON of the token that the caller used, in the place of which the server gets ours.
    pub(crate) token: Option<String>,
}

impl Envelope {
    pub(crate) fn new(who: &ClientInfo) -> Result<Self, Error> {
        let client_info = raw(&who.client_info)?;
        Ok(Self {
            said: format!(
                r#""{VERSION}":"{MODERN}","{CLIENT_INFO}":{client_info},"{CAPABILITIES}":"#
            ),
            capabilities: raw(&who.capabilities)?,
        })
    }
}

impl Say<'_> {
    /// Adds members to an object.
    fn write(&self, progress: Option<u64>, object: &mut String) {
        let next = |object: &mut String| {
            if object.len() > 1 {
                object.push(',');
            }
        };
        object.pop();
        if let Some(token) = progress {
            next(object);
            // Into a string nothing fails.
            let _ = write!(object, r#""{PROGRESS_TOKEN}":{token}"#);
        }
        if let Some(traceparent) = self.traceparent {
            next(object);
            object.extend(["\"", TRACEPARENT, "\":"]);
            push_quoted(object, traceparent);
        }
        if let Some(envelope) = self.envelope {
            next(object);
            let capabilities = self.capabilities.unwrap_or(&envelope.capabilities);
            object.extend([&envelope.said, capabilities.get()]);
        }
        object.push('}');
    }
}

/// Writes `_meta` into `params`; everything else keeps its bytes and its place. The members that
/// speak of a connection are ours: those of the caller's connection are taken out.
pub(crate) fn compose<'a>(
    params: Params<'a>,
    id: u64,
    say: &Say<'_>,
) -> Result<Composed<'a>, Error> {
    let speaks = say.envelope.is_some() || say.traceparent.is_some() || say.progress;
    let members = match params {
        Params::Members(members) => Some(Cow::Borrowed(members)),
        Params::Text(text) => read(text, speaks)?.map(Cow::Owned),
    };
    let has_meta = |members: &Members| members.get("_meta").is_some();
    let Some(members) = members.filter(|members| speaks || has_meta(members)) else {
        return Ok(Composed {
            text: params.into_text(),
            members: None,
            token: None,
        });
    };
    let meta = members.get("_meta").and_then(Members::read);
    let mut meta = meta.unwrap_or_default();
    let token = meta.get(PROGRESS_TOKEN).filter(|_| say.may_report);
    let token = token.map(ToOwned::to_owned);
    for name in [PROGRESS_TOKEN, VERSION, CLIENT_INFO, CAPABILITIES] {
        meta.remove(name);
    }
    if say.traceparent.is_some() {
        meta.remove(TRACEPARENT);
    }
    if say.envelope.is_none() {
        // `logging/setLevel` does this before the modern era.
        meta.remove(LOG_LEVEL);
    }
    let mut meta = meta.encode();
    let progress = (say.progress || token.is_some()).then_some(id);
    say.write(progress, &mut meta);
    let meta = Some(&*meta).filter(|meta| *meta != "{}");
    let text = members.encode_with("_meta", meta);
    Ok(Composed {
        text: Some(Cow::Owned(text)),
        members: Some(members),
        token,
    })
}

impl<'a> Params<'a> {
    fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Members(members) => Some(Cow::Owned(members.encode())),
            Self::Text(text) => text.map(Cow::Borrowed),
        }
    }
}

/// What is in the text, if anybody has to know. Positions have no `_meta`, and the plain dialect
/// allows them.
fn read(text: Option<&str>, speaks: bool) -> Result<Option<Members>, Error> {
    // An escape may hide the name.
    let may_have_meta = |text: &str| text.contains("\"_meta\"") || text.contains("\\u");
    if !speaks && !text.is_some_and(may_have_meta) {
        return Ok(None);
    }
    let members = Members::read(text.unwrap_or("{}"));
    if speaks && members.is_none() {
        return Err(Error::Invalid("params must be an object".to_owned()));
    }
    Ok(members)
}

/// The parameters of a progress report, under the token that the caller knows.
pub(crate) fn with_token(report: &RawValue, token: &str) -> Option<Box<RawValue>> {
    let members = Members::read(report.get())?;
    RawValue::from_string(members.encode_with(PROGRESS_TOKEN, Some(token))).ok()
}

fn raw(value: &impl serde::Serialize) -> Result<Box<RawValue>, Error> {
    serde_json::value::to_raw_value(value).map_err(unusable)
}

#[expect(clippy::needless_pass_by_value, reason = "a `map_err` function")]
fn unusable(error: serde_json::Error) -> Error {
    Error::Invalid(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<'a>(params: Option<&'a str>, say: &Say<'_>, expected: Option<&str>) -> Composed<'a> {
        let composed = compose(Params::Text(params), 9, say).unwrap();
        assert_eq!(composed.text.as_deref(), expected);
        composed
    }

    #[test]
    fn without_anything_to_say_the_params_keep_their_bytes() {
        for params in [
            None,
            Some(r#"{"a":  1e400}"#),
            Some("[1]"),
            Some(r#"{"a":"\u00e4"}"#),
        ] {
            check(params, &Say::default(), params);
        }
    }

    #[test]
    fn a_token_of_the_caller_is_replaced_by_ours_if_somebody_takes_the_reports() {
        let params =
            r#"{"name":"t","_meta":{"a":1,"progressToken":"x"},"n":12345678901234567890123}"#;
        let say = Say {
            may_report: true,
            ..Say::default()
        };
        let expected =
            r#"{"name":"t","_meta":{"a":1,"progressToken":9},"n":12345678901234567890123}"#;
        let composed = check(Some(params), &say, Some(expected));
        assert_eq!(composed.token.unwrap(), r#""x""#);

        let expected = r#"{"name":"t","_meta":{"a":1},"n":12345678901234567890123}"#;
        let composed = check(Some(params), &Say::default(), Some(expected));
        assert!(composed.token.is_none());
        let say = Say {
            progress: true,
            ..Say::default()
        };
        check(None, &say, Some(r#"{"_meta":{"progressToken":9}}"#));
    }

    #[test]
    fn the_era_of_the_caller_does_not_pass() {
        let modern = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"info"},"x":1}"#;
        check(Some(modern), &Say::default(), Some(r#"{"x":1}"#));

        let envelope = Envelope::new(&ClientInfo::new("us", "1")).unwrap();
        let capabilities = raw(&serde_json::json!({"roots": {}})).unwrap();
        let say = Say {
            envelope: Some(&envelope),
            capabilities: Some(&capabilities),
            traceparent: Some("00-a-b-01"),
            ..Say::default()
        };
        check(
            Some(modern),
            &say,
            Some(
                r#"{"_meta":{"io.modelcontextprotocol/logLevel":"info","traceparent":"00-a-b-01","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"us","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}},"x":1}"#,
            ),
        );
    }
}
