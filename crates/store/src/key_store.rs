//! API keys: stored hashed, each with a role, a name and, except for operators, a tenant.
//!
//! A key is live until it is revoked or expires. Rotation creates a successor under the same name and lets
//! the predecessor expire after an overlap; both are live in between and act under the same name.

use std::fmt;

use millstream_model::id::TenantId;
use millstream_model::status::Role;
use millstream_model::time::Timestamp;

use crate::StoreResult;

/// The SHA-256 of a key.
pub type KeyHash = [u8; 32];

#[async_trait::async_trait]
pub trait KeyStore: Send + Sync {
    /// Store a key (and its tenant, if new). `false` when the owner has a live key of that name.
    async fn create_key(&self, key: &NewKey, now: Timestamp) -> StoreResult<bool>;

    /// The key with each of these hashes, in their order; revoked keys are not found, expired ones are.
    async fn find_keys(&self, hashes: &[KeyHash]) -> StoreResult<Vec<Option<KeyView>>>;

    /// At most `limit` keys, newest first, revoked ones included: those of one tenant, or all.
    async fn list_keys(
        &self,
        of: &KeyFilter,
        after: Option<KeyPlace>,
        limit: usize,
    ) -> StoreResult<Vec<KeyView>>;

    /// The key with this id, revoked or not.
    async fn find_key_by_id(&self, id: KeyId) -> StoreResult<Option<KeyView>>;

    /// Revoke these live keys of an owner: all of a name, or one by its id. `false` when there was none.
    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        which: &KeyChoice,
        now: Timestamp,
    ) -> StoreResult<bool>;

    /// Whether any key was ever created, revoked, expired and removed ones included: from then on every call needs one.
    async fn keys_exist(&self) -> StoreResult<bool>;

    /// Create the successor under the name of the key and let the key expire, both or neither. `false` when the key
    /// is revoked or expired, or has a successor already.
    async fn rotate_key(&self, rotation: &KeyRotation, now: Timestamp) -> StoreResult<bool>;

    /// Record when keys were last used. Unknown keys and earlier times change nothing.
    async fn record_key_uses(&self, uses: &[(KeyHash, Timestamp)]) -> StoreResult<()>;

    /// Remove up to `limit` keys that were revoked or expired before `before`, and return how many went. The newest
    /// key of all stays whatever it is, so that [`KeyStore::keys_exist`] stays true.
    async fn purge_dead_keys(&self, before: Timestamp, limit: usize) -> StoreResult<u64>;

    /// The key with this hash.
    async fn find_key(&self, hash: &KeyHash) -> StoreResult<Option<KeyView>> {
        Ok(self.find_keys(std::slice::from_ref(hash)).await?.into_iter().next().flatten())
    }
}

/// Names a key in lists and paths: the first bytes of its hash, which say nothing about the key itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 12]);

impl KeyId {
    pub fn from_hash(hash: &KeyHash) -> Self {
        let mut id = [0; 12];
        id.copy_from_slice(&hash[..12]);
        Self(id)
    }

    /// From its written form: 24 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut id = [0; 12];
        if text.len() != 24 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
        }
        Some(Self(id))
    }

    /// The lowest and the highest hash with this id.
    pub fn hash_range(self) -> (KeyHash, KeyHash) {
        let (mut low, mut high) = ([0; 32], [0xff; 32]);
        low[..12].copy_from_slice(&self.0);
        high[..12].copy_from_slice(&self.0);
        (low, high)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Debug, Clone)]
pub struct NewKey {
    /// `None` for an operator, which belongs to no tenant.
    pub tenant: Option<TenantId>,
    pub name: String,
    pub role: Role,
    pub hash: KeyHash,
    pub expires_at: Option<Timestamp>,
    /// The person or the device that the key is bound to.
    pub bound_to: Option<String>,
    /// The name of the key that created it; `None` for one that was created on the store.
    pub created_by: Option<String>,
}

