//! One file for each group of attacks. Every attack is bounded in time and count, and tallies what it did and what it
//! was answered, so that an attack that did nothing is noticed.

mod anonymous_calls;
mod bodies;
mod definitions;
mod idle_connections;
mod noise;
mod waiting;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::attack::Attack;
use super::engine::FleetUnderTest;
use super::figures::AttackTally;
use crate::chance::Chance;

pub(super) use noise::{NoisyTenant, verify_nothing_lost};

/// What an attack needs to know.
#[derive(Clone)]
pub(super) struct AttackScene {
    pub(super) fleet: Arc<FleetUnderTest>,
    /// An address at which no call is ever answered.
    pub(super) tarpit: String,
    pub(super) noisy: Arc<NoisyTenant>,
    pub(super) burst: usize,
    pub(super) until: Instant,
    pub(super) chance: Chance,
    tally: Arc<Mutex<AttackTally>>,
}

impl AttackScene {
    pub(super) fn new(
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

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Waits until the attack is over.
    async fn sleep_until_over(&self) {
        tokio::time::sleep_until(self.until.into()).await;
    }

    fn add(&self, word: impl Into<String>, count: u64) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.entry(word.into()).or_default() += count;
    }

    fn add_status(&self, answer: &Result<reqwest::Response, reqwest::Error>) {
        match answer {
            Ok(answer) => self.add(format!("status {}", answer.status().as_u16()), 1),
            Err(_) => self.add("no answer", 1),
        }
    }

    pub(super) fn tally(&self) -> AttackTally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Makes the attack until its time is over. Everything that it opened is closed when this returns.
pub(super) async fn perform(attack: Attack, scene: &AttackScene) {
    match attack {
        Attack::None => scene.sleep_until_over().await,
        Attack::Paths => anonymous_calls::send_paths(scene).await,
        Attack::IdleHttp2 => idle_connections::open_idle_connections(scene).await,
        Attack::EmptyCalls => anonymous_calls::open_empty_calls(scene).await,
        Attack::HealthWatches => anonymous_calls::open_health_watches(scene).await,
        Attack::UnknownKeys => anonymous_calls::guess_keys(scene).await,
        Attack::SlowBodies => bodies::send_slow_bodies(scene).await,
        Attack::Tails => waiting::open_tails(scene).await,
        Attack::LongPolls => waiting::open_long_polls(scene).await,
        Attack::Expressions => definitions::evaluate_hostile_expressions(scene).await,
        Attack::SelfStart => definitions::start_recursively(scene).await,
        Attack::TarpitActions => definitions::call_tarpit(scene).await,
        Attack::Burst => noise::burst(scene).await,
        Attack::BurstWithFaults => noise::burst_with_faults(scene).await,
    }
}
