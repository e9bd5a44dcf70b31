//! API keys, in memory.

use millstream_core::id::TenantId;
use millstream_core::time::Timestamp;

use super::Memory;
use crate::Result;
use crate::key_store::{KeyStore, KeyView, NewKey};

#[async_trait::async_trait]
impl KeyStore for Memory {
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> Result<bool> {
        let mut tables = self.tables();
        let taken = tables.api_keys.iter().any(|(_, view)| is_live(view, &key.tenant, &key.name));
        if taken {
            return Ok(false);
        }
        let view = KeyView {
            tenant: key.tenant.clone(),
            name: key.name.clone(),
            role: key.role,
            created_at: now,
            revoked_at: None,
        };
        tables.api_keys.push((key.hash, view));
        Ok(true)
    }

    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyView>> {
        let tables = self.tables();
        let live = |(known, view): &&([u8; 32], KeyView)| known == hash && view.revoked_at.is_none();
        Ok(tables.api_keys.iter().find(live).map(|(_, view)| view.clone()))
    }

    async fn list_keys(&self) -> Result<Vec<KeyView>> {
        let tables = self.tables();
        Ok(tables.api_keys.iter().rev().map(|(_, view)| view.clone()).collect())
    }

    async fn revoke_key(&self, tenant: &TenantId, name: &str, now: Timestamp) -> Result<bool> {
        let mut tables = self.tables();
        match tables.api_keys.iter_mut().find(|(_, view)| is_live(view, tenant, name)) {
            Some((_, view)) => {
                view.revoked_at = Some(now);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    async fn keys_exist(&self) -> Result<bool> {
        Ok(!self.tables().api_keys.is_empty())
    }
}

fn is_live(view: &KeyView, tenant: &TenantId, name: &str) -> bool {
    view.revoked_at.is_none() && view.tenant == *tenant && view.name == name
}
