//! Documents that are stored as they were written, as YAML or JSON.

use millstream_model::document::SourceFormat;
use serde::de::DeserializeOwned;

use super::transport::{ApiRequest, ApiResponse};
use crate::client_error::ClientError;

/// A stored document, and whether its name is new or has a new version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredSource<T> {
    /// 201.
    Created(T),
    /// 200: it was stored before, or replaced.
    Present(T),
}

impl<T> StoredSource<T> {
    pub fn into_document(self) -> T {
        match self {
            Self::Created(document) | Self::Present(document) => document,
        }
    }
}

impl<T: DeserializeOwned> StoredSource<T> {
    pub(super) fn of_response(answer: &ApiResponse) -> Result<Self, ClientError> {
        let document = answer.json()?;
        Ok(if answer.status == 201 { Self::Created(document) } else { Self::Present(document) })
    }
}

impl ApiRequest {
    /// The text is sent unparsed: the server validates it.
    pub(super) fn with_source(self, format: SourceFormat, text: String) -> Self {
        let media = match format {
            SourceFormat::Json => "application/json",
            SourceFormat::Yaml => "application/yaml",
        };
        self.with_body(media, text)
    }
}
