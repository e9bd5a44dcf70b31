//! API keys: stored hashed. A key of an operator has the empty text as its tenant.

use async_trait::async_trait;
use millstream_model::id::TenantId;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::key_store::{
    KeyChoice, KeyFilter, KeyHash, KeyId, KeyPlace, KeyRotation, KeyStore, KeySuccession, KeyView, NewKey,
    rotated_name,
};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::connect::PostgresStore;
use crate::connection_cache::WarmConnections;
use crate::decode;
use crate::errors::{PostgresFailure, PostgresResult};

#[async_trait]
impl KeyStore for PostgresStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        self.with_retries(|| create_key(&self.warm, key, now)).await
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        const FIND: &str = "
SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to, created_by
FROM api_keys WHERE hash = ANY($1) AND revoked_at IS NULL";
        self.without_retries(async {
            let wanted: Vec<&[u8]> = hashes.iter().map(|hash| &hash[..]).collect();
            let rows = sqlx::query(FIND).bind(wanted).fetch_all(&self.pool).await?;
            let found: Vec<KeyView> = rows.iter().map(decode_key).collect::<PostgresResult<_>>()?;
            let find = |hash: &KeyHash| found.iter().find(|view| view.hash == *hash).cloned();
            Ok(hashes.iter().map(find).collect())
        })
        .await
    }

    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>> {
        const LIST: &str = "
SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to, created_by
FROM api_keys
WHERE ($1::text IS NULL OR tenant = $1)
    AND ($2::bigint IS NULL OR created_at < $2 OR (created_at = $2 AND hash > $3))
ORDER BY created_at DESC, hash LIMIT $4";
        let tenant = match of {
            KeyFilter::All => None,
            KeyFilter::Tenant(tenant) => Some(tenant.as_str()),
        };
        self.without_retries(async {
            let rows = sqlx::query(LIST)
                .bind(tenant)
                .bind(after.map(|after| after.created_at.as_millis()))
                .bind(after.map(|after| after.id.hash_range().1.to_vec()))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX))
                .fetch_all(&self.pool)
                .await?;
            rows.iter().map(decode_key).collect()
        })
        .await
    }

    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>> {
        const FIND_BY_ID: &str = "
SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to, created_by
FROM api_keys WHERE hash >= $1 AND hash <= $2 ORDER BY hash LIMIT 1";
        let (low, high) = id.hash_range();
        self.without_retries(async {
            let row =
                sqlx::query(FIND_BY_ID).bind(&low[..]).bind(&high[..]).fetch_optional(&self.pool).await?;
            row.as_ref().map(decode_key).transpose()
        })
        .await
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        which: &KeyChoice,
        now: Timestamp,
    ) -> StoreResult<bool> {
        const BY_NAME: &str = "
UPDATE api_keys SET revoked_at = $3
WHERE tenant = $1 AND COALESCE(shown_name, name) = $2 AND revoked_at IS NULL";
        const BY_ID: &str = "
UPDATE api_keys SET revoked_at = $4
WHERE tenant = $1 AND hash >= $2 AND hash <= $3 AND revoked_at IS NULL";
        let tenant = stored_tenant(tenant);
        self.without_retries(async {
            let query = match which {
                KeyChoice::Name(name) => {
                    sqlx::query(BY_NAME).bind(tenant).bind(name.as_str()).bind(now.as_millis())
                }
                KeyChoice::Id(id) => {
                    let (low, high) = id.hash_range();
                    let query = sqlx::query(BY_ID).bind(tenant).bind(low.to_vec()).bind(high.to_vec());
                    query.bind(now.as_millis())
                }
            };
            Ok(query.execute(&self.pool).await?.rows_affected() > 0)
        })
        .await
    }

    async fn keys_exist(&self) -> StoreResult<bool> {
        const EXIST: &str = "SELECT EXISTS (SELECT FROM api_keys)";
        self.without_retries(async { Ok(sqlx::query_scalar(EXIST).fetch_one(&self.pool).await?) }).await
    }

    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool> {
        self.with_retries(|| rotate_key(&self.warm, rotation, now)).await
    }

    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE: &str = "
