//! Environment of the run service: what the caller's process provides.

use std::collections::BTreeSet;

use millstream_devices::claim::{RunOutcome, SelectionWeights, WaitingAction};
use millstream_model::id::DeviceKey;
use millstream_model::time::Timestamp;

use super::roster_cache::RosterCache;
use super::run_counters::RunCounters;
use crate::action_store::{SettleVerdict, Settlement};
use crate::{StoreResult, Stores};

#[async_trait::async_trait]
pub trait RunEnvironment: Send + Sync {
    fn stores(&self) -> &Stores;
    fn now(&self) -> Timestamp;
    fn weights(&self) -> SelectionWeights;
    /// Cached rosters of this process.
    fn rosters(&self) -> &RosterCache;
    /// Round robin: the tie-break between equals; advances with every choice.
    fn next_rotation(&self) -> u64;
    /// Settlements for these waiting actions, in order. `None` where the action does not exist any more.
    async fn build_settlements(
        &self,
        ended: Vec<(WaitingAction, RunOutcome)>,
    ) -> Vec<StoreResult<Option<Settlement>>>;
    /// Called after a commit: notifies waiters.
    async fn publish_changes(&self, written: WrittenRuns);
}

/// Effects of a commit that are worth notifying.
#[derive(Debug, Default)]
pub struct WrittenRuns {
    /// Devices with a changed list of work.
    pub devices: BTreeSet<DeviceKey>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
    /// Actions that became ready because of them.
    pub unleased: usize,
    pub tally: RunCounters,
}
