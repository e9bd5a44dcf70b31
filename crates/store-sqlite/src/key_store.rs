//! API keys: stored hashed. A key of an operator has the empty text as its tenant.

use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::key_store::{
    KeyChoice, KeyFilter, KeyHash, KeyId, KeyPlace, KeyRotation, KeyStore, KeySuccession, KeyView, NewKey,
    rotated_name,
};
use rusqlite::Connection;

use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::SqliteResult;
use crate::param::{self, FreeText, free_text};

#[async_trait::async_trait]
impl KeyStore for SqliteStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        let key = key.clone();
        self.write_transaction(move |connection| insert_key(connection, &key, now)).await
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        const FIND_KEY: &str = "
            SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to,
                created_by
            FROM api_keys WHERE hash = ?1 AND revoked_at IS NULL";
        let hashes = hashes.to_vec();
        self.read_transaction(move |connection| {
            let mut find = connection.prepare_cached(FIND_KEY)?;
            let mut found = Vec::with_capacity(hashes.len());
            for hash in &hashes {
                let mut rows = find.query([hash])?;
                found.push(rows.next()?.map(|row| key_view(SqliteFields(row))).transpose()?);
            }
            Ok(found)
        })
        .await
    }

    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>> {
        const LIST_KEYS: &str = "
            SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to,
                created_by
            FROM api_keys
            WHERE (?1 IS NULL OR tenant = ?1)
                AND (?2 IS NULL OR created_at < ?2 OR (created_at = ?2 AND hash > ?3))
            ORDER BY created_at DESC, hash LIMIT ?4";
        let tenant = match of {
            KeyFilter::All => None,
            KeyFilter::Tenant(tenant) => Some(tenant.clone()),
        };
        self.read_transaction(move |connection| {
            let mut list = connection.prepare_cached(LIST_KEYS)?;
            let mut rows = list.query((
                tenant.as_ref().map(TenantId::as_str),
                after.map(|after| after.created_at.as_millis()),
                after.map(|after| after.id.hash_range().1),
                i64::try_from(limit).unwrap_or(i64::MAX),
            ))?;
            let mut views = Vec::new();
            while let Some(row) = rows.next()? {
                views.push(key_view(SqliteFields(row))?);
            }
            Ok(views)
        })
        .await
    }

    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>> {
        const FIND_BY_ID: &str = "
            SELECT hash, tenant, name, shown_name, role, created_at, revoked_at, expires_at, last_used_at, bound_to,
                created_by
            FROM api_keys WHERE hash >= ?1 AND hash <= ?2 ORDER BY hash LIMIT 1";
        let (low, high) = id.hash_range();
        self.read_transaction(move |connection| {
            let mut find = connection.prepare_cached(FIND_BY_ID)?;
            let mut rows = find.query((low, high))?;
            rows.next()?.map(|row| key_view(SqliteFields(row))).transpose()
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
            UPDATE api_keys SET revoked_at = ?3
            WHERE tenant = ?1 AND COALESCE(shown_name, name) = ?2 AND revoked_at IS NULL";
        const BY_ID: &str = "
            UPDATE api_keys SET revoked_at = ?4
            WHERE tenant = ?1 AND hash >= ?2 AND hash <= ?3 AND revoked_at IS NULL";
        let (tenant, which) = (stored_tenant(tenant).to_owned(), which.clone());
        self.write_transaction(move |connection| {
            let revoked = match &which {
                KeyChoice::Name(name) => {
                    connection.prepare_cached(BY_NAME)?.execute((&tenant, FreeText(name), now.as_millis()))?
                }
                KeyChoice::Id(id) => {
                    let (low, high) = id.hash_range();
                    connection.prepare_cached(BY_ID)?.execute((&tenant, low, high, now.as_millis()))?
                }
            };
            Ok(revoked > 0)
        })
        .await
    }

    async fn keys_exist(&self) -> StoreResult<bool> {
        const KEYS_EXIST: &str = "SELECT EXISTS (SELECT 1 FROM api_keys)";
        self.read_transaction(|connection| {
            Ok(connection.prepare_cached(KEYS_EXIST)?.query_row((), |row| row.get(0))?)
        })
        .await
    }

    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool> {
        const RETIRE: &str = "
            UPDATE api_keys
            SET shown_name = name, name = ?2, expires_at = MIN(COALESCE(expires_at, ?3), ?3)
            WHERE hash = ?1 AND revoked_at IS NULL AND shown_name IS NULL
                AND (expires_at IS NULL OR expires_at > ?4)";
        let rotation = rotation.clone();
        self.write_transaction(move |connection| {
            let KeyRotation { predecessor, expires_at, successor } = &rotation;
            let retired = connection.prepare_cached(RETIRE)?.execute((
                predecessor,
                FreeText(&rotated_name(&successor.name, predecessor)),
                expires_at.as_millis(),
                now.as_millis(),
            ))?;
            // The name of the predecessor is free by now.
            Ok(retired > 0 && insert_key(connection, successor, now)?)
        })
        .await
    }

    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        const PURGE: &str = "
            DELETE FROM api_keys WHERE hash IN (
                SELECT hash FROM api_keys
                WHERE (revoked_at < ?1 OR expires_at < ?1)
                    AND hash <> (SELECT hash FROM api_keys ORDER BY created_at DESC, hash LIMIT 1)
                LIMIT ?2)";
        self.write_transaction(move |connection| {
            let mut purge = connection.prepare_cached(PURGE)?;
            Ok(purge.execute((before.as_millis(), param::limit(limit)))? as u64)
        })
        .await
    }

    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()> {
        const RECORD: &str = "
            UPDATE api_keys SET last_used_at = ?2
            WHERE hash = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)";
        let uses = uses.to_vec();
        self.write_transaction(move |connection| {
            let mut record = connection.prepare_cached(RECORD)?;
            for (hash, at) in &uses {
                record.execute((hash, at.as_millis()))?;
            }
            Ok(())
        })
        .await
    }
}

