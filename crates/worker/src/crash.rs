//! Dying on purpose, for tests that prove nothing is lost. Release builds carry none of it.

use millstream_core::crash::CrashPoint;
use millstream_core::id::Name;
use millstream_core::log::Waiting;

/// Kills the process when `chosen` is this place.
#[cfg(debug_assertions)]
pub(crate) fn here(chosen: Option<CrashPoint>, place: CrashPoint) {
    if chosen == Some(place) {
        tracing::warn!(crash.point = place.name(), "dying on purpose");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn here(_chosen: Option<CrashPoint>, _place: CrashPoint) {}

/// Kills the process when one of these is the event that is told to do so.
#[cfg(debug_assertions)]
pub(crate) fn on_event(chosen: Option<&Name>, mailbox: &[Waiting]) {
    if chosen.is_some_and(|chosen| mailbox.iter().any(|event| event.name == *chosen)) {
        tracing::warn!("dying on purpose of an event");
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn on_event(_chosen: Option<&Name>, _mailbox: &[Waiting]) {}
