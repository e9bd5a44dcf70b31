//! Metrics of people's work: aggregated over all queues, because tenants choose the names of queues without
//! bound. `queue_stats` has the figures of single queues and people.

use millstream_core::assignment::LogEntry;
use millstream_store::assignments::Given;

pub(crate) const WHAT: &str = "millstream_people_total";
pub(crate) const IDLE: &str = "millstream_people_idle_total";
pub(crate) const IMPORTED: &str = "millstream_items_imported_total";

/// Counted by the kind of the log entry.
pub(super) fn entry(entry: &LogEntry) {
    count(entry.what.as_str());
}

pub(super) fn given(given: &Given) {
    match given {
        Given::Assigned(work) if !work.again => count("assigned"),
        Given::Assigned(_) => {}
        Given::Nothing(_) => metrics::counter!(IDLE).increment(1),
    }
}

pub(super) fn imported(items: u64) {
    metrics::counter!(IMPORTED).increment(items);
}

fn count(what: &'static str) {
    metrics::counter!(WHAT, "what" => what).increment(1);
}
