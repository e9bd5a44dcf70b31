//! Admission control beyond a single semaphore: a place in this process together with the tenant's share of
//! it, and the tenant's quotas before something is written.
//!
//! Existing things are never refused: a repeat, a known executor, device, run, queue or person, an
//! unchanged definition.

mod control;
mod creations;
mod places;

pub(crate) use control::AdmissionControl;
pub(crate) use creations::StartCharge;
pub(crate) use places::HeldPlace;
