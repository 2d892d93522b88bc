//! JSON that all servers read in the same way.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

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

    #[test]
    fn what_two_servers_may_read_differently_is_refused() {
        let twice = "an object has a name twice";
        let inexact = "a number is not exact";
        let unreadable = "the arguments cannot be read";
        for (json, expected) in [
            (
                r#"{"a":[1,-2.5,"x",null,true,{"a":9007199254740991}],"b":1.0}"#,
                "",
            ),
            (r#"{"a":1,"a":1}"#, twice),
            (r#"{"a":1,"\u0061":1}"#, twice),
            (r#"[{"a":1,"A":1}]"#, twice),
            (r#"{"key":1,"\u212aey":1}"#, twice),
            (r#"{"a":9007199254740992}"#, inexact),
            (r#"{"a":-9007199254740993}"#, inexact),
            (r#"{"a":1e300}"#, inexact),
            (r#"{"a":1e999}"#, unreadable),
            (r#"{"a":"\ud800"}"#, unreadable),
        ] {
            let json = RawValue::from_string(json.to_owned()).unwrap();
            let read = unambiguous(&json);
            assert_eq!(read.err().unwrap_or_default(), expected, "{json}");
        }
    }
}
