//! Reads ids and JSON from string fields.

use std::collections::BTreeSet;
use std::fmt;

use millstream_model::id::Name;
use millstream_model::raw::RawJson;

use crate::path::{FieldPath, MessageFaults};

/// How strictly JSON is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonOrigin {
    /// Untrusted: of bounded depth.
    Checked,
    /// From our own store, which checked it before: values beyond today's depth limit must remain readable.
    Stored,
}

/// State of reading one message.
#[derive(Debug)]
pub(crate) struct MessageReader {
    pub(crate) faults: MessageFaults,
    json: JsonOrigin,
}

impl MessageReader {
    pub(crate) fn new(json: JsonOrigin) -> Self {
        Self { faults: MessageFaults::default(), json }
    }

    pub(crate) fn add_fault(&mut self, at: &FieldPath<'_>, message: impl fmt::Display) {
        self.faults.add(at, message);
    }

    pub(crate) fn read_name(&mut self, text: &str, at: &FieldPath<'_>) -> Option<Name> {
        match Name::parse(text) {
            Ok(name) => Some(name),
            Err(error) => {
                self.add_fault(at, error);
                None
            }
        }
    }

    pub(crate) fn read_names(&mut self, texts: &[String], at: &FieldPath<'_>) -> BTreeSet<Name> {
        texts.iter().enumerate().filter_map(|(index, text)| self.read_name(text, &at.at(index))).collect()
    }

    /// The empty string is no value.
    pub(crate) fn read_json(&mut self, text: &str, at: &FieldPath<'_>) -> Option<RawJson> {
        if text.is_empty() {
            return None;
        }
        let parsed = match self.json {
            JsonOrigin::Checked => RawJson::parse(text).map_err(|error| error.to_string()),
            JsonOrigin::Stored => {
                serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))
            }
        };
        match parsed {
            Ok(json) => Some(json),
            Err(error) => {
                self.add_fault(at, error);
                None
            }
        }
    }

    /// For fields whose empty string means null.
    pub(crate) fn read_json_or_null(&mut self, text: &str, at: &FieldPath<'_>) -> RawJson {
        self.read_json(text, at).unwrap_or_else(RawJson::null)
    }
}
