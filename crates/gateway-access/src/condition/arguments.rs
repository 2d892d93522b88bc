//! The arguments of a call as conditions see them: as every backend reads them, or not at all.
//!
//! Arguments that two readers of JSON may understand differently are refused: a name that an object has twice,
//! also in another case, which some servers take for the same; an integer that is not exact in floating point;
//! half of a surrogate pair.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use cel::Value;
use cel::objects::Key;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Integers beyond it are not exact in the floating-point numbers of JavaScript.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// The arguments of a call.
pub struct Arguments {
    value: Value,
    bytes: u64,
    elements: u64,
    /// The names of all members, also of nested objects.
    names: HashSet<String>,
}

impl Arguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Why they cannot be judged, without a value.
    pub fn read(json: &RawValue) -> Result<Self, String> {
        let mut read = Read::default();
        let mut reader = serde_json::Deserializer::from_str(json.get());
        let value = (&mut read).deserialize(&mut reader).map_err(|error| {
            // The texts of `Read` name no value; those of the parser may.
            let text = error.to_string();
            match text.strip_prefix(REFUSED) {
                Some(text) => text.split(" at line").next().unwrap_or(text).to_owned(),
                None => "the arguments cannot be read".to_owned(),
            }
        })?;
        Ok(Self {
            value,
            bytes: json.get().len() as u64,
            elements: read.elements,
            names: read.names,
        })
    }

    pub(super) fn value(&self) -> Value {
        self.value.clone()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn elements(&self) -> u64 {
        self.elements
    }

    /// Refuses a member that differs from one of `names` only in its case: the condition does not see it, but a
    /// backend may read it.
    pub(super) fn check_names(&self, names: &BTreeSet<String>) -> Result<(), String> {
        let known: HashMap<String, &str> =
            names.iter().map(|name| (folded(name), &**name)).collect();
        let differs = |name: &&String| !names.contains(*name) && known.contains_key(&folded(name));
        match self.names.iter().find(differs) {
            Some(name) => Err(format!(
                "the call spells {:?} in another way",
                known[&folded(name)]
            )),
            None => Ok(()),
        }
    }
}

/// The start of the texts of [`Read`].
const REFUSED: &str = "refused: ";

/// A name without its case, also of letters that are equal to ASCII ones without it.
fn folded(name: &str) -> String {
    let upper = name.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

#[derive(Default)]
struct Read {
    elements: u64,
    names: HashSet<String>,
}

impl<'de> DeserializeSeed<'de> for &mut Read {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        self.elements += 1;
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Read {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        match value.unsigned_abs() <= MAX_EXACT {
            true => Ok(Value::Int(value)),
            false => Err(inexact()),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => Err(inexact()),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "exact")]
        let max = MAX_EXACT as f64;
        if value.fract() != 0.0 {
            return Ok(Value::Float(value));
        }
        // `1.0` and `1e0` are the same number as `1`.
        #[expect(clippy::cast_possible_truncation, reason = "in range")]
        match value.abs() <= max {
            true => Ok(Value::Int(value as i64)),
            false => Err(inexact()),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(Arc::new(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(&mut *self)? {
            list.push(item);
        }
        Ok(Value::List(Arc::new(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map: HashMap<Key, Value> = HashMap::new();
        let mut folds = HashSet::new();
        while let Some(name) = members.next_key::<String>()? {
            if !folds.insert(folded(&name)) {
                return Err(refused("an object has a name twice"));
            }
            self.names.insert(name.clone());
            map.insert(name.into(), members.next_value_seed(&mut *self)?);
        }
        Ok(Value::Map(map.into()))
    }
}

fn refused<E: Error>(text: &str) -> E {
    E::custom(format_args!("{REFUSED}{text}"))
}

fn inexact<E: Error>() -> E {
    refused("a number is not exact")
}
