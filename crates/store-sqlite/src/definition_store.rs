//! Definitions: versioned, immutable once written.

use millstream_core::id::{DefinitionRef, Name, TenantId};
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};
use sqlx::{Sqlite, SqliteConnection, SqliteExecutor};

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param;

#[async_trait::async_trait]
impl DefinitionStore for SqliteStore {
    async fn put(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> Result<PutDefinition> {
        let mut tx: sqlx::Transaction<'_, Sqlite> = self.write().await?;
        let latest = read_latest(&mut *tx, tenant, &definition.name).await?;
        let version = match latest {
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
        insert_definition(&mut tx, tenant, &stored).await?;
        tx.commit().await.map_err(store_error)?;
        Ok(PutDefinition::Created(stored))
    }

    async fn get(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> Result<Option<StoredDefinition>> {
        const GET: &str = "
            SELECT name AS definition, version, dialect, source, checksum, created_at FROM definitions
            WHERE tenant = ?1 AND name = ?2 AND version = ?3";
        let Some(version) = version else { return read_latest(&self.readers, tenant, name).await };
        let row = sqlx::query(GET)
            .bind(tenant.as_str())
            .bind(name.as_str())
            .bind(version)
            .fetch_optional(&self.readers)
            .await
            .map_err(store_error)?;
        row.map(|row| Fields(&row).stored_definition()).transpose()
    }

    async fn list(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>> {
        const LIST: &str = "
            SELECT d.name AS definition, d.version, d.dialect, d.source, d.checksum, d.created_at
            FROM (SELECT tenant, name, max(version) AS version FROM definitions
                  WHERE tenant = ?1 AND name > ?2
                  GROUP BY name ORDER BY name LIMIT ?3) AS latest
            CROSS JOIN definitions AS d
                ON d.tenant = latest.tenant AND d.name = latest.name AND d.version = latest.version
            ORDER BY d.name";
        let rows = sqlx::query(LIST)
            .bind(tenant.as_str())
            .bind(after.map_or("", Name::as_str))
            .bind(param::limit(limit))
            .fetch_all(&self.readers)
            .await
            .map_err(store_error)?;
        rows.iter().map(|row| Fields(row).stored_definition()).collect()
    }
}

async fn read_latest(
    executor: impl SqliteExecutor<'_>,
    tenant: &TenantId,
    name: &Name,
) -> Result<Option<StoredDefinition>> {
    const READ_LATEST: &str = "
        SELECT name AS definition, version, dialect, source, checksum, created_at FROM definitions
        WHERE tenant = ?1 AND name = ?2
        ORDER BY version DESC LIMIT 1";
    let row = sqlx::query(READ_LATEST)
        .bind(tenant.as_str())
        .bind(name.as_str())
        .fetch_optional(executor)
        .await
        .map_err(store_error)?;
    row.map(|row| Fields(&row).stored_definition()).transpose()
}

async fn insert_definition(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    stored: &StoredDefinition,
) -> Result<()> {
    const INSERT_DEFINITION: &str = "
        INSERT INTO definitions (tenant, name, version, dialect, source, checksum, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    sqlx::query(INSERT_DEFINITION)
        .bind(tenant.as_str())
        .bind(stored.definition.name.as_str())
        .bind(stored.definition.version)
        .bind(stored.dialect)
        .bind(&stored.source)
        .bind(&stored.checksum)
        .bind(stored.created_at.as_millis())
        .execute(connection)
        .await
        .map_err(store_error)?;
    Ok(())
}

impl Fields<'_> {
    fn stored_definition(self) -> Result<StoredDefinition> {
        Ok(StoredDefinition {
            definition: self.definition()?,
            dialect: self.small("dialect")?,
            source: self.text("source")?.to_owned(),
            checksum: self.text("checksum")?.to_owned(),
            created_at: self.time("created_at")?,
        })
    }
}
