//! Hash of a request's parts, by which a repeat under the same idempotency key is recognised.

use sha2::{Digest, Sha256};

/// SHA-256 over the parts, each preceded by its length, so that different lists have different inputs.
pub(crate) fn hash_parts(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
