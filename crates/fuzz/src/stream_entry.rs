//! Stream entries: any reply of a server is classified without loss; a doorbell, parsed from a reply or built
//! for a tenant and an execution in the input, is written as an entry that is parsed as the same doorbell.

use millstream_model::id::{ExecutionId, ExecutionKey, TenantId};
use millstream_model::lane::Lane;
use millstream_stream::doorbell::Doorbell;
use millstream_stream::redis::fuzzing::{read, write};

pub(crate) const WORDS: &[&str] = &[
    "*2\r\n",
    "*6\r\n",
    "$1\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "%3\r\n",
    "~2\r\n",
    "+OK\r\n",
    ":1\r\n",
    "_\r\n",
    ",inf\r\n",
    "#t\r\n",
    "=7\r\ntxt:abc\r\n",
    "(123\r\n",
    "b\r\n",
    "t\r\n",
    "e\r\n",
    "m\r\n",
    "a\r\n",
    "\r\n",
    "1-0",
    "default",
    "$9223372036854775807\r\n",
    "*2147483647\r\n",
];

pub(crate) fn check_stream_entry(bytes: &[u8]) {
    for lane in Lane::all() {
        let Some(sorted) = read(lane, bytes) else { continue };
        assert_eq!(sorted.deliveries.len() + sorted.discarded.len(), 1, "an entry is one or the other");
        for delivery in sorted.deliveries {
            assert_eq!(delivery.bell.lane(), lane, "a bell rings in the lane of its tenant");
            is_read_as_written(&delivery.entry.id, &delivery.bell);
        }
    }
    if let Some(execution) = execution_key(bytes) {
        is_read_as_written("1-0", &Doorbell::Mailbox(execution.clone()));
        is_read_as_written("1-0", &Doorbell::Actions(execution));
    }
}

fn is_read_as_written(id: &str, bell: &Doorbell) {
    let again = read(bell.lane(), &write(id, bell)).expect("what we write is an entry");
    let again: Vec<_> =
        again.deliveries.into_iter().map(|delivery| (delivery.entry.id, delivery.bell)).collect();
    assert_eq!(again, [(id.to_owned(), bell.clone())]);
}

/// An execution from the first words of the input that form a valid key.
fn execution_key(bytes: &[u8]) -> Option<ExecutionKey> {
    let mut words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace();
    let tenant = words.by_ref().find_map(|word| TenantId::parse(word).ok())?;
    let execution = words.find_map(|word| ExecutionId::parse(word).ok())?;
    Some(ExecutionKey { tenant, execution })
}
