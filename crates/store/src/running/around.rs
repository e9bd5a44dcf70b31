//! What a shell knows when something is done to a run.

use std::collections::BTreeSet;

use millstream_core::claim::{Candidate, Told, WaitingAction, Weights};
use millstream_core::id::{DeviceKey, TenantId};
use millstream_core::time::Timestamp;

use crate::action_store::{SettleVerdict, Settlement};
use crate::{Result, Stores};

#[async_trait::async_trait]
pub trait Around: Send + Sync {
    fn stores(&self) -> &Stores;
    fn now(&self) -> Timestamp;
    fn weights(&self) -> Weights;
    /// Decides between equals: goes on with every choice.
    fn rotation(&self) -> u64;
    /// What settles the action that waits. `None` where there is no such action any more.
    async fn settlement(&self, waiting: &WaitingAction, told: Told) -> Result<Option<Settlement>>;
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
}

/// Devices read at once.
const PAGE: usize = 1_000;
/// More are not looked at for one choice.
const MOST: usize = 10_000;

/// The devices that a choice is made from.
pub async fn roster(stores: &Stores, tenant: &TenantId) -> Result<Vec<Candidate>> {
    let mut all: Vec<Candidate> = Vec::new();
    while all.len() < MOST {
        let after = all.last().map(|last| last.device.id.clone());
        let page = stores.devices.roster(tenant, after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all)
}
