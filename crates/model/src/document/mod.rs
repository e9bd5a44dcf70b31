//! Documents that users write in YAML or JSON: one small tree for both, and a reader that reports every problem.
//!
//! The parsers stop hostile input: size ([`MAX_SOURCE_BYTES`]), nesting and aliases are limited. What a field
//! means is the business of the module that reads it: definitions, graphs, queues.

mod as_json;
mod node;
mod reader;
mod source;
mod yaml;

pub use as_json::as_json;
pub use node::{DocumentNode, parse_document};
pub use reader::{DocumentFields, DocumentReader, check_integers, join_path};
pub use source::{MAX_SOURCE_BYTES, SourceFormat};
