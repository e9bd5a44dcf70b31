//! Injection of one fault of any kind, and the environment of faults.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{caught, network, postgres, processes, redis, rolling};
use crate::chance::TortureRandom;
use crate::check::TortureViolation;
use crate::fault_kind::FaultKind;
use crate::load::PostRecord;
use crate::stage::TortureStage;

/// Evidence that the fault had an effect, or the reason why it had none.
pub type FaultEffect = Result<String, String>;

/// One fault of a run.
#[derive(Debug, Clone)]
pub struct InjectedFault {
    pub kind: FaultKind,
    /// Time since the start of the run.
    pub at: Duration,
    pub began: Instant,
    pub ended: Instant,
    pub bite: FaultEffect,
}

/// Environment of the faults.
#[derive(Debug)]
pub struct FaultGround<'a> {
    pub stage: &'a TortureStage,
    pub record: &'a PostRecord,
    /// Violations observed by faults themselves.
    pub broken: &'a Mutex<Vec<TortureViolation>>,
    /// Periods in which calls to the target may have been delayed: a stopped worker, or a bad network to the
    /// target.
    pub delays: &'a Mutex<Vec<(Instant, Instant)>>,
}

impl FaultGround<'_> {
    pub(crate) fn record_violation(&self, violation: TortureViolation) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    /// Calls may have been delayed from then until now.
    pub(crate) fn delayed_since(&self, from: Instant) {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner).push((from, Instant::now()));
    }
}

/// Injects one fault and undoes it.
pub async fn inject_fault(
    kind: FaultKind,
    ground: &FaultGround<'_>,
    chance: &mut TortureRandom,
) -> FaultEffect {
    match kind {
        FaultKind::WorkerKill => processes::kill_worker(ground, chance).await,
        FaultKind::WorkerStop => processes::stop_worker(ground, chance).await,
        FaultKind::WorkerClockJump => processes::jump_clock(ground, chance).await,
        FaultKind::IngressKill => processes::kill_ingress(ground, chance).await,
        FaultKind::IngressStop => processes::stop_ingress(ground, chance).await,
        FaultKind::RollingRestart => rolling::restart_fleet(ground).await,
        FaultKind::WorkerKillMidCommit => caught::kill_mid_commit(ground, chance).await,
        FaultKind::WorkerStopMidVisit => caught::stop_mid_visit(ground, chance).await,
        FaultKind::LockOverrun => caught::overrun_lock(ground, chance).await,
        FaultKind::IngressKillUnrung => caught::kill_unrung(ground, chance).await,
        FaultKind::RedisKill => redis::kill_redis(ground, chance).await,
        FaultKind::RedisEmpty => redis::restart_empty(ground, chance).await,
        FaultKind::RedisOlder => redis::restart_older(ground, chance).await,
        FaultKind::RedisStop => redis::stop_redis(ground, chance).await,
        FaultKind::RedisFlush => redis::flush_redis(ground).await,
        FaultKind::RedisScriptFlush => redis::flush_scripts(ground).await,
        FaultKind::RedisGroupDestroy => redis::destroy_groups(ground).await,
        FaultKind::RedisFull => redis::fill_redis(ground, chance).await,
        FaultKind::RedisWrongPolicy => redis::wrong_policy(ground).await,
        FaultKind::Doorbells => redis::ring_again(ground, chance).await,
        FaultKind::PostgresKill => postgres::kill_postgres(ground, chance).await,
        FaultKind::PostgresRestart => postgres::restart_postgres(ground, chance).await,
        FaultKind::PostgresStop => postgres::stop_postgres(ground, chance).await,
        FaultKind::PostgresCut => postgres::cut_connections(ground).await,
        FaultKind::PostgresTimeout => postgres::hold_tables(ground).await,
        FaultKind::PostgresReadOnly => postgres::read_only(ground, chance).await,
        FaultKind::PostgresFull => postgres::fill_disk(ground, chance).await,
        FaultKind::NetSlow | FaultKind::NetStall | FaultKind::NetHalfOpen | FaultKind::NetReset => {
            network::change_weather(kind, ground, chance).await
        }
    }
}

/// A random duration between two bounds.
pub(super) fn random_duration(chance: &mut TortureRandom, least: u64, most: u64) -> Duration {
    Duration::from_millis(least + chance.below(most - least))
}
