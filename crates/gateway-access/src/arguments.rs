//! Patterns for the arguments of a call (`arguments` of a role).
//!
//! Arguments are judged only as every backend reads them: what two servers may read differently matches nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use wildmatch::WildMatch;

/// The arguments that a call must have, for the `allow` rules of a table to count.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentPatterns {
    /// By the names of the arguments.
    pub patterns: BTreeMap<String, ArgumentPattern>,
    /// The table that declares it, such as `roles.reader`.
    pub table: Arc<str>,
    /// Its line in the file, counted from 1.
    pub line: usize,
}

/// The values that one argument may have.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentPattern {
    /// Texts that match one of these.
    Texts(Vec<WildMatch>),
    /// `true` or `false`.
    Flag(bool),
}

impl ArgumentPattern {
    /// Texts that match one of these patterns, in which `*` stands for any text and `?` for one character.
    pub fn texts<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = patterns.into_iter().map(WildMatch::new);
        Self::Texts(patterns.collect())
    }

    fn matches(&self, value: &RawValue) -> bool {
        match self {
            Self::Texts(patterns) => serde_json::from_str::<String>(value.get())
                .is_ok_and(|text| patterns.iter().any(|pattern| pattern.matches(&text))),
            Self::Flag(flag) => value.get() == flag.to_string(),
        }
    }
}

impl ArgumentPatterns {
    /// The names of the arguments.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.patterns.keys().map(String::as_str)
    }

    /// Checks that each of them is in the call and matches.
    ///
    /// # Errors
    /// Why the call does not match, without a value of it.
    pub fn check(&self, arguments: &RawValue) -> Result<(), String> {
        unambiguous(arguments)?;
        let members: HashMap<String, &RawValue> = serde_json::from_str(arguments.get())
            .map_err(|_| "the arguments are no object".to_owned())?;
        for (name, pattern) in &self.patterns {
            match members.get(name) {
                Some(value) if pattern.matches(value) => {}
                Some(_) => return Err(format!("{name:?} does not match")),
                None => {
                    let same = folded(name);
                    let mut others = members.keys();
                    return Err(match others.any(|other| folded(other) == same) {
                        true => format!("the call spells {name:?} in another way"),
                        false => format!("the call has no {name:?}"),
                    });
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for ArgumentPatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}.arguments", self.line, self.table)
    }
}

/// Integers beyond it are not exact in the floating-point numbers of JavaScript.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// The start of the texts of [`Strict`].
const REFUSED: &str = "refused: ";

/// Refuses JSON that two readers may understand differently: a name that an object has twice, also in another case,
/// which some servers take for the same; an integer that is not exact in floating point; half of a surrogate pair.
///
/// # Errors
/// Its fault, without a value.
pub fn unambiguous(json: &RawValue) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_str(json.get());
    let read = Strict.deserialize(&mut reader);
    read.map_err(|error| {
        // Our texts name no value; those of the parser may.
        let text = error.to_string();
        match text.strip_prefix(REFUSED) {
            Some(text) => text.split(" at line").next().unwrap_or(text).to_owned(),
            None => "the arguments cannot be read".to_owned(),
        }
    })
}

/// A name without its case, also of letters that are equal to ASCII ones without it.
pub(crate) fn folded(name: &str) -> String {
    let upper = name.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.visit_u64(value.unsigned_abs())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match value <= MAX_EXACT {
            true => Ok(()),
            false => Err(inexact()),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "exact")]
        let max = MAX_EXACT as f64;
        match value.fract() != 0.0 || value.abs() <= max {
            true => Ok(()),
            false => Err(inexact()),
        }
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !names.insert(folded(&name)) {
                return Err(refused("an object has a name twice"));
            }
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

fn refused<E: Error>(text: &str) -> E {
    E::custom(format_args!("{REFUSED}{text}"))
}

fn inexact<E: Error>() -> E {
    refused("a number is not exact")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWICE: &str = "an object has a name twice";
    const UNREADABLE: &str = "the arguments cannot be read";

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn all_arguments_must_match_and_a_missing_one_denies() {
        let image = ArgumentPattern::texts(["registry.internal/*", "busybox:1.?"]);
        let force = ArgumentPattern::Flag(false);
        let patterns = ArgumentPatterns {
            patterns: [("image".to_owned(), image), ("force".to_owned(), force)].into(),
            table: "roles.r".into(),
            line: 7,
        };
        assert_eq!(patterns.to_string(), "line 7: roles.r.arguments");
        assert_eq!(patterns.names().collect::<Vec<_>>(), ["force", "image"]);
        let (image, force, no_force) = (
            r#""image" does not match"#,
            r#""force" does not match"#,
            r#"the call has no "force""#,
        );
        for (arguments, expected) in [
            (r#"{"image":"registry.internal/a","force":false}"#, ""),
            (r#"{"force":false,"n":1.5,"image":"busybox:1.2"}"#, ""),
            (r#"{"image":"registry\u002einternal/a","force":false}"#, ""),
            (r#"{"image":"registry.internal/a"}"#, no_force),
            ("{}", no_force),
            (r#"{"image":"x","force":true}"#, force),
            (r#"{"image":"x","force":"false"}"#, force),
            (r#"{"image":"x","force":false}"#, image),
            (r#"{"image":"a registry.internal/a","force":false}"#, image),
            (r#"{"image":"busybox:1.22","force":false}"#, image),
            (r#"{"image":5,"force":false}"#, image),
            (r#"{"image":null,"force":false}"#, image),
            (r#"{"image":["busybox:1.2"],"force":false}"#, image),
            (r#"{"image":"busybox:1.\ud800","force":false}"#, UNREADABLE),
            // What backends may read in two ways.
            (r#"{"force":false,"f\u006frce":true}"#, TWICE),
            (r#"{"force":false,"FORCE":true}"#, TWICE),
            (
                r#"{"Force":false}"#,
                r#"the call spells "force" in another way"#,
            ),
            ("[]", "the arguments are no object"),
        ] {
            let checked = patterns.check(&raw(arguments));
            assert_eq!(checked.err().unwrap_or_default(), expected, "{arguments}");
        }
    }

    #[test]
    fn what_two_servers_may_read_differently_is_refused() {
        let inexact = "a number is not exact";
        for (json, expected) in [
            (
                r#"{"a":[1,-2.5,"x",null,true,{"a":9007199254740991}],"b":1.0}"#,
                "",
            ),
            (r#"{"a":1,"a":1}"#, TWICE),
            (r#"{"a":1,"\u0061":1}"#, TWICE),
            (r#"[{"a":1,"A":1}]"#, TWICE),
            (r#"{"key":1,"\u212aey":1}"#, TWICE),
            (r#"{"a":9007199254740992}"#, inexact),
            (r#"{"a":-9007199254740993}"#, inexact),
            (r#"{"a":1e300}"#, inexact),
            (r#"{"a":1e999}"#, UNREADABLE),
            (r#"{"a":"\ud800"}"#, UNREADABLE),
        ] {
            let json = raw(json);
            let read = unambiguous(&json);
            assert_eq!(read.err().unwrap_or_default(), expected, "{json}");
        }
    }
}
