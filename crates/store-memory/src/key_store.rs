//! API keys, in memory.

use millstream_model::id::TenantId;
use millstream_model::time::Timestamp;
use millstream_store::StoreResult;
use millstream_store::key_store::{
    KeyChoice, KeyFilter, KeyHash, KeyId, KeyPlace, KeyRotation, KeyStore, KeySuccession, KeyView, NewKey,
};

use crate::MemoryStore;

#[async_trait::async_trait]
impl KeyStore for MemoryStore {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool> {
        let mut tables = self.lock_tables();
        Ok(insert_key(&mut tables.api_keys, key, now))
    }

    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>> {
        let tables = self.lock_tables();
        let find = |hash: &KeyHash| {
            let live = |view: &&KeyView| view.hash == *hash && view.revoked_at.is_none();
            tables.api_keys.iter().find(live).cloned()
        };
        Ok(hashes.iter().map(find).collect())
    }

    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>> {
        let tables = self.lock_tables();
        let wanted = |view: &&KeyView| match of {
            KeyFilter::All => true,
            KeyFilter::Tenant(tenant) => view.tenant.as_ref() == Some(tenant),
        };
        let behind = |view: &&KeyView| after.is_none_or(|after| key_order(after) < key_order(view.place()));
        let mut listed: Vec<KeyView> =
            tables.api_keys.iter().filter(wanted).filter(behind).cloned().collect();
        listed.sort_by_key(|view| key_order(view.place()));
        listed.truncate(limit);
        Ok(listed)
    }

    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>> {
        Ok(self.lock_tables().api_keys.iter().find(|view| view.id() == id).cloned())
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        which: &KeyChoice,
        now: Timestamp,
    ) -> StoreResult<bool> {
        let mut tables = self.lock_tables();
        let mut revoked = false;
        for view in &mut tables.api_keys {
            let chosen = match which {
                KeyChoice::Name(name) => view.name == *name,
                KeyChoice::Id(id) => view.id() == *id,
            };
            if chosen && view.tenant.as_ref() == tenant && view.revoked_at.is_none() {
                view.revoked_at = Some(now);
                revoked = true;
            }
        }
        Ok(revoked)
    }

    async fn keys_exist(&self) -> StoreResult<bool> {
        Ok(!self.lock_tables().api_keys.is_empty())
    }

    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool> {
        let mut tables = self.lock_tables();
        let current = |view: &&mut KeyView| {
            view.hash == rotation.predecessor
                && view.is_live(now)
                && view.succession == KeySuccession::Current
        };
        let Some(view) = tables.api_keys.iter_mut().find(current) else { return Ok(false) };
        view.succession = KeySuccession::Rotated;
        view.expires_at = Some(view.expires_at.map_or(rotation.expires_at, |at| at.min(rotation.expires_at)));
        Ok(insert_key(&mut tables.api_keys, &rotation.successor, now))
    }

    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64> {
        let mut tables = self.lock_tables();
        let newest = tables.api_keys.iter().map(|view| key_order(view.place())).min();
        let is_dead = |view: &KeyView| {
            let ends = [view.revoked_at, view.expires_at];
            ends.into_iter().flatten().any(|end| end < before) && Some(key_order(view.place())) != newest
        };
        let mut purged = 0;
        tables.api_keys.retain(|view| {
            let goes = purged < limit && is_dead(view);
            purged += usize::from(goes);
            !goes
        });
        Ok(purged as u64)
    }

    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()> {
        let mut tables = self.lock_tables();
        for (hash, at) in uses {
            for view in tables.api_keys.iter_mut().filter(|view| view.hash == *hash) {
                view.last_used_at = view.last_used_at.max(Some(*at));
            }
        }
        Ok(())
    }
}

/// Newest first.
fn key_order(place: KeyPlace) -> (std::cmp::Reverse<Timestamp>, KeyId) {
    (std::cmp::Reverse(place.created_at), place.id)
}

fn insert_key(keys: &mut Vec<KeyView>, key: &NewKey, now: Timestamp) -> bool {
    let same = |view: &KeyView| {
        view.tenant == key.tenant && view.name == key.name && view.succession == KeySuccession::Current
    };
    if keys.iter().any(|view| same(view) && view.is_live(now)) {
        return false;
    }
    for view in keys.iter_mut().filter(|view| same(view) && view.revoked_at.is_none()) {
        view.revoked_at = view.expires_at;
    }
    keys.push(KeyView {
        hash: key.hash,
        tenant: key.tenant.clone(),
        name: key.name.clone(),
        role: key.role,
        created_at: now,
        revoked_at: None,
        expires_at: key.expires_at,
        last_used_at: None,
        bound_to: key.bound_to.clone(),
        created_by: key.created_by.clone(),
        succession: KeySuccession::Current,
    });
    true
}
