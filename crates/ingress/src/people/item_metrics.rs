//! Metrics of people's work: aggregated over all queues, because tenants choose the names of queues without
//! bound. `queue_stats` has the figures of single queues and people.

use millstream_people::assignment::ItemLogEntry;
use millstream_store::assignments::NextAssignment;

pub(crate) const WHAT: &str = "millstream_people_total";
pub(crate) const IDLE: &str = "millstream_people_idle_total";
pub(crate) const IMPORTED: &str = "millstream_items_imported_total";

/// Counted by the kind of the log entry.
pub(super) fn count_entry(entry: &ItemLogEntry) {
    count_what(entry.what.as_str());
}

pub(super) fn count_given(given: &NextAssignment) {
    match given {
        NextAssignment::Assigned(work) if !work.already_assigned => count_what("assigned"),
        NextAssignment::Assigned(_) => {}
        NextAssignment::Nothing(_) => metrics::counter!(IDLE).increment(1),
    }
}

pub(super) fn count_imported(items: u64) {
    metrics::counter!(IMPORTED).increment(items);
}

fn count_what(what: &'static str) {
    metrics::counter!(WHAT, "what" => what).increment(1);
}
