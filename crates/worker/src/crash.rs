//! Dying on purpose, for tests that prove nothing is lost. Release builds carry none of it.

use millstream_core::crash::CrashPoint;

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
