//! The definition of a tool in one form, and its hash.

use hmac_sha256::Hash;
use mcp_core::jsonrpc::{Members, quoted};
use serde_json::value::RawValue;
use upstream::text::hexadecimal;

/// Returns a definition without its name, with the members of its objects in the order of their names: some
/// servers write them in another order in each process. Duplicates stay, since clients may read either.
pub(super) fn canonical(definition: &RawValue) -> String {
    match Members::read(definition.get()) {
        Some(mut members) if !members.is_too_deep() => {
            members.remove("name");
            let mut out = String::with_capacity(definition.get().len());
            write(&members.encode(), &mut out);
            out
        }
        _ => definition.get().to_owned(),
    }
}

/// Returns the SHA-256 hash of a canonical definition, in hexadecimal digits.
pub(super) fn hash(canonical: &str) -> String {
    hexadecimal(&Hash::hash(canonical.as_bytes()))
}

fn write(json: &str, out: &mut String) {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let members = Members::read(json).unwrap_or_default();
            let mut members: Vec<(&str, &str)> = members.iter().collect();
            // Stable: duplicates keep their order.
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(name));
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            out.push('[');
            for (at, item) in items.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item.get(), out);
            }
            out.push(']');
        }
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) => out.push_str(&quoted(&text)),
            Err(_) => out.push_str(json),
        },
        _ => out.push_str(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(json: &str) -> String {
        canonical(&RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn order_spaces_and_escapes_are_no_change() {
        let one =
            form(r#"{"name":"a","description":"\u0041b","inputSchema":{"x":[1, {"b":1,"a":2}]}}"#);
        let other =
            form(r#"{"inputSchema": {"x":[1,{"a":2,"b":1}]},"description":"Ab","name":"b"}"#);
        assert_eq!(one, other);
    }

    /// Clients read the first or the last one.
    #[test]
    fn duplicate_member_is_a_change() {
        let one = form(r#"{"annotations":{"title":"good"}}"#);
        for other in [
            r#"{"annotations":{"title":"bad","title":"good"}}"#,
            r#"{"annotations":{"title":"good","title":"bad"}}"#,
        ] {
            assert_ne!(one, form(other), "{other}");
        }
    }

    #[test]
    fn everything_else_is_a_change() {
        let one = form(r#"{"description":"a","inputSchema":{"type":"object"}}"#);
        for other in [
            r#"{"description":"a ","inputSchema":{"type":"object"}}"#,
            r#"{"description":"a","inputSchema":{"type":"object","required":[]}}"#,
            r#"{"description":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
        ] {
            assert_ne!(one, form(other), "{other}");
        }
    }
}
