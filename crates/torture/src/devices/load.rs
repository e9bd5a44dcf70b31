//! Creates runs, limited in concurrency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::operator::invite_device;
use super::plan::{self, PlannedRun};
use super::record::DeviceRecord;
use super::wire::{DeviceReply, DeviceWire};
use crate::chance::TortureRandom;

const PAUSE: Duration = Duration::from_millis(60);

#[derive(Clone)]
pub(super) struct RunCreator {
    pub(super) wire: Arc<DeviceWire>,
    pub(super) record: DeviceRecord,
    pub(super) seed: TortureRandom,
    pub(super) next: Arc<AtomicUsize>,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) invitations: Vec<mpsc::UnboundedSender<String>>,
    pub(super) runs: usize,
    pub(super) at_once: usize,
    pub(super) until: Instant,
}

impl RunCreator {
    /// Runs until all runs are created, or time is over.
    pub(super) async fn create_runs(self) {
        loop {
            while self.open.load(Ordering::SeqCst) >= self.at_once && Instant::now() < self.until {
                tokio::time::sleep(PAUSE).await;
            }
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            if number >= self.runs || Instant::now() >= self.until {
                return;
            }
            self.open.fetch_add(1, Ordering::SeqCst);
            let mut chance = self.seed.for_the(&format!("run {number}"));
            let wanted = plan::planned_run(number, self.invitations.len(), &mut chance);
            let (path, body) = match &wanted {
                PlannedRun::Run { body, .. } => ("/v1/runs", body),
                PlannedRun::Execution { body, .. } => ("/v1/executions", body),
            };
            // The same id with the same content is an idempotent repeat.
            let status = loop {
                match self.wire.post(path, body).await {
                    DeviceReply::Answered { status, .. } => break status,
                    DeviceReply::Nothing | DeviceReply::Unsent => tokio::time::sleep(PAUSE).await,
                }
            };
            let mut written = self.record.lock_state();
            match (wanted, status) {
                (PlannedRun::Run { id, is_free, .. }, 200 | 201) => {
                    if is_free {
                        invite_device(&self.invitations, &id, &mut chance);
                    }
                    written.runs.insert(id);
                }
                (PlannedRun::Execution { id, .. }, 200..=202) => {
                    written.executions.insert(id);
                }
                (PlannedRun::Run { id, .. } | PlannedRun::Execution { id, .. }, status) => {
                    written.odd.push(format!("{id} was refused with {status}"));
                }
            }
        }
    }
}
