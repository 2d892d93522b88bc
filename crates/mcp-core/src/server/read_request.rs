//! Reads a request and its parameters in one pass, where the usual way takes two over the parameters: a sixth of the
//! work of a small call.

use std::fmt;

use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::params::{Params, ParamsReader};
use crate::jsonrpc::{Id, Request};

/// Reads a frame that is one request without any fault; its parameters become `params`. `None` for all others, which
/// [`Frame::decode`] explains.
///
/// [`Frame::decode`]: crate::jsonrpc::Frame::decode
pub(super) fn read_request<'a>(frame: &'a [u8], params: &mut Params<'a>) -> Option<Request<'a>> {
    if !frame.starts_with(b"{") {
        return None;
    }
    let text = str::from_utf8(frame).ok()?;
    let mut json = serde_json::Deserializer::from_str(text);
    let request = json.deserialize_map(Envelope(params)).ok()?;
    json.end().ok()?;
    params.is_of_request(text);
    Some(request)
}

/// Reads the members of a request, and no others.
struct Envelope<'p, 'a>(&'p mut Params<'a>);

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
}

impl<'a> Visitor<'a> for Envelope<'_, 'a> {
    type Value = Request<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Request<'a>, A::Error> {
        let fault = || A::Error::custom("");
        let (mut version, mut id, mut method): (_, Option<&RawValue>, _) = (None, None, None);
        let mut has_params = false;
        while let Some(key) = map.next_key::<Key>()? {
            let is_repeated = match key {
                Key::Jsonrpc => version.replace(map.next_value::<&str>()?).is_some(),
                Key::Id => id.replace(map.next_value()?).is_some(),
                Key::Method => method.replace(map.next_value::<&str>()?).is_some(),
                Key::Params => {
                    map.next_value_seed(ParamsReader(self.0))?;
                    std::mem::replace(&mut has_params, true)
                }
            };
            if is_repeated {
                return Err(fault());
            }
        }
        let id = id.and_then(Id::new).filter(|_| version == Some("2.0"));
        Ok(Request {
            id: id.ok_or_else(fault)?,
            method: method.ok_or_else(fault)?.into(),
            params: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Frame, Message};

    #[test]
    fn request_is_the_same_as_in_two_passes() {
        for (text, is_read) in [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":"b","arguments":{"c":[1]}}}"#,
                true,
            ),
            (
                r#"{"method":"a","params":{"_meta":{"x":1},"other":{}},"id":"1","jsonrpc":"2.0"}"#,
                true,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, true),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":null}"#,
                false,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"uri":null,"cursor":"x"}} "#,
                true,
            ),
            (r#" {"jsonrpc":"2.0","id":1,"method":"a"}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"\u0061"}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","other":1}"#, false),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[1]}"#,
                false,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"name":1,"name":2}}"#,
                false,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{},"_meta":{}}}"#,
                false,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#, false),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, false),
            (r#"{"jsonrpc":"2.0","method":"a"}"#, false),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"}}"#, false),
            (r#"["2.0",1,"a",null]"#, false),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, false),
        ] {
            let mut params = Params::default();
            let found = read_request(text.as_bytes(), &mut params);
            assert_eq!(found.is_some(), is_read, "{text}");
            let Some(request) = found else {
                continue;
            };
            let Frame::Single(Message::Request(expected)) = Frame::decode(text.as_bytes()).unwrap()
            else {
                panic!("not a request: {text}");
            };
            assert_eq!(
                (request.id, &request.method),
                (expected.id, &expected.method)
            );
            let json = |raw: Option<&RawValue>| raw.map(|raw| raw.get().to_owned());
            assert_eq!(json(params.raw()), json(expected.params));
            let expected = Params::read(expected.params);
            assert_eq!(json(params.name), json(expected.name));
            assert_eq!(json(params.uri), json(expected.uri));
            assert_eq!(
                params.arguments().unwrap().get(),
                expected.arguments().unwrap().get()
            );
            assert_eq!(
                params.check_cursor().is_ok(),
                expected.check_cursor().is_ok()
            );
            assert_eq!(params.meta.is_some(), expected.meta.is_some());
        }
    }
}