DELETE FROM api_keys WHERE hash IN (
    SELECT hash FROM api_keys
    WHERE (revoked_at < $1 OR expires_at < $1)
        AND hash <> (SELECT hash FROM api_keys ORDER BY created_at DESC, hash LIMIT 1)
    LIMIT $2)";
        self.without_retries(async {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let purge = sqlx::query(PURGE).bind(before.as_millis()).bind(limit);
            Ok(purge.execute(&self.pool).await?.rows_affected())
        })
        .await
    }

    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()> {
        const RECORD: &str = "
UPDATE api_keys SET last_used_at = used.at
FROM unnest($1::bytea[], $2::bigint[]) AS used (hash, at)
WHERE api_keys.hash = used.hash AND (api_keys.last_used_at IS NULL OR api_keys.last_used_at < used.at)";
        let hashes: Vec<&[u8]> = uses.iter().map(|(hash, _)| &hash[..]).collect();
        let times: Vec<i64> = uses.iter().map(|(_, at)| at.as_millis()).collect();
        self.without_retries(async {
            sqlx::query(RECORD).bind(hashes).bind(times).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }
}

fn stored_tenant(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

async fn create_key(warm: &WarmConnections, key: &NewKey, now: Timestamp) -> PostgresResult<bool> {
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    let created = insert_key(&mut transaction, key, now).await?;
    transaction.commit().await?;
    Ok(created)
}

/// An expired key of the name gives it up.
async fn insert_key(connection: &mut PgConnection, key: &NewKey, now: Timestamp) -> PostgresResult<bool> {
    const EXPIRE: &str = "
UPDATE api_keys SET revoked_at = expires_at
WHERE tenant = $1 AND name = $2 AND revoked_at IS NULL AND expires_at <= $3";
    const TENANT: &str =
        "INSERT INTO tenants (tenant, created_at) VALUES ($1, $2) ON CONFLICT (tenant) DO NOTHING";
    const INSERT: &str = "
INSERT INTO api_keys (hash, tenant, name, role, created_at, expires_at, bound_to, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING";
    let tenant = stored_tenant(key.tenant.as_ref());
    sqlx::query(EXPIRE).bind(tenant).bind(&key.name).bind(now.as_millis()).execute(&mut *connection).await?;
    if let Some(tenant) = &key.tenant {
        sqlx::query(TENANT).bind(tenant.as_str()).bind(now.as_millis()).execute(&mut *connection).await?;
    }
    let inserted = sqlx::query(INSERT)
        .bind(&key.hash[..])
        .bind(tenant)
        .bind(&key.name)
        .bind(key.role.as_str())
        .bind(now.as_millis())
        .bind(key.expires_at.map(Timestamp::as_millis))
        .bind(key.bound_to.as_deref())
        .bind(key.created_by.as_deref())
        .execute(&mut *connection)
        .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn rotate_key(warm: &WarmConnections, rotation: &KeyRotation, now: Timestamp) -> PostgresResult<bool> {
    const RETIRE: &str = "
UPDATE api_keys SET shown_name = name, name = $2, expires_at = LEAST(expires_at, $3)
WHERE hash = $1 AND revoked_at IS NULL AND shown_name IS NULL AND (expires_at IS NULL OR expires_at > $4)";
    let KeyRotation { predecessor, expires_at, successor } = rotation;
    let mut held = warm.hold_pooled().await?;
    let mut transaction = held.begin().await?;
    let retired = sqlx::query(RETIRE)
        .bind(&predecessor[..])
        .bind(rotated_name(&successor.name, predecessor))
        .bind(expires_at.as_millis())
        .bind(now.as_millis())
        .execute(&mut *transaction)
        .await?;
    if retired.rows_affected() == 0 || !insert_key(&mut transaction, successor, now).await? {
        transaction.rollback().await?;
        return Ok(false);
    }
    transaction.commit().await?;
    Ok(true)
}

fn decode_key(row: &PgRow) -> PostgresResult<KeyView> {
    let shown: Option<String> = row.try_get("shown_name")?;
    let hash: Vec<u8> = row.try_get("hash")?;
    let tenant: String = row.try_get("tenant")?;
    Ok(KeyView {
        hash: hash
            .try_into()
            .map_err(|_| PostgresFailure::Undecodable("api_keys.hash is not a SHA-256".to_owned()))?,
        tenant: if tenant.is_empty() { None } else { Some(decode::parsed(row, "tenant")?) },
        succession: if shown.is_some() { KeySuccession::Rotated } else { KeySuccession::Current },
        name: match shown {
            Some(name) => name,
            None => row.try_get("name")?,
        },
        role: decode::parsed(row, "role")?,
        created_at: decode::time(row, "created_at")?,
        revoked_at: decode::time_option(row, "revoked_at")?,
        expires_at: decode::time_option(row, "expires_at")?,
        last_used_at: decode::time_option(row, "last_used_at")?,
        bound_to: row.try_get("bound_to")?,
        created_by: row.try_get("created_by")?,
    })
}
