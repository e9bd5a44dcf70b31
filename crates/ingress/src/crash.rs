//! Crash points (fault injection) for durability tests. Release builds contain no such code.

use millstream_model::crash::CrashPoint;

/// Aborts the process if `here` is the chosen point.
pub(crate) fn crash_at(chosen: Option<CrashPoint>, here: CrashPoint) {
    #[cfg(debug_assertions)]
    if chosen == Some(here) {
        std::process::abort();
    }
    #[cfg(not(debug_assertions))]
    let _ = (chosen, here);
}
