//! A change, and what it does to other runs, on its way into the store.

use std::collections::BTreeMap;

use millstream_core::claim::Change;
use millstream_core::id::{DeviceKey, RunKey};
use millstream_core::time::Timestamp;

use super::around::{Around, Written};
use crate::action_store::{SettleVerdict, Settlement};
use crate::run_store::{Expected, RunVerdict, RunWrite, StoredRun, Unit};
use crate::{Result, StoreError};

/// How often something is tried again because others were faster.
pub(super) const TRIES: usize = 8;

/// What is written together.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) key: RunKey,
    pub(super) expected: Expected,
    pub(super) change: Change,
    /// Runs that give way to it, with the version that was seen.
    pub(super) others: BTreeMap<RunKey, (i64, Change)>,
}

/// Who tells the waiting action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    /// It is settled with the write.
    Here,
    /// Whoever asked has the action in its hands.
    Caller,
}

/// What became of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    Done,
    /// Somebody was faster: look again.
    Faster {
        key: RunKey,
        current: Option<Box<StoredRun>>,
    },
}

impl Draft {
    pub(super) async fn write(&self, around: &dyn Around, settle: Settle, now: Timestamp) -> Result<Outcome> {
        let mut settlements: Vec<Settlement> = Vec::new();
        let mut writes = Vec::with_capacity(1 + self.others.len());
        let own = (&self.key, self.expected, &self.change);
        let others = self.others.iter().map(|(key, (at, change))| (key, Expected::Version(*at), change));
        for (key, expected, change) in std::iter::once(own).chain(others) {
            let told = change.told.clone().filter(|_| settle == Settle::Here || key != &self.key);
            let settlement = match (&change.run.waiting, told) {
                (Some(waiting), Some(told)) => around.settlement(waiting, told).await?,
                (Some(_) | None, Some(_) | None) => None,
            };
            settlements.extend(settlement.clone());
            writes.push(RunWrite {
                key: key.clone(),
                expected,
                run: change.run.clone(),
                log: change.log.clone(),
                unheard: change.unheard.clone(),
                settlement,
            });
        }
        let committed = around.stores().runs.commit_runs(&[Unit { writes }], now).await?;
        let unleased = committed.unleased;
        match committed.verdicts.into_iter().next() {
            Some(RunVerdict::Done { settled }) => {
                around.written(self.written(settlements, settled, unleased)).await;
                Ok(Outcome::Done)
            }
            Some(RunVerdict::Conflict { key, current }) => Ok(Outcome::Faster { key, current }),
            None => Err(StoreError::Unavailable("the store gave no verdict".to_owned())),
        }
    }

    fn written(&self, settlements: Vec<Settlement>, settled: Vec<SettleVerdict>, unleased: usize) -> Written {
        let changes = std::iter::once((&self.key, &self.change))
            .chain(self.others.iter().map(|(key, (_, it))| (key, it)));
        let devices = changes.flat_map(|(key, change)| {
            let tenant = &key.tenant;
            change
                .devices()
                .into_iter()
                .map(move |device| DeviceKey { tenant: tenant.clone(), device: device.clone() })
        });
        Written {
            devices: devices.collect(),
            settled: settlements.into_iter().zip(settled).collect(),
            unleased,
        }
    }
}

pub(super) fn contended(key: &RunKey) -> StoreError {
    StoreError::Contention(format!("the run {key} was changed by others {TRIES} times in a row"))
}
