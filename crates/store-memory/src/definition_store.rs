//! Definitions, in memory.

use millstream_model::id::{DefinitionRef, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};

use crate::MemoryStore;

#[async_trait::async_trait]
impl DefinitionStore for MemoryStore {
    async fn put_definition(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> StoreResult<PutDefinition> {
        let mut tables = self.lock_tables();
        let versions = tables.definitions.entry((tenant.clone(), definition.name.clone())).or_default();
        let latest = versions.last();
        if let Some(latest) = latest.filter(|latest| latest.checksum == definition.checksum) {
            return Ok(PutDefinition::Unchanged(latest.clone()));
        }
        let version = latest.map_or(1, |latest| latest.definition.version + 1);
        let stored = StoredDefinition {
            definition: DefinitionRef { name: definition.name.clone(), version },
            dialect: definition.dialect,
            source: definition.source.clone(),
            checksum: definition.checksum.clone(),
            created_at: now,
        };
        versions.push(stored.clone());
        Ok(PutDefinition::Created(stored))
    }

    async fn get_definition(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<StoredDefinition>> {
        let tables = self.lock_tables();
        let versions = tables.definitions.get(&(tenant.clone(), name.clone()));
        Ok(versions.and_then(|versions| match version {
            None => versions.last().cloned(),
            Some(version) => versions.iter().find(|stored| stored.definition.version == version).cloned(),
        }))
    }

    async fn list_definitions(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        let tables = self.lock_tables();
        Ok(tables
            .definitions
            .iter()
            .filter(|((owner, name), _)| owner == tenant && after.is_none_or(|after| name > after))
            .filter_map(|(_, versions)| versions.last().cloned())
            .take(limit)
            .collect())
    }
}
