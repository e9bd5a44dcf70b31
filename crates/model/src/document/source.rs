//! The source text of a document: its format and its size limit.

/// The source text, YAML or JSON, and the stored canonical text of a definition.
pub const MAX_SOURCE_BYTES: usize = 256 * 1024;

/// Source format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    Json,
    Yaml,
}
