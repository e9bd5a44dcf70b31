//! Definitions: versioned, immutable once written.
//!
//! Concurrent puts of one definition are serialised by a lock.

use async_trait::async_trait;
use millstream_model::id::{DefinitionRef, Name, TenantId};
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::definition_store::{DefinitionStore, NewDefinition, PutDefinition, StoredDefinition};
use sqlx::postgres::PgRow;
use sqlx::{PgExecutor, PgPool, Row};

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};

#[async_trait]
impl DefinitionStore for PostgresStore {
    async fn put_definition(
        &self,
        tenant: &TenantId,
        definition: &NewDefinition,
        now: Timestamp,
    ) -> StoreResult<PutDefinition> {
        self.with_retries(|| put_version(&self.warm, tenant, definition, now)).await
    }

    async fn get_definition(
        &self,
        tenant: &TenantId,
        name: &Name,
        version: Option<i32>,
    ) -> StoreResult<Option<StoredDefinition>> {
        self.without_retries(async {
            match version {
                Some(version) => read_version(&self.pool, tenant, name, version).await,
                None => read_latest(&self.pool, tenant, name).await,
            }
        })
        .await
    }

    async fn list_definitions(
        &self,
        tenant: &TenantId,
        after: Option<&Name>,
        limit: usize,
    ) -> StoreResult<Vec<StoredDefinition>> {
        self.without_retries(list_latest(&self.pool, tenant, after, limit)).await
    }
}

async fn put_version(
    warm: &WarmConnections,
    tenant: &TenantId,
    definition: &NewDefinition,
    now: Timestamp,
) -> PostgresResult<PutDefinition> {
    const INSERT: &str = "
INSERT INTO definitions (tenant, name, version, dialect, source, checksum, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, name, version) DO NOTHING";
    const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 6))";
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    sqlx::query(LOCK).bind(tenant.as_str()).bind(definition.name.as_str()).execute(&mut *transaction).await?;
    let latest = read_latest(&mut *transaction, tenant, &definition.name).await?;
    if let Some(latest) = latest.as_ref().filter(|latest| latest.checksum == definition.checksum) {
        transaction.rollback().await?;
        return Ok(PutDefinition::Unchanged(latest.clone()));
    }
    let stored = StoredDefinition {
        definition: DefinitionRef {
            name: definition.name.clone(),
            version: latest.map_or(1, |latest| latest.definition.version + 1),
        },
        dialect: definition.dialect,
        source: definition.source.clone(),
        checksum: definition.checksum.clone(),
        created_at: now,
    };
    let inserted = sqlx::query(INSERT)
        .bind(tenant.as_str())
        .bind(stored.definition.name.as_str())
        .bind(stored.definition.version)
        .bind(stored.dialect)
        .bind(&stored.source)
        .bind(&stored.checksum)
        .bind(now.as_millis())
        .execute(&mut *transaction)
        .await?;
    if inserted.rows_affected() == 0 {
        // By a build that does not take the lock.
        return Err(PostgresFailure::Unsettled("a concurrent put took the definition's version"));
    }
    transaction.commit().await?;
    Ok(PutDefinition::Created(stored))
}

async fn read_latest(
    executor: impl PgExecutor<'_>,
    tenant: &TenantId,
    name: &Name,
) -> PostgresResult<Option<StoredDefinition>> {
    const READ: &str = "
SELECT name AS definition, version, dialect, source, checksum, created_at
FROM definitions WHERE tenant = $1 AND name = $2
ORDER BY version DESC LIMIT 1";
    let row = sqlx::query(READ).bind(tenant.as_str()).bind(name.as_str()).fetch_optional(executor).await?;
    row.as_ref().map(decode_definition).transpose()
}

async fn read_version(
    pool: &PgPool,
    tenant: &TenantId,
    name: &Name,
    version: i32,
) -> PostgresResult<Option<StoredDefinition>> {
    const READ: &str = "
SELECT name AS definition, version, dialect, source, checksum, created_at
FROM definitions WHERE tenant = $1 AND name = $2 AND version = $3";
    let row = sqlx::query(READ)
        .bind(tenant.as_str())
        .bind(name.as_str())
        .bind(version)
        .fetch_optional(pool)
        .await?;
    row.as_ref().map(decode_definition).transpose()
}

async fn list_latest(
    pool: &PgPool,
    tenant: &TenantId,
    after: Option<&Name>,
    limit: usize,
) -> PostgresResult<Vec<StoredDefinition>> {
    const LIST: &str = "
SELECT DISTINCT ON (name) name AS definition, version, dialect, source, checksum, created_at
FROM definitions WHERE tenant = $1 AND name > $2
ORDER BY name, version DESC LIMIT $3";
    let rows = sqlx::query(LIST)
        .bind(tenant.as_str())
        .bind(after.map_or("", Name::as_str))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(pool)
        .await?;
    rows.iter().map(decode_definition).collect()
}

fn decode_definition(row: &PgRow) -> PostgresResult<StoredDefinition> {
    Ok(StoredDefinition {
        definition: decode::definition_ref(row)?,
        dialect: row.try_get("dialect")?,
        source: row.try_get("source")?,
        checksum: row.try_get("checksum")?,
        created_at: decode::time(row, "created_at")?,
    })
}