impl NewKey {
    /// A key of a tenant that does not expire.
    pub fn for_tenant(tenant: TenantId, name: impl Into<String>, role: Role, hash: KeyHash) -> Self {
        Self {
            tenant: Some(tenant).filter(|_| role.has_tenant()),
            name: name.into(),
            role,
            hash,
            expires_at: None,
            bound_to: None,
            created_by: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyView {
    pub hash: KeyHash,
    pub tenant: Option<TenantId>,
    pub name: String,
    pub role: Role,
    pub created_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub bound_to: Option<String>,
    pub created_by: Option<String>,
    /// Whether a successor was created under its name.
    pub succession: KeySuccession,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySuccession {
    Current,
    Rotated,
}

/// State of a key; the first two are live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    Current,
    /// It has a successor and expires with the overlap.
    Rotated,
    Expired,
    Revoked,
}

impl KeyStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Rotated => "rotated",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl KeyView {
    pub fn id(&self) -> KeyId {
        KeyId::from_hash(&self.hash)
    }

    pub fn place(&self) -> KeyPlace {
        KeyPlace { created_at: self.created_at, id: self.id() }
    }

    pub fn status(&self, now: Timestamp) -> KeyStatus {
        let expires_at = self.expires_at;
        match self.revoked_at {
            // A key that gave up its name after its expiry is stored as revoked at that time.
            Some(at) if expires_at.is_none_or(|expires_at| at < expires_at) => KeyStatus::Revoked,
            Some(_) => KeyStatus::Expired,
            None if expires_at.is_some_and(|expires_at| expires_at <= now) => KeyStatus::Expired,
            None => match self.succession {
                KeySuccession::Current => KeyStatus::Current,
                KeySuccession::Rotated => KeyStatus::Rotated,
            },
        }
    }

    /// Neither revoked nor expired.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// Which keys are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFilter {
    All,
    Tenant(TenantId),
}

/// Cursor of a list of keys: continue after this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPlace {
    pub created_at: Timestamp,
    pub id: KeyId,
}

/// Which keys of an owner are revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChoice {
    /// All live ones of this name: the current one, and one that was rotated and has not expired yet.
    Name(String),
    Id(KeyId),
}

#[derive(Debug, Clone)]
pub struct KeyRotation {
    pub predecessor: KeyHash,
    /// When the predecessor expires, unless it expires earlier by itself.
    pub expires_at: Timestamp,
    /// Under the name of the predecessor.
    pub successor: NewKey,
}

/// The stored name of a key that was rotated: its own name is free for its successor.
pub fn rotated_name(name: &str, hash: &KeyHash) -> String {
    format!("{name}#{}", KeyId::from_hash(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_id_round_trips_and_spans_hash() {
        let hash = [0xab; 32];
        let id = KeyId::from_hash(&hash);
        assert_eq!(KeyId::parse(&id.to_string()), Some(id));
        let (low, high) = id.hash_range();
        assert!(low <= hash && hash <= high);
        assert_eq!(KeyId::parse("ABABABABABABABABABABABAB"), None);
        assert_eq!(KeyId::parse("é"), None);
    }

    #[test]
    fn key_status_is_earlier_of_expired_revoked() {
        let at = Timestamp::from_millis;
        let key = |revoked_at, expires_at, succession| KeyView {
            hash: [0; 32],
            tenant: None,
            name: "ci".to_owned(),
            role: Role::Operator,
            created_at: at(0),
            revoked_at,
            expires_at,
            last_used_at: None,
            bound_to: None,
            created_by: None,
            succession,
        };
        let (current, rotated) = (KeySuccession::Current, KeySuccession::Rotated);
        for (key, status) in [
            (key(None, None, current), KeyStatus::Current),
            (key(None, Some(at(6)), rotated), KeyStatus::Rotated),
            (key(None, Some(at(5)), rotated), KeyStatus::Expired),
            (key(Some(at(3)), Some(at(3)), current), KeyStatus::Expired),
            (key(Some(at(2)), Some(at(3)), current), KeyStatus::Revoked),
            (key(Some(at(2)), None, current), KeyStatus::Revoked),
        ] {
            assert_eq!(key.status(at(5)), status, "{key:?}");
            assert_eq!(key.is_live(at(5)), matches!(status, KeyStatus::Current | KeyStatus::Rotated));
        }
    }
}
