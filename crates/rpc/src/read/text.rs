//! Reads ids and JSON from string fields.

use std::collections::BTreeSet;
use std::fmt;

use millstream_core::id::Name;
use millstream_core::raw::RawJson;

use crate::path::{Faults, Path};

/// How strictly JSON is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Json {
    /// Untrusted: of bounded depth.
    Checked,
    /// From our own store, which checked it before: values beyond today's depth limit must remain readable.
    Stored,
}

/// State of reading one message.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) faults: Faults,
    json: Json,
}

impl Reading {
    pub(crate) fn new(json: Json) -> Self {
        Self { faults: Faults::default(), json }
    }

    pub(crate) fn fault(&mut self, at: &Path<'_>, message: impl fmt::Display) {
        self.faults.add(at, message);
    }

    pub(crate) fn name(&mut self, text: &str, at: &Path<'_>) -> Option<Name> {
        match Name::parse(text) {
            Ok(name) => Some(name),
            Err(error) => {
                self.fault(at, error);
                None
            }
        }
    }

    pub(crate) fn names(&mut self, texts: &[String], at: &Path<'_>) -> BTreeSet<Name> {
        texts.iter().enumerate().filter_map(|(index, text)| self.name(text, &at.at(index))).collect()
    }

    /// The empty string is no value.
    pub(crate) fn json(&mut self, text: &str, at: &Path<'_>) -> Option<RawJson> {
        if text.is_empty() {
            return None;
        }
        let parsed = match self.json {
            Json::Checked => RawJson::parse(text).map_err(|error| error.to_string()),
            Json::Stored => serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}")),
        };
        match parsed {
            Ok(json) => Some(json),
            Err(error) => {
                self.fault(at, error);
                None
            }
        }
    }

    /// For fields whose empty string means null.
    pub(crate) fn json_or_null(&mut self, text: &str, at: &Path<'_>) -> RawJson {
        self.json(text, at).unwrap_or_else(RawJson::null)
    }
}
