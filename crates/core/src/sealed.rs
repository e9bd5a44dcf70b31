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
use crate::redacting;

/// A text that may have holes. A text without holes is stored as a plain string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Phrase {
    Plain(String),
    Holed { parts: Vec<PhrasePart> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PhrasePart {
    Text(String),
    Secret { secret: Name },
}

/// The holes of a JSON value: JSON pointer to secret name. The value is null at each pointer.
pub type Holes = BTreeMap<String, Name>;

/// A referenced secret does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no secret {:?}", .0.as_str())]
pub struct MissingSecret(pub Name);

/// The secret values of one attempt, by name. `Debug` prints the names only.
#[derive(Default)]
pub struct Filled(BTreeMap<Name, String>);

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Phrase {
    /// The names of the secrets in its holes.
    pub fn secrets(&self) -> impl Iterator<Item = &Name> {
        let parts: &[PhrasePart] = match self {
            Self::Plain(_) => &[],
            Self::Holed { parts } => parts,
        };
        parts.iter().filter_map(|part| match part {
            PhrasePart::Text(_) => None,
            PhrasePart::Secret { secret } => Some(secret),
        })
    }

    pub fn fill(&self, secrets: &Filled) -> Result<String, MissingSecret> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Holed { parts } => parts
                .iter()
                .map(|part| match part {
                    PhrasePart::Text(text) => Ok(text.as_str()),
                    PhrasePart::Secret { secret } => secrets.get(secret),
                })
                .collect(),
        }
    }
}

/// Fills the holes of a value.
pub fn fill(value: &RawJson, holes: &Holes, secrets: &Filled) -> Result<RawJson, MissingSecret> {
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
    Ok(RawJson::of(&tree))
}

impl Filled {
    pub fn insert(&mut self, name: Name, value: String) {
        self.0.insert(name, value);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn get(&self, name: &Name) -> Result<&str, MissingSecret> {
        self.0.get(name).map(String::as_str).ok_or_else(|| MissingSecret(name.clone()))
    }

    pub fn value(&self, name: &Name) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Redacts the secrets from a text in any encoding: see [`crate::redacting`].
    pub fn redact(&self, text: &str) -> String {
        let mut secrets: Vec<(&Name, &String)> = self.0.iter().collect();
        // Longest first: a secret that contains another one is replaced as a whole.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let mut redacted = text.to_owned();
        for (name, value) in secrets {
            redacted = redacting::replace(&redacted, value, &format!("[secret {name}]"));
        }
        redacted
    }

    /// Redacts the secrets from a JSON value. The placeholder contains no character that JSON escapes.
    pub fn redact_json(&self, value: RawJson) -> RawJson {
        if self.0.is_empty() {
            return value;
        }
        let redacted = self.redact(value.as_str());
        RawJson::parse(&redacted).unwrap_or_else(|_| RawJson::of(&"[held a secret]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(word: &str) -> Name {
        Name::parse(word).unwrap()
    }

    fn filled(pairs: &[(&str, &str)]) -> Filled {
        let mut filled = Filled::default();
        for (key, value) in pairs {
            filled.insert(name(key), (*value).to_owned());
        }
        filled
    }

    #[test]
    fn a_text_without_holes_is_stored_as_a_text() {
        let plain = Phrase::Plain("a".to_owned());
        assert_eq!(RawJson::of(&plain).as_str(), "\"a\"");
        let holed = Phrase::Holed {
            parts: vec![PhrasePart::Text("Bearer ".to_owned()), PhrasePart::Secret { secret: name("token") }],
        };
        let stored = RawJson::of(&holed);
        assert_eq!(stored.as_str(), r#"{"parts":["Bearer ",{"secret":"token"}]}"#);
        assert_eq!(stored.decode::<Phrase>().unwrap(), holed);
        assert_eq!(holed.fill(&filled(&[("token", "x")])).unwrap(), "Bearer x");
        assert_eq!(holed.fill(&filled(&[])), Err(MissingSecret(name("token"))));
    }

    #[test]
    fn a_value_is_filled_where_the_definition_says() {
        let value = RawJson::parse(r#"{"a":[null,{"b/c":null}],"d":"x"}"#).unwrap();
        let holes = Holes::from([("/a/1/b~1c".to_owned(), name("k"))]);
        let full = fill(&value, &holes, &filled(&[("k", "s\"ecret")])).unwrap();
        assert_eq!(full.as_str(), r#"{"a":[null,{"b/c":"s\"ecret"}],"d":"x"}"#);
    }

    #[test]
    fn what_was_filled_in_is_taken_out_in_every_form() {
        let filled = filled(&[("k", "s\"e/cret")]);
        let text = "plain s\"e/cret json s\\\"e/cret url s%22e%2Fcret";
        let redacted = filled.redact(text);
        assert_eq!(redacted, "plain [secret k] json [secret k] url [secret k]");
        let value = RawJson::parse(r#"{"echo":"s\"e/cret"}"#).unwrap();
        assert_eq!(filled.redact_json(value).as_str(), r#"{"echo":"[secret k]"}"#);
        assert!(!format!("{filled:?}").contains("cret"));
    }
}
