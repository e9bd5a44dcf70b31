//! Definitions: stored, read, listed.

use millstream_api::definitions::{DefinitionSource, DefinitionVersion};
use millstream_model::document::SourceFormat;
use serde::Serialize;

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::stored_source::StoredSource;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

impl Client {
    /// Stores a definition in YAML as the next version of its name. A definition equal to the latest version
    /// creates no new one.
    pub async fn apply_yaml(&self, source: impl Into<String>) -> Result<DefinitionVersion, ClientError> {
        // Idempotent: a repetition equals the latest version and stores nothing.
        let ask = ApiRequest::post("/v1/definitions", RepeatPolicy::Always);
        self.send_request(&ask.with_body("application/yaml", source.into())).await?.json()
    }

    /// The same for a definition in JSON, or any value that serialises to one.
    pub async fn apply_json(&self, source: &impl Serialize) -> Result<DefinitionVersion, ClientError> {
        let ask =
            ApiRequest::post("/v1/definitions", RepeatPolicy::Always).with_json(json::json_body(source)?);
        self.send_request(&ask).await?.json()
    }

    /// The same for the text of a file. The answer says whether the version is new.
    pub async fn apply_source(
        &self,
        format: SourceFormat,
        text: impl Into<String>,
    ) -> Result<StoredSource<DefinitionVersion>, ClientError> {
        let ask = ApiRequest::post("/v1/definitions", RepeatPolicy::Always);
        StoredSource::of_response(&self.send_request(&ask.with_source(format, text.into())).await?)
    }

    /// The latest version.
    pub async fn definition(&self, name: &str) -> Result<DefinitionSource, ClientError> {
        self.send_request(&ApiRequest::get(format!("/v1/definitions/{}", path_segment(name)))).await?.json()
    }

    pub async fn definition_version(
        &self,
        name: &str,
        version: i32,
    ) -> Result<DefinitionSource, ClientError> {
        let path = format!("/v1/definitions/{}/versions/{version}", path_segment(name));
        self.send_request(&ApiRequest::get(path)).await?.json()
    }

    /// The latest version of every definition, by name.
    pub fn definitions(&self) -> PagedList<DefinitionVersion> {
        PagedList::new(self, ApiRequest::get("/v1/definitions"))
    }
}
