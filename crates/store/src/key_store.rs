//! API keys: stored hashed, each with a tenant, a role and a name.

use millstream_core::id::TenantId;
use millstream_core::status::Role;
use millstream_core::time::Timestamp;

use crate::Result;

#[async_trait::async_trait]
pub trait KeyStore: Send + Sync {
    /// Store a key (and its tenant, if new). `false` when the tenant has a live key of that name.
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> Result<bool>;

    /// The live key with this SHA-256.
    async fn find_key(&self, hash: &[u8; 32]) -> Result<Option<KeyView>>;

    /// All keys, newest first, revoked ones included.
    async fn list_keys(&self) -> Result<Vec<KeyView>>;

    /// `false` when there was no live key of that name.
    async fn revoke_key(&self, tenant: &TenantId, name: &str, now: Timestamp) -> Result<bool>;

    /// Whether any key was ever created, revoked and expired ones included: from then on every call needs one.
    async fn keys_exist(&self) -> Result<bool>;
}

#[derive(Debug, Clone)]
pub struct NewKey {
    pub tenant: TenantId,
    pub name: String,
    pub role: Role,
    pub hash: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView {
    pub tenant: TenantId,
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}
