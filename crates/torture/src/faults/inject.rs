//! Injection of one fault of any kind, and the environment of faults.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{caught, network, postgres, processes, redis, rolling};
use crate::chance::Chance;
use crate::check::Violation;
use crate::kind::Kind;
use crate::load::Record;
use crate::stage::Stage;

/// Evidence that the fault had an effect, or the reason why it had none.
pub type Bite = Result<String, String>;

/// One fault of a run.
#[derive(Debug, Clone)]
pub struct Injected {
    pub kind: Kind,
    /// Time since the start of the run.
    pub at: Duration,
    pub began: Instant,
    pub ended: Instant,
    pub bite: Bite,
}

/// Environment of the faults.
#[derive(Debug)]
pub struct Ground<'a> {
    pub stage: &'a Stage,
    pub record: &'a Record,
    /// Violations observed by faults themselves.
    pub broken: &'a Mutex<Vec<Violation>>,
    /// Periods in which calls to the target may have been delayed: a stopped worker, or a bad network to the
    /// target.
    pub delays: &'a Mutex<Vec<(Instant, Instant)>>,
}

impl Ground<'_> {
    pub(crate) fn broke(&self, violation: Violation) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    /// Calls may have been delayed from then until now.
    pub(crate) fn delayed_since(&self, from: Instant) {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).push((from, Instant::now()));
    }
}

/// Injects one fault and undoes it.
pub async fn inject(kind: Kind, ground: &Ground<'_>, chance: &mut Chance) -> Bite {
    match kind {
        Kind::WorkerKill => processes::kill_worker(ground, chance).await,
        Kind::WorkerStop => processes::stop_worker(ground, chance).await,
        Kind::WorkerClockJump => processes::jump_clock(ground, chance).await,
        Kind::IngressKill => processes::kill_ingress(ground, chance).await,
        Kind::IngressStop => processes::stop_ingress(ground, chance).await,
        Kind::RollingRestart => rolling::restart(ground).await,
        Kind::WorkerKillMidCommit => caught::kill_mid_commit(ground, chance).await,
        Kind::WorkerStopMidVisit => caught::stop_mid_visit(ground, chance).await,
        Kind::LockOverrun => caught::overrun_lock(ground, chance).await,
        Kind::IngressKillUnrung => caught::kill_unrung(ground, chance).await,
        Kind::RedisKill => redis::kill(ground, chance).await,
        Kind::RedisEmpty => redis::restart_empty(ground, chance).await,
        Kind::RedisOlder => redis::restart_older(ground, chance).await,
        Kind::RedisStop => redis::stop(ground, chance).await,
        Kind::RedisFlush => redis::flush(ground).await,
        Kind::RedisScriptFlush => redis::flush_scripts(ground).await,
        Kind::RedisGroupDestroy => redis::destroy_groups(ground).await,
        Kind::RedisFull => redis::fill(ground, chance).await,
        Kind::RedisWrongPolicy => redis::wrong_policy(ground).await,
        Kind::Doorbells => redis::ring_again(ground, chance).await,
        Kind::PostgresKill => postgres::kill(ground, chance).await,
        Kind::PostgresRestart => postgres::restart(ground, chance).await,
        Kind::PostgresStop => postgres::stop(ground, chance).await,
        Kind::PostgresCut => postgres::cut(ground).await,
        Kind::PostgresTimeout => postgres::hold_tables(ground).await,
        Kind::PostgresReadOnly => postgres::read_only(ground, chance).await,
        Kind::PostgresFull => postgres::fill_disk(ground, chance).await,
        Kind::NetSlow | Kind::NetStall | Kind::NetHalfOpen | Kind::NetReset => {
            network::weather(kind, ground, chance).await
        }
    }
}

/// A random duration between two bounds.
pub(super) fn between(chance: &mut Chance, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + chance.below(most - least))
}
