//! Entry point of the fuzz target for stream entries (`crates/fuzz`): an entry as the bytes of a reply.
//! Unused by the product.

use millstream_model::lane::Lane;

use super::stream_entry::{self, RedisEntries};
use crate::doorbell::{Doorbell, DoorbellDelivery, RedeliveryMark, StreamEntryId};

/// The result of parsing one entry.
#[derive(Debug)]
pub struct FuzzedEntries {
    pub deliveries: Vec<DoorbellDelivery>,
    pub discarded: Vec<StreamEntryId>,
}

/// Parses the entry in `reply`; `None` if it is not a reply, or not an entry at all.
pub fn read(lane: Lane, reply: &[u8]) -> Option<FuzzedEntries> {
    let value = redis::parse_redis_value(reply).ok()?;
    let mut entries = RedisEntries::default();
    entries.parse_entry(lane, value, RedeliveryMark::First)?;
    Some(FuzzedEntries { deliveries: entries.deliveries, discarded: entries.discarded })
}

/// The entry of `bell`, as a server replies with it.
pub fn write(id: &str, bell: &Doorbell) -> Vec<u8> {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let fields = stream_entry::entry_fields(bell);
    let texts: String = fields.iter().copied().map(text).collect();
    format!("*2\r\n{}*{}\r\n{texts}", text(id), fields.len()).into_bytes()
}
