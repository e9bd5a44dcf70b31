//! Path extraction from JSON text, without building values for the rest.
//!
//! The text is scanned once; the JSON parser skips everything outside of the path without allocation. Of
//! duplicate keys the last one counts.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use millstream_model::raw::RawJson;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::budget::ExprBudget;
use super::path::PathStep;
use super::{CelValue, EvalError};

/// The result of following a path.
#[derive(Debug, PartialEq)]
pub(super) enum PathLookup<T> {
    Found(T),
    /// A field or an index does not exist; `left` steps remained after it.
    Missing {
        left: usize,
    },
    /// A step led into a value without parts; `left` counts this step and those after it.
    Mismatch {
        left: usize,
        kind: &'static str,
    },
}

/// The value at the end of `path`.
pub(super) fn fetch_value(
    raw: &RawJson,
    path: &[PathStep],
    budget: &ExprBudget<'_>,
) -> Result<PathLookup<CelValue>, EvalError> {
    budget.parse_json(raw.len())?;
    follow_path(raw, path, ValueSeed { budget })
}

/// Whether a value exists at the end of `path`.
pub(super) fn fetch_presence(
    raw: &RawJson,
    path: &[PathStep],
    budget: &ExprBudget<'_>,
) -> Result<PathLookup<()>, EvalError> {
    budget.parse_json(raw.len())?;
    follow_path(raw, path, PresenceSeed)
}

/// The text at the end of `path`, byte for byte.
pub(super) fn fetch_raw(
    raw: &RawJson,
    path: &[PathStep],
    budget: &ExprBudget<'_>,
) -> Result<PathLookup<RawJson>, EvalError> {
    if path.is_empty() {
        return Ok(PathLookup::Found(raw.clone()));
    }
    budget.parse_json(raw.len())?;
    let found = follow_path(raw, path, RawSeed)?;
    if let PathLookup::Found(part) = &found {
        budget.build_text(part.len())?;
    }
    Ok(found)
}

fn follow_path<'de, S>(
    raw: &'de RawJson,
    path: &[PathStep],
    seed: S,
) -> Result<PathLookup<S::Value>, EvalError>
where
    S: DeserializeSeed<'de> + Copy,
{
    let mut deserializer = serde_json::Deserializer::from_str(raw.as_str());
    PathSeed { path, seed, lifetime: PhantomData }.deserialize(&mut deserializer).map_err(|error| {
        // serde_json appends a position to our own messages; the only other error is a number beyond f64.
        let message = error.to_string();
        EvalError::new(message.split(" at line ").next().unwrap_or_default())
    })
}

/// Follows the path and deserializes the value at its end with `seed`.
struct PathSeed<'p, 'de, S> {
    path: &'p [PathStep],
    seed: S,
    lifetime: PhantomData<&'de ()>,
}

impl<'de, S: DeserializeSeed<'de> + Copy> DeserializeSeed<'de> for PathSeed<'_, 'de, S> {
    type Value = PathLookup<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        if self.path.is_empty() {
            return self.seed.deserialize(deserializer).map(PathLookup::Found);
        }
        deserializer.deserialize_any(self)
    }
}

impl<S> PathSeed<'_, '_, S> {
    fn no_parts<T>(&self, kind: &'static str) -> PathLookup<T> {
        PathLookup::Mismatch { left: self.path.len(), kind }
    }
}

impl<'de, S: DeserializeSeed<'de> + Copy> Visitor<'de> for PathSeed<'_, 'de, S> {
    type Value = PathLookup<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((PathStep::Field(field), rest)) = self.path.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(self.no_parts("a map"));
        };
        let mut found = PathLookup::Missing { left: rest.len() };
        while let Some(matches) = map.next_key_seed(KeyMatchSeed(field))? {
            if matches {
                found =
                    map.next_value_seed(PathSeed { path: rest, seed: self.seed, lifetime: PhantomData })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((PathStep::Index(wanted), rest)) = self.path.split_first() else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(self.no_parts("a list"));
        };
        let mut found = PathLookup::Missing { left: rest.len() };
        for index in 0.. {
            if index == *wanted {
                match items.next_element_seed(PathSeed {
                    path: rest,
                    seed: self.seed,
                    lifetime: PhantomData,
                })? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.no_parts("null"))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(self.no_parts("a bool"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(self.no_parts("a number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(self.no_parts("a number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(self.no_parts("a number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(self.no_parts("a string"))
    }
}

/// Compares a key without allocating it.
struct KeyMatchSeed<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for KeyMatchSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyMatchSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[derive(Clone, Copy)]
struct PresenceSeed;

impl<'de> DeserializeSeed<'de> for PresenceSeed {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ())
    }
}

#[derive(Clone, Copy)]
struct RawSeed;

impl<'de> DeserializeSeed<'de> for RawSeed {
    type Value = RawJson;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawJson, D::Error> {
        let raw = <&RawValue as serde::Deserialize>::deserialize(deserializer)?;
        Ok(RawJson::from_trusted_text(raw.get()))
    }
}

/// Builds a value and charges every part of it to the budget.
#[derive(Clone, Copy)]
struct ValueSeed<'a> {
    budget: &'a ExprBudget<'a>,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = CelValue;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CelValue, D::Error> {
        self.budget.spend(1).map_err(D::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = CelValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<CelValue, E> {
        Ok(CelValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<CelValue, E> {
        Ok(CelValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<CelValue, E> {
        Ok(CelValue::Int(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "an integer beyond i64 is a double, as documented")]
    fn visit_u64<E>(self, value: u64) -> Result<CelValue, E> {
        Ok(i64::try_from(value).map_or(CelValue::Double(value as f64), CelValue::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<CelValue, E> {
        super::number::check_finite(value).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<CelValue, E> {
        self.budget.build_text(value.len()).map_err(E::custom)?;
        Ok(CelValue::text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CelValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.budget.build_list(1).map_err(A::Error::custom)?;
            list.push(item);
        }
        Ok(CelValue::List(Arc::new(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<CelValue, A::Error> {
        let mut map = BTreeMap::new();
        self.budget.build_map().map_err(A::Error::custom)?;
        while let Some(key) = entries.next_key::<String>()? {
            self.budget.build_entry(key.len()).map_err(A::Error::custom)?;
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(CelValue::Map(Arc::new(map)))
    }
}
