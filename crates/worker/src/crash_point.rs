//! Crash points for the tests of recovery. Release builds contain none.

use millstream_model::crash::CrashPoint;
use millstream_model::id::Name;
use millstream_workflow::log::MailboxEvent;

/// Kills the process when `chosen` is this crash point.
#[cfg(debug_assertions)]
pub(crate) fn crash_at(chosen: Option<CrashPoint>, place: CrashPoint) {
    if chosen == Some(place) {
        tracing::warn!(crash.point = place.name(), "fault injection: exiting at the crash point");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn crash_at(_chosen: Option<CrashPoint>, _place: CrashPoint) {}

/// Kills the process when the mailbox contains the chosen event.
#[cfg(debug_assertions)]
pub(crate) fn crash_on_event(chosen: Option<&Name>, mailbox: &[MailboxEvent]) {
    if chosen.is_some_and(|chosen| mailbox.iter().any(|event| event.name == *chosen)) {
        tracing::warn!("fault injection: exiting before deciding the chosen event");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn crash_on_event(_chosen: Option<&Name>, _mailbox: &[MailboxEvent]) {}
