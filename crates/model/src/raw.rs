//! Raw JSON: passed through unchanged.
//!
//! A payload is checked once (syntax, depth) and then carried as text: a 2 MiB body costs 2 MiB instead of
//! the 170 MB of a value tree, and a client reads back exactly the bytes that it sent.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// A text that is valid JSON of bounded depth. Equality is equality of the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidJson {
    #[error("not valid JSON: {0}")]
    Syntax(String),
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

impl RawJson {
    pub fn null() -> Self {
        Self("null".into())
    }

    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        check_depth(text.as_bytes())?;
        let raw: &RawValue =
            serde_json::from_str(text).map_err(|error| InvalidJson::Syntax(error.to_string()))?;
        Ok(Self(raw.get().into()))
    }

    /// Serializes a value. Falls back to `null` for values that JSON cannot represent (maps with
    /// non-text keys), which none of our types contain.
    pub fn from_value<T: Serialize>(value: &T) -> Self {
        serde_json::to_string(value).map_or_else(|_| Self::null(), |text| Self(text.into()))
    }

    /// Text from the store, which was checked when it was accepted.
    pub fn from_trusted_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the nesting depth against [`MAX_DEPTH`].
    pub fn check_nesting(&self) -> Result<(), InvalidJson> {
        check_depth(self.0.as_bytes())
    }

    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

fn check_depth(bytes: &[u8]) -> Result<(), InvalidJson> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(InvalidJson::TooDeep);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // No depth check: stored JSON was checked when it was accepted, and a result that wraps a deep
        // response must not make its record unreadable.
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(raw.get().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_json_keeps_original_bytes() {
        let text = r#"{"b":1.50,  "a":"\u0000"}"#;
        assert_eq!(RawJson::parse(text).unwrap().as_str(), text);
    }

    #[test]
    fn raw_json_refuses_invalid_syntax() {
        assert!(matches!(RawJson::parse("{"), Err(InvalidJson::Syntax(_))));
        assert!(matches!(RawJson::parse("1 2"), Err(InvalidJson::Syntax(_))));
    }

    #[test]
    fn wrapped_deep_json_decodes() {
        let deep = RawJson::parse(&format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH))).unwrap();
        let wrapped = RawJson::from_value(&std::collections::BTreeMap::from([("body", deep)]));
        assert_eq!(wrapped.check_nesting(), Err(InvalidJson::TooDeep));
        let again: RawJson = wrapped.decode().unwrap();
        assert_eq!(again, wrapped);
    }

    #[test]
    fn json_depth_ignores_strings() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert_eq!(RawJson::parse(&deep), Err(InvalidJson::TooDeep));
        let brackets = format!("\"{}\\\"{}\"", "[".repeat(100), "{".repeat(100));
        assert!(RawJson::parse(&brackets).is_ok());
    }
}
