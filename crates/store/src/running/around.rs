//! What a shell knows when something is done to a run.

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
    /// The devices as this process knows them.
    fn rosters(&self) -> &Rosters;
    /// Decides between equals: goes on with every choice.
    fn rotation(&self) -> u64;
    /// What settles each of the actions that wait, in order. `None` where there is no such action any more.
    async fn settlements(&self, ended: Vec<(WaitingAction, Told)>) -> Vec<Result<Option<Settlement>>>;
    /// Something was written: those whom it concerns are told.
    async fn written(&self, written: Written);
}

/// What is worth telling after a commit.
#[derive(Debug, Default)]
pub struct Written {
    /// For whom something is different now.
    pub devices: BTreeSet<DeviceKey>,
    pub settled: Vec<(Settlement, SettleVerdict)>,
    /// Actions that became ready because of them.
    pub unleased: usize,
    pub tally: Tally,
}
