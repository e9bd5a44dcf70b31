//! What is counted about queues. People are not: there may be many, and `queue_stats` knows them.

use millstream_core::assignment::LogEntry;
use millstream_store::assignments::Given;

pub(crate) const WHAT: &str = "millstream_people_total";
pub(crate) const IDLE: &str = "millstream_people_idle_total";
pub(crate) const IMPORTED: &str = "millstream_items_imported_total";

/// By the words of the items' logs.
pub(super) fn entry(entry: &LogEntry) {
    count(entry.queue.as_str(), entry.what.as_str());
}

pub(super) fn given(given: &Given) {
    match given {
        Given::Assigned(work) if !work.again => count(work.assignment.queue.as_str(), "assigned"),
        Given::Assigned(_) => {}
        Given::Nothing(_) => metrics::counter!(IDLE).increment(1),
    }
}

pub(super) fn imported(queue: &str, items: u64) {
    metrics::counter!(IMPORTED, "queue" => queue.to_owned()).increment(items);
}

fn count(queue: &str, what: &'static str) {
    metrics::counter!(WHAT, "queue" => queue.to_owned(), "what" => what).increment(1);
}
