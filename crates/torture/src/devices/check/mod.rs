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

pub use evidence::{
    DeviceBounds, DeviceEvidence, DeviceFinding, DeviceRule, ExecutionSeen, RunSeen, SeatSeen, check_all,
};
pub use unowned::{UnownedWait, UnownedWaits, WaitKind, collect_waits};
