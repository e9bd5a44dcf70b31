//! What every attack knows, and the tally of what it did.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::NoisyTenant;
use crate::chance::Chance;
use crate::neighbours::engine::FleetUnderTest;
use crate::neighbours::figures::AttackTally;

/// What an attack needs to know.
#[derive(Clone)]
pub(in crate::neighbours) struct AttackScene {
    pub(in crate::neighbours) fleet: Arc<FleetUnderTest>,
    /// An address at which no call is ever answered.
    pub(super) tarpit: String,
    pub(super) noisy: Arc<NoisyTenant>,
    pub(super) burst: usize,
    pub(super) until: Instant,
    pub(super) chance: Chance,
    tally: Arc<Mutex<AttackTally>>,
}

impl AttackScene {
    pub(in crate::neighbours) fn new(
        fleet: &Arc<FleetUnderTest>,
        noisy: &Arc<NoisyTenant>,
        tarpit: String,
        burst: usize,
        length: Duration,
        chance: Chance,
    ) -> Self {
        Self {
            fleet: Arc::clone(fleet),
            noisy: Arc::clone(noisy),
            tarpit,
            burst,
            until: Instant::now() + length,
            chance,
            tally: Arc::default(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Waits until the attack is over.
    pub(super) async fn sleep_until_over(&self) {
        tokio::time::sleep_until(self.until.into()).await;
    }

    pub(super) fn add(&self, word: impl Into<String>, count: u64) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.entry(word.into()).or_default() += count;
    }

    pub(super) fn add_status(&self, answer: &Result<reqwest::Response, reqwest::Error>) {
        match answer {
            Ok(answer) => self.add(format!("status {}", answer.status().as_u16()), 1),
            Err(_) => self.add("no answer", 1),
        }
    }

    pub(in crate::neighbours) fn tally(&self) -> AttackTally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
