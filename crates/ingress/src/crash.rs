//! Dying on purpose, for tests that prove nothing is lost. Release builds carry no such code.

use millstream_core::crash::CrashPoint;

/// Ends the process here if this is the chosen place.
pub(crate) fn point(chosen: Option<CrashPoint>, here: CrashPoint) {
    #[cfg(debug_assertions)]
    if chosen == Some(here) {
        std::process::abort();
    }
    #[cfg(not(debug_assertions))]
    let _ = (chosen, here);
}
