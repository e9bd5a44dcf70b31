//! What must hold afterwards, whatever happened: pure functions from evidence to violations.
//!
//! Three witnesses are compared: the clients (what was acknowledged), the target of actions (what was called
//! and done), and the database (what is recorded). None of them alone can tell.

mod accepted;
mod effects;
mod evidence;
mod keys;
mod log;
#[cfg(test)]
mod tests;
mod timers;

pub use evidence::{Check, Evidence, Violation, all};
