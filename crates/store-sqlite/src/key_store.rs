//! API keys: stored hashed, each with a tenant, a role and a name.

use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_core::time::Timestamp;
use millstream_store::Result;
use millstream_store::key_store::{KeyStore, KeyView, NewKey};

use crate::connect::SqliteStore;
use crate::decode::Fields;
use crate::errors::Attempt;
use crate::param::Free;

#[async_trait::async_trait]
impl KeyStore for SqliteStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> Result<bool> {
        const CREATE_TENANT: &str =
            "INSERT INTO tenants (tenant, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        const CREATE_KEY: &str = "
            INSERT INTO api_keys (hash, tenant, name, role, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING";
        let key = key.clone();
        self.write(move |connection| {
            let created = connection.prepare_cached(CREATE_KEY)?.execute((
                &key.hash,
                key.tenant.as_str(),
                Free(&key.name),
                key.role.as_str(),
                now.as_millis(),
            ))?;
            if created == 0 {
                return Ok(false);
            }
            connection.prepare_cached(CREATE_TENANT)?.execute((key.tenant.as_str(), now.as_millis()))?;
            Ok(true)
        })
        .await
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyView>> {
        const FIND_KEY: &str = "
            SELECT tenant, name, role, created_at, revoked_at FROM api_keys
            WHERE hash = ?1 AND revoked_at IS NULL";
        let hash = *hash;
        self.read(move |connection| {
            let mut find = connection.prepare_cached(FIND_KEY)?;
            let mut rows = find.query([hash])?;
            rows.next()?.map(|row| key_view(Fields(row))).transpose()
        })
        .await
    }

    async fn list_keys(&self) -> Result<Vec<KeyView>> {
        const LIST_KEYS: &str = "
            SELECT tenant, name, role, created_at, revoked_at FROM api_keys
            ORDER BY created_at DESC, rowid DESC";
        self.read(|connection| {
            let mut list = connection.prepare_cached(LIST_KEYS)?;
            let mut rows = list.query(())?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.push(key_view(Fields(row))?);
            }
            Ok(views)
        })
        .await
    }

    async fn revoke_key(&self, tenant: &TenantId, name: &str, now: Timestamp) -> Result<bool> {
        const REVOKE_KEY: &str = "
            UPDATE api_keys SET revoked_at = ?3 WHERE tenant = ?1 AND name = ?2 AND revoked_at IS NULL";
        let (tenant, name) = (tenant.clone(), name.to_owned());
        self.write(move |connection| {
            let revoke = (tenant.as_str(), Free(&name), now.as_millis());
            Ok(connection.prepare_cached(REVOKE_KEY)?.execute(revoke)? > 0)
        })
        .await
    }

    async fn keys_exist(&self) -> Result<bool> {
        const KEYS_EXIST: &str = "SELECT EXISTS (SELECT 1 FROM api_keys)";
        self.read(|connection| Ok(connection.prepare_cached(KEYS_EXIST)?.query_row((), |row| row.get(0))?))
            .await
    }
}

fn key_view(row: Fields<'_>) -> Attempt<KeyView> {
    Ok(KeyView {
        tenant: row.id("tenant")?,
        name: row.text("name")?.to_owned(),
        role: row.word("role", Role::parse)?,
        created_at: row.time("created_at")?,
        revoked_at: row.opt_time("revoked_at")?,
    })
}
