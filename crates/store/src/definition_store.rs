//! Definitions: versioned, immutable once written.

use millstream_model::id::{DefinitionRef, Name, TenantId};
use millstream_model::time::Timestamp;

use crate::StoreResult;

#[async_trait::async_trait]
pub trait DefinitionStore: Send + Sync {
    /// Store a definition as the next version, or return the latest version when it is equal to it
    /// (by checksum). Concurrent puts of one name get distinct versions.
    async fn put_definition(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> StoreResult<PutDefinition>;

    /// One version, or the latest.
    async fn get_definition(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<StoredDefinition>>;

    /// The latest version of each name, by name, after `after`.
    async fn list_definitions(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>>;
}

#[derive(Debug, Clone)]
pub struct NewDefinition {
    pub name: Name,
    /// The dialect it is written in.
    pub dialect: i32,
    /// Canonical JSON.
    pub source: String,
    pub checksum: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDefinition {
    pub definition: DefinitionRef,
    pub dialect: i32,
    pub source: String,
    pub checksum: String,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutDefinition {
    Created(StoredDefinition),
    Unchanged(StoredDefinition),
}
