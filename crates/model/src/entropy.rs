//! Randomness and ids, injected by the caller.

use uuid::Uuid;

use sha2::{Digest, Sha256};

use crate::id::EventId;
use crate::time::Timestamp;

/// A source of random bits. The roles receive one; a simulation injects a seeded one.
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

/// A deterministic id derived from a text: appending twice under it appends once.
pub fn derived_event_id(text: &str) -> EventId {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    let derived = EventId(uuid::Builder::from_custom_bytes(bytes).into_uuid());
    if is_signal(derived) { EventId(Uuid::from_u128(derived.0.as_u128() ^ (1 << 64))) } else { derived }
}

/// The 16 bits behind the time in the id of a signal: UUIDs of version 8 whose next 12 bits are this mark.
/// Random ids have version 7, derived ones avoid it.
const SIGNAL: u128 = 0x8516;

/// The id of a signal, and of the event that it becomes: as `id`, and recognisable.
pub fn signal_id(id: EventId) -> EventId {
    EventId(Uuid::from_u128((id.0.as_u128() & !(0xffff << 64)) | (SIGNAL << 64)))
}

/// Whether an event of this id was a signal.
pub fn is_signal(id: EventId) -> bool {
    (id.0.as_u128() >> 64) & 0xffff == SIGNAL
}

/// A number in `0.0..1.0`.
pub fn random_unit(entropy: &dyn Entropy) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let bits = (entropy.next_u64() >> 11) as f64;
    bits / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counting(std::sync::atomic::AtomicU64);

    impl Entropy for Counting {
        fn next_u64(&self) -> u64 {
            self.0.fetch_add(0x0123_4567_89ab_cdef, std::sync::atomic::Ordering::Relaxed)
        }
    }

    #[test]
    fn only_signal_ids_are_signals() {
        let entropy = Counting(1.into());
        for i in 0..20_000 {
            let (random, derived) =
                (event_id(Timestamp::from_millis(i), &entropy), derived_event_id(&i.to_string()));
            for id in [random, derived] {
                assert!(!is_signal(id), "{id}");
                let signal = signal_id(id);
                assert!(is_signal(signal), "{signal}");
                assert_eq!((signal.0.get_version_num(), signal.0.get_variant()), (8, id.0.get_variant()));
            }
        }
        assert_eq!(derived_event_id("x"), derived_event_id("x"));
    }
}
