//! Arguments that HTTP clients repeat in headers, so that whatever stands between can route by them
//! (2026-07-28, "`x-mcp-header`").
//!
//! A tool declares one with `#[schemars(extend("x-mcp-header" = "Region"))]` on the field.

use serde_json::Value;

const KEYWORD: &str = "x-mcp-header";

/// One such argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// The header's name after `Mcp-Param-`.
    pub(crate) header: String,
    /// The names of the properties that lead to it.
    path: Vec<String>,
}

impl Mirrored {
    /// The argument, where the call has it.
    pub(crate) fn of<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let found = self
            .path
            .iter()
            .try_fold(arguments, |value, name| value.get(name));
        found.filter(|value| !value.is_null())
    }
}

/// The mirrored arguments of an input schema.
///
/// # Errors
/// What the specification forbids: clients take such a tool out of the list.
pub(crate) fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found)?;
    if found.len() != occurrences(schema) {
        return Err(format!(
            "{KEYWORD} stands where no property of the arguments is"
        ));
    }
    Ok(found)
}

fn collect(
    schema: &Value,
    path: &mut Vec<String>,
    found: &mut Vec<Mirrored>,
) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        path.push(name.clone());
        if let Some(header) = property.get(KEYWORD) {
            let header = header.as_str().unwrap_or_default();
            check(header, property, found).map_err(|why| format!("{KEYWORD} of {name}: {why}"))?;
            found.push(Mirrored {
                header: header.to_owned(),
                path: path.clone(),
            });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn check(header: &str, property: &Value, found: &[Mirrored]) -> Result<(), &'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if header.is_empty() || !header.chars().all(is_token) {
        return Err("is no name of a header");
    }
    if found
        .iter()
        .any(|other| other.header.eq_ignore_ascii_case(header))
    {
        return Err("stands twice");
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(()),
        _ => Err("only strings, integers and booleans fit into a header"),
    }
}

/// How often the keyword stands anywhere. As the name of a property its value would be an object.
fn occurrences(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                usize::from(name == KEYWORD && value.is_string()) + occurrences(value)
            })
            .sum(),
        Value::Array(items) => items.iter().map(occurrences).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_argument_is_found_by_its_path() {
        let schema = json!({"properties": {
            "where": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
            }},
            "query": {"type": "string"},
        }});
        let found = mirrored(&schema).unwrap();
        assert_eq!(found.len(), 1);
        let arguments = json!({"where": {"region": "eu"}});
        assert_eq!(found[0].of(&arguments), Some(&json!("eu")));
        assert_eq!(found[0].of(&json!({"where": {"region": null}})), None);
        assert_eq!(found[0].of(&json!({})), None);
    }

    #[track_caller]
    fn check_refused(schema: &Value) {
        assert!(mirrored(schema).is_err(), "{schema}");
    }

    #[test]
    fn what_clients_would_refuse_is_refused() {
        let with = |property| json!({"properties": {"a": property}});
        check_refused(&with(json!({"type": "string", "x-mcp-header": ""})));
        check_refused(&with(
            json!({"type": "string", "x-mcp-header": "two words"}),
        ));
        check_refused(&with(json!({"type": "string", "x-mcp-header": "a\r\nb"})));
        check_refused(&with(json!({"type": "number", "x-mcp-header": "A"})));
        check_refused(&with(json!({"type": "object", "x-mcp-header": "A"})));
        let item = json!({"type": "string", "x-mcp-header": "A"});
        check_refused(&with(json!({"type": "array", "items": item})));
        check_refused(
            &json!({"properties": {"a": item, "b": {"type": "string", "x-mcp-header": "a"}}}),
        );
        check_refused(&json!({"anyOf": [with(item.clone())]}));
    }
}
