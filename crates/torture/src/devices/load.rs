//! Creates runs, limited in concurrency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::operator::invite;
use super::plan::{self, Wanted};
use super::record::Record;
use super::wire::{Reply, Wire};
use crate::chance::Chance;

const PAUSE: Duration = Duration::from_millis(60);

#[derive(Clone)]
pub(super) struct Creator {
    pub(super) wire: Arc<Wire>,
    pub(super) record: Record,
    pub(super) seed: Chance,
    pub(super) next: Arc<AtomicUsize>,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) invitations: Vec<mpsc::UnboundedSender<String>>,
    pub(super) runs: usize,
    pub(super) at_once: usize,
    pub(super) until: Instant,
}

impl Creator {
    /// Runs until all runs are created, or time is over.
    pub(super) async fn create(self) {
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
            let wanted = plan::wanted(number, self.invitations.len(), &mut chance);
            let (path, body) = match &wanted {
                Wanted::Run { body, .. } => ("/v1/runs", body),
                Wanted::Execution { body, .. } => ("/v1/executions", body),
            };
            // The same id with the same content is an idempotent repeat.
            let status = loop {
                match self.wire.post(path, body).await {
                    Reply::Answered { status, .. } => break status,
                    Reply::Nothing | Reply::Unsent => tokio::time::sleep(PAUSE).await,
                }
            };
            let mut written = self.record.write();
            match (wanted, status) {
                (Wanted::Run { id, is_free, .. }, 200 | 201) => {
                    if is_free {
                        invite(&self.invitations, &id, &mut chance);
                    }
                    written.runs.insert(id);
                }
                (Wanted::Execution { id, .. }, 200..=202) => {
                    written.executions.insert(id);
                }
                (Wanted::Run { id, .. } | Wanted::Execution { id, .. }, status) => {
                    written.odd.push(format!("{id} was refused with {status}"));
                }
            }
        }
    }
}
