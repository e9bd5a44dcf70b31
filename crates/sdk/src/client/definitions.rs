//! Definitions: stored, read, listed.

use serde::Serialize;

use super::answer::{Definition, DefinitionVersion};
use super::connect::Client;
use super::error::ClientError;
use super::json;
use super::listing::List;
use super::transport::{Ask, Repeat, segment};

impl Client {
    /// Stores a definition in YAML as the next version of its name. A definition equal to the latest version
    /// creates no new one.
    pub async fn apply_yaml(&self, source: impl Into<String>) -> Result<DefinitionVersion, ClientError> {
        // Idempotent: a repetition equals the latest version and stores nothing.
        let ask = Ask::post("/v1/definitions", Repeat::Always);
        self.ask(&ask.body("application/yaml", source.into())).await?.json()
    }

    /// The same for a definition in JSON, or any value that serialises to one.
    pub async fn apply_json(&self, source: &impl Serialize) -> Result<DefinitionVersion, ClientError> {
        let ask = Ask::post("/v1/definitions", Repeat::Always).json(json::body(source)?);
        self.ask(&ask).await?.json()
    }

    /// The latest version.
    pub async fn definition(&self, name: &str) -> Result<Definition, ClientError> {
        self.ask(&Ask::get(format!("/v1/definitions/{}", segment(name)))).await?.json()
    }

    pub async fn definition_version(&self, name: &str, version: i32) -> Result<Definition, ClientError> {
        let path = format!("/v1/definitions/{}/versions/{version}", segment(name));
        self.ask(&Ask::get(path)).await?.json()
    }

    /// The latest version of every definition, by name.
    pub fn definitions(&self) -> List<DefinitionVersion> {
        List::new(self, Ask::get("/v1/definitions"))
    }
}
