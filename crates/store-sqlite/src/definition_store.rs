//! Definitions: versioned, immutable once written.

use millstream_model::id::{DefinitionRef, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::{self, FreeText};

#[async_trait::async_trait]
impl DefinitionStore for SqliteStore {
    async fn put_definition(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> StoreResult<PutDefinition> {
        let (tenant, definition) = (tenant.clone(), definition.clone());
        self.write_transaction(move |connection| {
            let version = match read_latest(connection, &tenant, &definition.name)? {
                Some(latest) if latest.checksum == definition.checksum => {
                    return Ok(PutDefinition::Unchanged(latest));
                }
                Some(latest) => latest.definition.version + 1,
                None => 1,
            };
            let stored = StoredDefinition {
                definition: DefinitionRef { name: definition.name.clone(), version },
                dialect: definition.dialect,
                source: definition.source.clone(),
                checksum: definition.checksum.clone(),
                created_at: now,
            };
            insert_definition(connection, &tenant, &stored)?;
            Ok(PutDefinition::Created(stored))
        })
        .await
    }

    async fn get_definition(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<StoredDefinition>> {
        const GET: &str = "
            SELECT name AS definition, version, dialect, source, checksum, created_at FROM definitions
            WHERE tenant = ?1 AND name = ?2 AND version = ?3";
        let (tenant, name) = (tenant.clone(), name.clone());
        self.read_transaction(move |connection| {
            let Some(version) = version else { return read_latest(connection, &tenant, &name) };
            let mut get = connection.prepare_cached(GET)?;
            let mut rows = get.query((tenant.as_str(), name.as_str(), version))?;
            rows.next()?.map(|row| SqliteFields(row).stored_definition()).transpose()
        })
        .await
    }

    async fn list_definitions(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        const LIST: &str = "
            SELECT d.name AS definition, d.version, d.dialect, d.source, d.checksum, d.created_at
            FROM (SELECT tenant, name, max(version) AS version FROM definitions
                  WHERE tenant = ?1 AND name > ?2
                  GROUP BY name ORDER BY name LIMIT ?3) AS latest
            CROSS JOIN definitions AS d
                ON d.tenant = latest.tenant AND d.name = latest.name AND d.version = latest.version
            ORDER BY d.name";
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(LIST)?;
            let after = after.as_ref().map_or("", Name::as_str);
            let mut rows = list.query((tenant.as_str(), after, param::limit(limit)))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(SqliteFields(row).stored_definition()?);
            }
            Ok(found)
        })
        .await
    }
}

fn read_latest(
    connection: &Connection,
    tenant: &TenantId,
    name: &Name,
) -> SqliteResult<Option<StoredDefinition>> {
    const READ_LATEST: &str = "
        SELECT name AS definition, version, dialect, source, checksum, created_at FROM definitions
        WHERE tenant = ?1 AND name = ?2
        ORDER BY version DESC LIMIT 1";
    let mut read = connection.prepare_cached(READ_LATEST)?;
    let mut rows = read.query((tenant.as_str(), name.as_str()))?;
    rows.next()?.map(|row| SqliteFields(row).stored_definition()).transpose()
}

fn insert_definition(
    connection: &Connection,
    tenant: &TenantId,
    stored: &StoredDefinition,
) -> SqliteResult<()> {
    const INSERT_DEFINITION: &str = "
        INSERT INTO definitions (tenant, name, version, dialect, source, checksum, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.prepare_cached(INSERT_DEFINITION)?.execute((
        tenant.as_str(),
        stored.definition.name.as_str(),
        stored.definition.version,
        stored.dialect,
        FreeText(&stored.source),
        FreeText(&stored.checksum),
        stored.created_at.as_millis(),
    ))?;
    Ok(())
}

impl SqliteFields<'_> {
    fn stored_definition(self) -> SqliteResult<StoredDefinition> {
        Ok(StoredDefinition {
            definition: self.definition()?,
            dialect: self.small("dialect")?,
            source: self.text("source")?.to_owned(),
            checksum: self.text("checksum")?.to_owned(),
            created_at: self.time("created_at")?,
        })
    }
}
