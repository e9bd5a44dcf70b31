//! The secret of a new API key: shown once, stored as its SHA-256.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::key_store::KeyHash;

/// Written out in the answer that creates the key and never again; `Debug` does not show it.
pub struct KeySecret(String);

impl KeySecret {
    /// 244 random bits. They come from the operating system directly, not from the generator for ids and jitter.
    pub fn generate() -> Self {
        Self(format!("ms_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    pub fn hash(&self) -> KeyHash {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// As the caller sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_secrets_differ_and_match_hash() {
        let (one, other) = (KeySecret::generate(), KeySecret::generate());
        assert_ne!(one.hash(), other.hash());
        assert!(one.expose().starts_with("ms_") && one.expose().len() == 67, "{}", one.expose());
        let hash: KeyHash = Sha256::digest(one.expose()).into();
        assert_eq!(one.hash(), hash);
    }
}
