//! Environment of the run service: what the caller's process provides.

use std::collections::BTreeSet;

use millstream_core::claim::{Told, WaitingAction, Weights};
use millstream_core::id::DeviceKey;
use millstream_core::time::Timestamp;

use super::rosters::Rosters;
use super::tally::Tally;
use crate::action_store::{SettleVerdict, Settlement};
use crate::{Result, Stores};

#[async_trait::async_trait]
pub trait Around: Send + Sync {
    fn stores(&self) -> &Stores;
    fn now(&self) -> Timestamp;
    fn weights(&self) -> Weights;
    /// Cached rosters of this process.
    fn rosters(&self) -> &Rosters;
    /// Round robin: the tie-break between equals; advances with every choice.
    fn rotation(&self) -> u64;
    /// Settlements for these waiting actions, in order. `None` where the action does not exist any more.
    async fn settlements(&self, ended: Vec<(WaitingAction, Told)>) -> Vec<Result<Option<Settlement>>>;
    /// Called after a commit: notifies waiters.
    async fn written(&self, written: Written);
}

/// Effects of a commit that are worth notifying.
#[derive(Debug, Default)]
pub struct Written {
    /// Devices with a changed list of work.
    pub devices: BTreeSet<DeviceKey>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
    /// Actions that became ready because of them.
    pub unleased: usize,
    pub tally: Tally,
}
