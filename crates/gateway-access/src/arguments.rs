//! Patterns for the arguments of a call (`arguments` of a role).
//!
//! Arguments are judged only as every backend reads them: what two servers may read differently matches nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::matcher::Matcher;
use crate::unambiguous::{folded, unambiguous};

/// The arguments that a call must have, for the `allow` rules of a table to count.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentPatterns {
    patterns: BTreeMap<String, ArgumentPattern>,
    /// The table that declares it, such as `roles.reader`.
    table: Arc<str>,
    /// Its line in the file, counted from 1.
    line: usize,
}

/// The values that one argument may have.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentPattern(Values);

#[derive(Clone, Debug, PartialEq)]
enum Values {
    /// Texts that match one of these.
    Texts(Vec<Matcher>),
    /// `true` or `false`.
    Flag(bool),
}

impl ArgumentPattern {
    /// Texts that match one of these patterns, in which `*` stands for any text and `?` for one character.
    pub fn texts<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let patterns = patterns.into_iter().map(Matcher::new);
        Self(Values::Texts(patterns.collect()))
    }

    /// This boolean.
    pub fn flag(value: bool) -> Self {
        Self(Values::Flag(value))
    }

    fn matches(&self, value: &RawValue) -> bool {
        match &self.0 {
            Values::Texts(patterns) => serde_json::from_str::<String>(value.get())
                .is_ok_and(|text| patterns.iter().any(|pattern| pattern.matches(&text))),
            Values::Flag(flag) => value.get() == flag.to_string(),
        }
    }
}

impl ArgumentPatterns {
    /// Patterns by the names of arguments, which `table` declares in this line.
    pub fn new(patterns: BTreeMap<String, ArgumentPattern>, table: Arc<str>, line: usize) -> Self {
        Self {
            patterns,
            table,
            line,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(patterns: &[(&str, ArgumentPattern)]) -> ArgumentPatterns {
        let patterns = patterns.iter().cloned();
        let patterns = patterns.map(|(name, pattern)| (name.to_owned(), pattern));
        ArgumentPatterns::new(patterns.collect(), "roles.r".into(), 7)
    }

    #[test]
    fn all_arguments_must_match_and_a_missing_one_denies() {
        let image = ArgumentPattern::texts(["registry.internal/*", "busybox:1.?"]);
        let patterns = patterns(&[("image", image), ("force", ArgumentPattern::flag(false))]);
        assert_eq!(patterns.to_string(), "line 7: roles.r.arguments");
        assert_eq!(patterns.names().collect::<Vec<_>>(), ["force", "image"]);
        for (arguments, expected) in [
            (r#"{"image":"registry.internal/a","force":false}"#, ""),
            (r#"{"force":false,"n":1.5,"image":"busybox:1.2"}"#, ""),
            (r#"{"image":"registry\u002einternal/a","force":false}"#, ""),
            (
                r#"{"image":"registry.internal/a"}"#,
                r#"the call has no "force""#,
            ),
            ("{}", r#"the call has no "force""#),
            (r#"{"image":"x","force":true}"#, r#""force" does not match"#),
            (
                r#"{"image":"x","force":"false"}"#,
                r#""force" does not match"#,
            ),
            (
                r#"{"image":"x","force":false}"#,
                r#""image" does not match"#,
            ),
            (
                r#"{"image":"a registry.internal/a","force":false}"#,
                r#""image" does not match"#,
            ),
            (
                r#"{"image":"busybox:1.22","force":false}"#,
                r#""image" does not match"#,
            ),
            (r#"{"image":5,"force":false}"#, r#""image" does not match"#),
            (
                r#"{"image":null,"force":false}"#,
                r#""image" does not match"#,
            ),
            (
                r#"{"image":["busybox:1.2"],"force":false}"#,
                r#""image" does not match"#,
            ),
            (
                r#"{"image":"busybox:1.\ud800","force":false}"#,
                "the arguments cannot be read",
            ),
        ] {
            let checked = patterns.check(&raw(arguments));
            assert_eq!(checked.err().unwrap_or_default(), expected, "{arguments}");
        }
    }

    #[test]
    fn what_backends_may_read_in_two_ways_matches_nothing() {
        let patterns = patterns(&[("name", ArgumentPattern::texts(["web-*"]))]);
        for (arguments, expected) in [
            (
                r#"{"name":"web-1","n\u0061me":"db"}"#,
                "an object has a name twice",
            ),
            (
                r#"{"name":"web-1","NAME":"db"}"#,
                "an object has a name twice",
            ),
            (
                r#"{"Name":"web-1"}"#,
                r#"the call spells "name" in another way"#,
            ),
            ("[]", "the arguments are no object"),
            (r#"{"name":"web-1","other":1}"#, ""),
        ] {
            let checked = patterns.check(&raw(arguments));
            assert_eq!(checked.err().unwrap_or_default(), expected, "{arguments}");
        }
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }
}
