//! API keys: stored hashed.

use async_trait::async_trait;
use millstream_core::id::TenantId;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::key_store::{KeyStore, KeyView, NewKey};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

use crate::connect::PostgresStore;
use crate::decode;
use crate::errors::Attempt;

#[async_trait]
impl KeyStore for PostgresStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> Result<bool> {
        self.patiently(|| insert_key(&self.pool, key, now)).await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyView>> {
        const FIND: &str = "
SELECT tenant, name, role, created_at, revoked_at FROM api_keys WHERE hash = $1 AND revoked_at IS NULL";
        self.once(async {
            let row = sqlx::query(FIND).bind(&hash[..]).fetch_optional(&self.pool).await?;
            row.as_ref().map(view).transpose()
        })
        .await
    }

    async fn list_keys(&self) -> Result<Vec<KeyView>> {
        const LIST: &str = "
SELECT tenant, name, role, created_at, revoked_at FROM api_keys ORDER BY created_at DESC, tenant, name";
        self.once(async {
            let rows = sqlx::query(LIST).fetch_all(&self.pool).await?;
            rows.iter().map(view).collect()
        })
        .await
    }

    async fn revoke_key(&self, tenant: &TenantId, name: &str, now: Timestamp) -> Result<bool> {
        const REVOKE: &str = "
UPDATE api_keys SET revoked_at = $3 WHERE tenant = $1 AND name = $2 AND revoked_at IS NULL";
        self.once(async {
            let query = sqlx::query(REVOKE).bind(tenant.as_str()).bind(name).bind(now.as_millis());
            Ok(query.execute(&self.pool).await?.rows_affected() > 0)
        })
        .await
    }

    async fn keys_exist(&self) -> Result<bool> {
        const EXIST: &str = "SELECT EXISTS (SELECT FROM api_keys)";
        self.once(async { Ok(sqlx::query_scalar(EXIST).fetch_one(&self.pool).await?) }).await
    }
}

async fn insert_key(pool: &PgPool, key: &NewKey, now: Timestamp) -> Attempt<bool> {
    const INSERT: &str = "
WITH known AS (
    INSERT INTO tenants (tenant, created_at) VALUES ($2, $5) ON CONFLICT (tenant) DO NOTHING
)
INSERT INTO api_keys (hash, tenant, name, role, created_at)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING";
    let inserted = sqlx::query(INSERT)
        .bind(&key.hash[..])
        .bind(key.tenant.as_str())
        .bind(&key.name)
        .bind(key.role.as_str())
        .bind(now.as_millis())
        .execute(pool)
        .await?;
    Ok(inserted.rows_affected() > 0)
}

fn view(row: &PgRow) -> Attempt<KeyView> {
    Ok(KeyView {
        tenant: decode::parsed(row, "tenant")?,
        name: row.try_get("name")?,
        role: decode::parsed(row, "role")?,
        created_at: decode::time(row, "created_at")?,
        revoked_at: decode::time_option(row, "revoked_at")?,
    })
}
