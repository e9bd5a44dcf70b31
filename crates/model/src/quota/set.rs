//! The quotas of one layer: a row, or a section of the settings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::name::QuotaName;
use super::value::QuotaValue;
use crate::problem::{ValidationProblem, ValidationProblems};

/// Values by name; an absent name is left to the layer below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaSet(BTreeMap<QuotaName, QuotaValue>);

impl QuotaSet {
    pub fn get(&self, name: QuotaName) -> Option<QuotaValue> {
        self.0.get(&name).copied()
    }

    #[must_use]
    pub fn with(mut self, name: QuotaName, value: QuotaValue) -> Self {
        self.0.insert(name, value);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads an object of names and values. `path` locates it in problems; null leaves the name to the layer
    /// below.
    pub fn read(object: &Value, path: &str) -> Result<Self, ValidationProblems> {
        let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let Value::Object(fields) = object else {
            return Err(ValidationProblem::new(path, "must be an object of quotas by name").into());
        };
        let (mut set, mut wrong) = (Self::default(), Vec::new());
        for (word, value) in fields {
            match QuotaName::parse_or_suggest(word).and_then(|name| Ok((name, read_value(name, value)?))) {
                Ok((name, Some(value))) => drop(set.0.insert(name, value)),
                Ok((_, None)) => {}
                Err(message) => wrong.push(ValidationProblem::new(at(word), message)),
            }
        }
        if wrong.is_empty() { Ok(set) } else { Err(ValidationProblems(wrong)) }
    }

    /// Reads a stored set. Unknown names and values were written by a newer build and are skipped.
    pub fn read_stored(text: &str) -> Result<Self, serde_json::Error> {
        let fields: BTreeMap<String, Value> = serde_json::from_str(text)?;
        let known = fields.into_iter().filter_map(|(word, value)| {
            let name = QuotaName::parse(&word)?;
            Some((name, read_value(name, &value).ok()??))
        });
        Ok(Self(known.collect()))
    }

    pub fn to_json(&self) -> Value {
        let fields = self.0.iter().map(|(name, value)| (name.as_str().to_owned(), value.to_json(*name)));
        Value::Object(fields.collect())
    }
}

fn read_value(name: QuotaName, value: &Value) -> Result<Option<QuotaValue>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => match number.as_u64() {
            Some(number) => QuotaValue::of_number(name, number).map(Some),
            None => Err(format!("must be a whole number, not {number}")),
        },
        Value::String(text) => QuotaValue::of_text(name, text).map(Some),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err("must be a number or a text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quota_set_reports_every_problem() {
        let wrong =
            QuotaSet::read(&json!({"wait": 1, "devices": -1, "streams": "3/4", "waits": true}), "quota");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "quota.devices: must be a whole number, not -1; \
             quota.wait: there is no quota \"wait\" (did you mean \"waits\"?); \
             quota.waits: must be a number or a text"
        );
        assert!(QuotaSet::read(&json!([]), "").is_err());
    }

    #[test]
    fn newer_quota_set_skips_unknown_names() {
        let set = QuotaSet::read_stored(r#"{"waits": "1/2", "tomorrow": 1, "devices": "some"}"#).unwrap();
        assert_eq!(set, QuotaSet::default().with(QuotaName::Waits, QuotaValue::Share { parts: 1, of: 2 }));
        assert_eq!(QuotaSet::read_stored(&set.to_json().to_string()).unwrap(), set);
        assert!(QuotaSet::read_stored("[]").is_err());
    }
}
