//! Parameters of an attack, and the tally of its operations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::quota::SharedOutcome;
use super::{AttackLedger, NoisyTenant};
use crate::chance::TortureRandom;
use crate::neighbours::engine::FleetUnderTest;
use crate::neighbours::figures::AttackTally;
use crate::neighbours::options::NeighbourOptions;
use crate::neighbours::settled::QuotaOutcome;
use crate::neighbours::target::HostileTarget;

/// Parameters of an attack.
#[derive(Clone)]
pub(in crate::neighbours) struct AttackScene {
    pub(in crate::neighbours) fleet: Arc<FleetUnderTest>,
    /// An address that never answers.
    pub(super) tarpit: String,
    /// An address that always answers.
    pub(super) swift: String,
    pub(super) noisy: Arc<NoisyTenant>,
    pub(super) ledger: Arc<AttackLedger>,
    pub(super) quota: SharedOutcome,
    pub(super) burst: usize,
    pub(super) until: Instant,
    length: Duration,
    pub(super) chance: TortureRandom,
    tally: Arc<Mutex<AttackTally>>,
    /// The threads that start processes of the fleet, which have the priority of the thread that starts them.
    pub(super) fleet_threads: Handle,
}

impl AttackScene {
    /// Called on the threads that started the fleet.
    pub(in crate::neighbours) fn new(
        fleet: &Arc<FleetUnderTest>,
        noisy: &Arc<NoisyTenant>,
        ledger: &Arc<AttackLedger>,
        target: &HostileTarget,
        options: &NeighbourOptions,
        chance: TortureRandom,
    ) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            noisy: Arc::clone(noisy),
            ledger: Arc::clone(ledger),
            quota: SharedOutcome::default(),
            tarpit: target.url("/tarpit"),
            swift: target.url("/swift"),
            burst: options.burst,
            until: Instant::now() + options.length,
            length: options.length,
            chance,
            tally: Arc::default(),
            fleet_threads: Handle::current(),
        }
    }

    /// The same parameters, with the time of the attack starting now.
    pub(super) fn begun_now(&self) -> Self {
        Self { until: Instant::now() + self.length, ..self.clone() }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Waits until the attack is over.
    pub(super) async fn sleep_until_over(&self) {
        tokio::time::sleep_until(self.until.into()).await;
    }

    pub(super) fn add_count(&self, word: impl Into<String>, count: u64) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.entry(word.into()).or_default() += count;
    }

    pub(super) fn add_status(&self, answer: &Result<reqwest::Response, reqwest::Error>) {
        match answer {
            Ok(answer) => self.add_count(format!("status {}", answer.status().as_u16()), 1),
            Err(_) => self.add_count("no answer", 1),
        }
    }

    pub(in crate::neighbours) fn quota_outcome(&self) -> QuotaOutcome {
        self.quota.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(in crate::neighbours) fn tally(&self) -> AttackTally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
