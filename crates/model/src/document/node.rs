//! The document tree shared by YAML and JSON.
//!
//! Keys keep their order and their duplicates, so that `read` can report a duplicate with its path.
//! Numbers are `i64` or a finite `f64`; a whole number that fits neither is kept as text and refused by the
//! readers, because rounding a user's number silently is worse than refusing it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::source::{MAX_SOURCE_BYTES, SourceFormat};
use super::yaml;
use crate::problem::{ValidationProblem, ValidationProblems};
use crate::raw::RawJson;

#[derive(Debug, Clone, PartialEq)]
pub enum DocumentNode {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    /// A whole number beyond `i64`.
    Huge(String),
    Text(String),
    List(Vec<DocumentNode>),
    Map(Vec<(String, DocumentNode)>),
}

/// Parses a text into a tree. Reports at most one problem: parsing stops at the first syntax error.
pub fn parse_document(source: &str, format: SourceFormat) -> Result<DocumentNode, ValidationProblems> {
    if source.len() > MAX_SOURCE_BYTES {
        let message = format!("is {} bytes long, at most {MAX_SOURCE_BYTES} are allowed", source.len());
        return Err(ValidationProblem::new("", message).into());
    }
    match format {
        SourceFormat::Json => parse_json(source),
        SourceFormat::Yaml => yaml::parse(source),
    }
    .map_err(|message| ValidationProblem::new("", message).into())
}

fn parse_json(source: &str) -> Result<DocumentNode, String> {
    let raw = RawJson::parse(source).map_err(|error| error.to_string())?;
    raw.decode().map_err(|error| format!("not valid JSON: {error}"))
}

impl DocumentNode {
    /// The kind of the node, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Double(_) | Self::Huge(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Appends the tree as canonical JSON, with sorted keys and no whitespace.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            Self::Int(int) => out.push_str(&int.to_string()),
            // Infallible: doubles are finite, and strings always serialize.
            Self::Double(double) => out.push_str(&serde_json::to_string(double).unwrap_or_default()),
            Self::Huge(digits) => out.push_str(digits),
            Self::Text(text) => out.push_str(&serde_json::to_string(text).unwrap_or_default()),
            Self::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.push(']');
            }
            Self::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                out.push('{');
                for (n, (key, value)) in entries.into_iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    out.push_str(&serde_json::to_string(key).unwrap_or_default());
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }
}

impl<'de> Deserialize<'de> for DocumentNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentNodeVisitor)
    }
}

struct DocumentNodeVisitor;

impl<'de> Visitor<'de> for DocumentNodeVisitor {
    type Value = DocumentNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map, a list, a string, a number, true, false or null")
    }

    fn visit_unit<E>(self) -> Result<DocumentNode, E> {
        Ok(DocumentNode::Null)
    }

    fn visit_none<E>(self) -> Result<DocumentNode, E> {
        Ok(DocumentNode::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<DocumentNode, D::Error> {
        DocumentNode::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<DocumentNode, E> {
        Ok(DocumentNode::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<DocumentNode, E> {
        Ok(DocumentNode::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<DocumentNode, E> {
        Ok(i64::try_from(value).map_or_else(|_| DocumentNode::Huge(value.to_string()), DocumentNode::Int))
    }

    fn visit_i128<E>(self, value: i128) -> Result<DocumentNode, E> {
        Ok(i64::try_from(value).map_or_else(|_| DocumentNode::Huge(value.to_string()), DocumentNode::Int))
    }

    fn visit_u128<E>(self, value: u128) -> Result<DocumentNode, E> {
        Ok(i64::try_from(value).map_or_else(|_| DocumentNode::Huge(value.to_string()), DocumentNode::Int))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<DocumentNode, E> {
        if value.is_finite() {
            Ok(DocumentNode::Double(value))
        } else {
            Err(E::custom("a number must be finite"))
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<DocumentNode, E> {
        Ok(DocumentNode::text(value))
    }

    fn visit_string<E>(self, value: String) -> Result<DocumentNode, E> {
        Ok(DocumentNode::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<DocumentNode, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(DocumentNode::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<DocumentNode, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.push((key, entries.next_value()?));
        }
        Ok(DocumentNode::Map(map))
    }
}
