//! Tests of the repair of definitions.

use super::*;

#[track_caller]
fn check(definition: &str, expected: Result<&str, &str>) {
    let definition = RawValue::from_string(definition.to_owned()).unwrap();
    let found = tool(&definition);
    let found = found.as_ref().map(|found| found.get());
    assert_eq!(found, expected.map_err(str::to_owned).as_ref().copied());
}

#[test]
fn valid_definition_keeps_its_bytes() {
    let definition = r#"{"name":"a","inputSchema":{"type":"object", "properties":{"n":{"maximum":1.50}}},"x":1.0}"#;
    check(definition, Ok(definition));
    let named =
        r#"{"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}}"#;
    check(named, Ok(named));
}

#[test]
fn hidden_characters_are_removed_from_texts() {
    let cleaned = |text: &str| {
        let definition = RawValue::from_string(text.to_owned()).unwrap();
        without_hidden_characters(definition).get().to_owned()
    };
    for clean in [
        r#"{"name":"a", "description":"\u00e4\nb","x":1.50}"#,
        "{\"description\":\"\u{e4}\", \"uri\":\"x://\u{200b}\"}",
    ] {
        assert_eq!(cleaned(clean), clean);
    }
    let hidden = r#"{"a":[{"title":"x\u001b\u200by\udb40\udc41"}]}"#;
    assert_eq!(cleaned(hidden), r#"{"a":[{"title":"xy"}]}"#);
    let everywhere = "{\"inputSchema\":{\"properties\":{\"a\u{fe01}\":{\"enum\":[\"b\u{3164}\"],\"default\":\"c\u{2028}\",\"examples\":[\"d\u{e0100}\"],\"$comment\":\"e\u{2800}\"}}}}";
    let visible = r#"{"inputSchema":{"properties":{"a":{"enum":["b"],"default":"c","examples":["d"],"$comment":"e"}}}}"#;
    assert_eq!(cleaned(everywhere), visible);
}

#[test]
fn definition_without_a_schema_gets_one() {
    let expected = r#"{"name":"a","inputSchema":{"type":"object","properties":{}}}"#;
    check(r#"{"name":"a"}"#, Ok(expected));
    check("[]", Err("is not an object"));
}

/// An object that is nested `levels` deep, the scalar in it not counted.
fn nested(levels: usize) -> String {
    format!(
        r#"{{"type":"object","x":{}1{}}}"#,
        "[".repeat(levels - 1),
        "]".repeat(levels - 1)
    )
}

#[test]
fn optional_members_stay_if_they_are_valid() {
    let (deepest, too_deep) = (nested(64), nested(65));
    for (name, valid, invalid) in [
        ("title", &[r#""t""#][..], &["1", "null"][..]),
        ("description", &[r#""t""#], &["1", "null", "[]"]),
        ("icons", &["[]", r#"[{"src":"x"}]"#], &["{}", "null"]),
        ("_meta", &["{}"], &["[]", "1"]),
        (
            "annotations",
            &[
                "{}",
                r#"{"title":"t","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":true,"x":1}"#,
            ],
            &[
                "[]",
                r#""t""#,
                r#"{"title":1}"#,
                r#"{"readOnlyHint":"yes"}"#,
                r#"{"destructiveHint":null}"#,
                r#"{"idempotentHint":0}"#,
                r#"{"openWorldHint":1}"#,
            ],
        ),
        (
            "execution",
            &[
                "{}",
                r#"{"taskSupport":"forbidden"}"#,
                r#"{"taskSupport":"optional"}"#,
                r#"{"taskSupport":"required","x":1}"#,
            ],
            &[
                "[]",
                "null",
                r#"{"taskSupport":"maybe"}"#,
                r#"{"taskSupport":null}"#,
            ],
        ),
        (
            "outputSchema",
            &[
                r#"{"type":"object"}"#,
                r##"{"type":"object","x":{"$ref":"#/y"}}"##,
                &deepest,
            ],
            &[
                "{}",
                "true",
                r#"{"type":"array"}"#,
                r#"{"type":["object"]}"#,
                r#"{"type":"object","x":{"$ref":"http://x/y"}}"#,
                &too_deep,
            ],
        ),
    ] {
        let with = |value: &str| {
            format!(r#"{{"name":"a","{name}":{value},"inputSchema":{{"type":"object"}}}}"#)
        };
        let without = r#"{"name":"a","inputSchema":{"type":"object"}}"#;
        for value in valid {
            check(&with(value), Ok(&with(value)));
        }
        for value in invalid {
            check(&with(value), Ok(without));
        }
    }
}

#[test]
fn input_schema_is_one_of_an_object_or_becomes_one() {
    let (deepest, too_deep) = (nested(64), nested(65));
    let no_object = Err("has an inputSchema that is not an object");
    let other_type = Err(r#"has an inputSchema whose type is not "object""#);
    let foreign = Err("has an inputSchema that refers to another document");
    for (schema, expected) in [
        (r#"{"type":"object"}"#, Ok(r#"{"type":"object"}"#)),
        ("{}", Ok(r#"{"type":"object"}"#)),
        (r#"{"x":1.0}"#, Ok(r#"{"x":1.0,"type":"object"}"#)),
        (
            r#"{"properties":{}}"#,
            Ok(r#"{"properties":{},"type":"object"}"#),
        ),
        (
            r#"{"type":"object","properties":[]}"#,
            Ok(r#"{"type":"object"}"#),
        ),
        (r#"{"properties":null}"#, Ok(r#"{"type":"object"}"#)),
        (&deepest, Ok(&*deepest)),
        (
            &too_deep,
            Err("has an inputSchema that is nested deeper than 64 levels"),
        ),
        ("[]", no_object),
        ("true", no_object),
        (r#"{"type":"array"}"#, other_type),
        (r#"{"type":["object"]}"#, other_type),
        (r#"{"type":null}"#, other_type),
        // Schemas in arrays are schemas, too, and a base makes local references foreign.
        (
            r#"{"type":"object","anyOf":[{"$ref":"http://x"}]}"#,
            foreign,
        ),
        (r#"{"type":"object","$recursiveRef":"x"}"#, foreign),
        (r#"{"type":"object","$dynamicRef":"http://x#y"}"#, foreign),
        (r#"{"type":"object","$schema":"http://x/y"}"#, foreign),
        (r#"{"type":"string"}"#, other_type),
        (r#"{"type":"object","x":{"$id":"x"}}"#, foreign),
    ] {
        let definition = |schema: &str| format!(r#"{{"inputSchema":{schema}}}"#);
        let expected = expected.map(definition);
        check(
            &definition(schema),
            expected.as_deref().map_err(|reason| *reason),
        );
    }
    for own in [
        r##""$ref":"#/x""##,
        r##""$dynamicRef":"#x""##,
        r##""$id":"#x""##,
        r#""$schema":"https://json-schema.org/draft/2020-12/schema""#,
        // The name of a property, and the text of another member.
        r#""properties":{"$ref":{"const":"http://x"}}"#,
        r#""description":"http://x""#,
    ] {
        let definition = format!(r#"{{"inputSchema":{{"type":"object",{own}}}}}"#);
        check(&definition, Ok(&definition));
    }
}

#[test]
fn long_definition_is_rejected() {
    let definition = |len: usize| {
        let start = r#"{"inputSchema":{"type":"object"},"x":""#;
        format!("{start}{}\"}}", "x".repeat(len - start.len() - 2))
    };
    let longest = definition(262_144);
    check(&longest, Ok(&longest));
    let too_long = Err("is longer than 262144 bytes");
    check(&definition(262_145), too_long);
}