fn stored_tenant(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

/// An expired key of the name gives it up.
fn insert_key(connection: &Connection, key: &NewKey, now: Timestamp) -> SqliteResult<bool> {
    const EXPIRE: &str = "
        UPDATE api_keys SET revoked_at = expires_at
        WHERE tenant = ?1 AND name = ?2 AND revoked_at IS NULL AND expires_at <= ?3";
    const CREATE_TENANT: &str =
        "INSERT INTO tenants (tenant, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    const CREATE_KEY: &str = "
        INSERT INTO api_keys (hash, tenant, name, role, created_at, expires_at, bound_to, created_by)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING";
    let tenant = stored_tenant(key.tenant.as_ref());
    connection.prepare_cached(EXPIRE)?.execute((tenant, FreeText(&key.name), now.as_millis()))?;
    let created = connection.prepare_cached(CREATE_KEY)?.execute((
        &key.hash,
        tenant,
        FreeText(&key.name),
        key.role.as_str(),
        now.as_millis(),
        key.expires_at.map(Timestamp::as_millis),
        free_text(key.bound_to.as_deref()),
        free_text(key.created_by.as_deref()),
    ))?;
    if created == 0 {
        return Ok(false);
    }
    if let Some(tenant) = &key.tenant {
        connection.prepare_cached(CREATE_TENANT)?.execute((tenant.as_str(), now.as_millis()))?;
    }
    Ok(true)
}

fn key_view(row: SqliteFields<'_>) -> SqliteResult<KeyView> {
    let shown = row.opt_text("shown_name")?;
    Ok(KeyView {
        hash: row.hash("hash")?,
        tenant: if row.text("tenant")?.is_empty() { None } else { Some(row.id("tenant")?) },
        succession: if shown.is_some() { KeySuccession::Rotated } else { KeySuccession::Current },
        name: match shown {
            Some(name) => name,
            None => row.text("name")?.to_owned(),
        },
        role: row.word("role", Role::parse)?,
        created_at: row.time("created_at")?,
        revoked_at: row.opt_time("revoked_at")?,
        expires_at: row.opt_time("expires_at")?,
        last_used_at: row.opt_time("last_used_at")?,
        bound_to: row.opt_text("bound_to")?,
        created_by: row.opt_text("created_by")?,
    })
}
