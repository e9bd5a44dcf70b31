//! Secrets: texts and values with placeholders (holes) that are filled at each attempt.
//!
//! A definition references a secret by name: `secret("token")`, always as a whole value or as a whole
//! `${…}` of a text. The rendered and stored input has a hole at that place; only the definition creates
//! holes, input data cannot. The worker fills the holes at each attempt and redacts the secrets from every
//! response before it is stored or shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::Name;
use crate::raw::RawJson;
use crate::redaction;

/// A text that may have holes. A text without holes is stored as a plain string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SealedText {
    Plain(String),
    Holed { parts: Vec<SealedTextPart> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SealedTextPart {
    Text(String),
    Secret { secret: Name },
}

/// The holes of a JSON value: JSON pointer to secret name. The value is null at each pointer.
pub type SecretHoles = BTreeMap<String, Name>;

/// A referenced secret does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no secret {:?}", .0.as_str())]
pub struct MissingSecret(pub Name);

/// The secret values of one attempt, by name. `Debug` prints the names only.
#[derive(Default)]
pub struct SecretValues(BTreeMap<Name, String>);

impl std::fmt::Debug for SecretValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl SealedText {
    /// The names of the secrets in its holes.
    pub fn secret_names(&self) -> impl Iterator<Item = &Name> {
        let parts: &[SealedTextPart] = match self {
            Self::Plain(_) => &[],
            Self::Holed { parts } => parts,
        };
        parts.iter().filter_map(|part| match part {
            SealedTextPart::Text(_) => None,
            SealedTextPart::Secret { secret } => Some(secret),
        })
    }

    pub fn fill_secrets(&self, secrets: &SecretValues) -> Result<String, MissingSecret> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Holed { parts } => parts
                .iter()
                .map(|part| match part {
                    SealedTextPart::Text(text) => Ok(text.as_str()),
                    SealedTextPart::Secret { secret } => secrets.get(secret),
                })
                .collect(),
        }
    }
}

/// Fills the holes of a value.
pub fn fill_holes(
    value: &RawJson,
    holes: &SecretHoles,
    secrets: &SecretValues,
) -> Result<RawJson, MissingSecret> {
    if holes.is_empty() {
        return Ok(value.clone());
    }
    let mut tree: Value = value.decode().unwrap_or(Value::Null);
    for (pointer, name) in holes {
        let secret = secrets.get(name)?;
        if let Some(hole) = tree.pointer_mut(pointer) {
            *hole = Value::String(secret.to_owned());
        }
    }
    Ok(RawJson::from_value(&tree))
}

impl SecretValues {
    pub fn insert(&mut self, name: Name, value: String) {
        self.0.insert(name, value);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &Name) -> Result<&str, MissingSecret> {
        self.0.get(name).map(String::as_str).ok_or_else(|| MissingSecret(name.clone()))
    }

    pub fn secret_value(&self, name: &Name) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Redacts the secrets from a text in any encoding: see [`crate::redaction`].
    pub fn redact_text(&self, text: &str) -> String {
        let mut secrets: Vec<(&Name, &String)> = self.0.iter().collect();
        // Longest first: a secret that contains another one is replaced as a whole.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let mut redacted = text.to_owned();
        for (name, value) in secrets {
            redacted = redaction::replace_encoded(&redacted, value, &format!("[secret {name}]"));
        }
        redacted
    }

    /// Redacts the secrets from a JSON value. The placeholder contains no character that JSON escapes.
    pub fn redact_json(&self, value: RawJson) -> RawJson {
        if self.0.is_empty() {
            return value;
        }
        let redacted = self.redact_text(value.as_str());
        RawJson::parse(&redacted).unwrap_or_else(|_| RawJson::from_value(&"[held a secret]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(word: &str) -> Name {
        Name::parse(word).unwrap()
    }

    fn filled(pairs: &[(&str, &str)]) -> SecretValues {
        let mut filled = SecretValues::default();
        for (key, value) in pairs {
            filled.insert(name(key), (*value).to_owned());
        }
        filled
    }

    #[test]
    fn text_without_secrets_stays_plain() {
        let plain = SealedText::Plain("a".to_owned());
        assert_eq!(RawJson::from_value(&plain).as_str(), "\"a\"");
        let holed = SealedText::Holed {
            parts: vec![
                SealedTextPart::Text("Bearer ".to_owned()),
                SealedTextPart::Secret { secret: name("token") },
            ],
        };
        let stored = RawJson::from_value(&holed);
        assert_eq!(stored.as_str(), r#"{"parts":["Bearer ",{"secret":"token"}]}"#);
        assert_eq!(stored.decode::<SealedText>().unwrap(), holed);
        assert_eq!(holed.fill_secrets(&filled(&[("token", "x")])).unwrap(), "Bearer x");
        assert_eq!(holed.fill_secrets(&filled(&[])), Err(MissingSecret(name("token"))));
    }

    #[test]
    fn secrets_fill_their_json_pointers() {
        let value = RawJson::parse(r#"{"a":[null,{"b/c":null}],"d":"x"}"#).unwrap();
        let holes = SecretHoles::from([("/a/1/b~1c".to_owned(), name("k"))]);
        let full = fill_holes(&value, &holes, &filled(&[("k", "s\"ecret")])).unwrap();
        assert_eq!(full.as_str(), r#"{"a":[null,{"b/c":"s\"ecret"}],"d":"x"}"#);
    }

    #[test]
    fn filled_secrets_are_redacted() {
        let filled = filled(&[("k", "s\"e/cret")]);
        let text = "plain s\"e/cret json s\\\"e/cret url s%22e%2Fcret";
        let redacted = filled.redact_text(text);
        assert_eq!(redacted, "plain [secret k] json [secret k] url [secret k]");
        let value = RawJson::parse(r#"{"echo":"s\"e/cret"}"#).unwrap();
        assert_eq!(filled.redact_json(value).as_str(), r#"{"echo":"[secret k]"}"#);
        assert!(!format!("{filled:?}").contains("cret"));
    }
}
