//! Guarantees after a run: pure functions from evidence to violations.
//!
//! Three sources are compared: the clients (acknowledgements), the target of actions (calls and effects), and
//! the database (records). None of them suffices alone.

mod accepted;
mod effects;
mod evidence;
mod keys;
mod log;
#[cfg(test)]
mod tests;
mod timers;

pub use evidence::{TortureCheck, TortureEvidence, TortureViolation, check_all};
