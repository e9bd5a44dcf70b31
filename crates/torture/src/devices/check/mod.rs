//! Guarantees of device runs under misbehaving devices: pure functions over the evidence.

mod ended;
mod evidence;
mod history;
mod settled;
mod tenure;
mod tokens;
mod unowned;

#[cfg(test)]
mod tests;

pub use evidence::{Bounds, Evidence, ExecutionSeen, Finding, Rule, RunSeen, SeatSeen, all};
pub use unowned::{Kind, Wait, Waits, waits};
