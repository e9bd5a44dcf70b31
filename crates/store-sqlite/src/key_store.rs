//! API keys: stored hashed, each with a tenant, a role and a name.

use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::key_store::{KeyStore, KeyView, NewKey};

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::store_error;
use crate::param;

#[async_trait::async_trait]
impl KeyStore for SqliteStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> Result<bool> {
        const CREATE_TENANT: &str =
            "INSERT INTO tenants (tenant, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        const CREATE_KEY: &str = "
            INSERT INTO api_keys (hash, tenant, name, role, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING";
        let mut tx = self.write().await?;
        let created = sqlx::query(CREATE_KEY)
            .bind(param::hex(&key.hash))
            .bind(key.tenant.as_str())
            .bind(&key.name)
            .bind(key.role.as_str())
            .bind(now.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        if created.rows_affected() == 0 {
            return Ok(false);
        }
        sqlx::query(CREATE_TENANT)
            .bind(key.tenant.as_str())
            .bind(now.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(true)
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyView>> {
        const FIND_KEY: &str = "
            SELECT tenant, name, role, created_at, revoked_at FROM api_keys
            WHERE hash = ?1 AND revoked_at IS NULL";
        let row = sqlx::query(FIND_KEY)
            .bind(param::hex(hash))
            .fetch_optional(&self.readers)
            .await
            .map_err(store_error)?;
        row.map(|row| key_view(Fields(&row))).transpose()
    }

    async fn list_keys(&self) -> Result<Vec<KeyView>> {
        const LIST_KEYS: &str = "
            SELECT tenant, name, role, created_at, revoked_at FROM api_keys
            ORDER BY created_at DESC, rowid DESC";
        let rows = sqlx::query(LIST_KEYS).fetch_all(&self.readers).await.map_err(store_error)?;
        rows.iter().map(|row| key_view(Fields(row))).collect()
    }

    async fn revoke_key(&self, tenant: &TenantId, name: &str, now: Timestamp) -> Result<bool> {
        const REVOKE_KEY: &str = "
            UPDATE api_keys SET revoked_at = ?3 WHERE tenant = ?1 AND name = ?2 AND revoked_at IS NULL";
        let mut tx = self.write().await?;
        let revoked = sqlx::query(REVOKE_KEY)
            .bind(tenant.as_str())
            .bind(name)
            .bind(now.as_millis())
            .execute(&mut *tx)
            .await
            .map_err(store_error)?;
        tx.commit().await.map_err(store_error)?;
        Ok(revoked.rows_affected() > 0)
    }

    async fn keys_exist(&self) -> Result<bool> {
        const KEYS_EXIST: &str = "SELECT EXISTS (SELECT 1 FROM api_keys WHERE revoked_at IS NULL)";
        sqlx::query_scalar(KEYS_EXIST).fetch_one(&self.readers).await.map_err(store_error)
    }
}

fn key_view(row: Fields<'_>) -> Result<KeyView> {
    Ok(KeyView {
        tenant: row.id("tenant")?,
        name: row.text("name")?.to_owned(),
        role: row.word("role", Role::parse)?,
        created_at: row.time("created_at")?,
        revoked_at: row.opt_time("revoked_at")?,
    })
}
