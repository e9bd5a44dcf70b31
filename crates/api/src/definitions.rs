//! Definitions: their versions, with and without the source.

use millstream_model::time::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::definition_language::DefinitionDocument;
use crate::scalar;

/// One version of a definition, without its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DefinitionVersion {
    #[schemars(with = "scalar::Name")]
    pub name: String,
    pub version: i32,
    /// Equal for equal definitions.
    pub checksum: String,
    #[schemars(with = "scalar::Time")]
    pub created_at: Timestamp,
}

/// One version of a definition with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DefinitionWithSource", deny_unknown_fields)]
pub struct DefinitionSource<J = Value> {
    #[serde(flatten)]
    pub version: DefinitionVersion,
    /// The source as stored by the server, with defaults spelled out.
    #[schemars(with = "DefinitionDocument")]
    pub definition: J,
}
