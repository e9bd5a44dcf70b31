//! Randomness and ids, handed in from outside.

use uuid::Uuid;

use sha2::{Digest, Sha256};

use crate::id::EventId;
use crate::time::Timestamp;

/// A source of random bits. The roles receive one; a simulation hands in a seeded one.
pub trait Entropy: Send + Sync + std::fmt::Debug {
    fn next_u64(&self) -> u64;
}

/// A UUIDv7 of the given time.
pub fn uuid_v7(now: Timestamp, entropy: &dyn Entropy) -> Uuid {
    let (high, low) = (entropy.next_u64().to_be_bytes(), entropy.next_u64().to_be_bytes());
    let mut random = [0u8; 10];
    random[..8].copy_from_slice(&high);
    random[8..].copy_from_slice(&low[..2]);
    let millis = u64::try_from(now.as_millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

pub fn event_id(now: Timestamp, entropy: &dyn Entropy) -> EventId {
    EventId(uuid_v7(now, entropy))
}

/// An id that the same text always has: what is appended under it twice is appended once.
pub fn derived_event_id(text: &str) -> EventId {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    EventId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// A number in `0.0..1.0`.
pub fn unit(entropy: &dyn Entropy) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let bits = (entropy.next_u64() >> 11) as f64;
    bits / (1u64 << 53) as f64
}
