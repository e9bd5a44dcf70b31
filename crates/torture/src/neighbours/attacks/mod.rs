//! One file per group of attacks. Every attack is bounded in time and count, and counts its operations and
//! the answers, so that an attack without an effect is noticed.

mod anonymous_calls;
mod bodies;
mod definitions;
mod idle_connections;
mod ledger;
mod noise;
mod perform;
mod quota;
mod scene;
mod waiting;

pub(super) use ledger::AttackLedger;
pub(super) use noise::{NoisyTenant, verify_nothing_lost};
pub(super) use perform::perform_attack;
pub(super) use quota::applied_at_quota;
pub(super) use scene::AttackScene;
