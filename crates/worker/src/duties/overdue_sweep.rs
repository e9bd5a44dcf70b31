//! The overdue sweep: rings durable events that are still undecided.
//!
//! Such an event was never rung (an ingress died between its commit and its doorbell), or its doorbell was
//! lost. Its row says that it is undecided, which is all that this sweep needs: an event that reaches the age
//! of `overdue`, then twice that, four times, … is rung again, unless it merely waits in a queue of its
//! tenant that is as long. `model::overdue_sweep` computes which ages were reached since the last sweep from the time
//! of that sweep, which is kept with the duty, so no row is marked and no position over ids is kept. One
//! worker sweeps at a time, and no sooner than a period after the last sweep, however many workers there are.
//! It extends its turn from page to page; if it dies the turn runs out. An unfinished sweep (a crash, a
//! shutdown, a lost turn) is not recorded: the next one covers the time since the last recorded one.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::{ExecutionKey, TenantId};
use millstream_model::mutation::{self, Mutation};
use millstream_model::overdue_sweep::{self, SweepBand};
use millstream_stream::doorbell::Doorbell;

use super::periodic::DutyError;
use crate::environment::WorkerEnvironment;
use crate::metrics;
use crate::pipeline::queueing_times::QueueingTimes;

pub(crate) const DUTY: &str = "overdue";
/// Longer than a page takes (a statement is cut off at 10 s), extended before each. Only slightly longer: a
/// sweeper that dies blocks the duty for as long.
pub(crate) const TURN: Duration = Duration::from_secs(15);
/// Executions per page.
const PAGE: usize = 500;

/// Short enough that an event waits little longer than `overdue`.
pub(crate) fn sweep_period(env: &WorkerEnvironment) -> Duration {
    env.options.overdue / 4
}

/// Extent of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepExtent {
    All,
    /// The worker stops, or has lost the turn: the rest is for the next sweep.
    Part,
}

pub(crate) async fn sweep_overdue(
    env: Arc<WorkerEnvironment>,
    queueing: Arc<QueueingTimes>,
) -> Result<(), DutyError> {
    if mutation::is_active(Mutation::NoOverdueSweep) {
        return Ok(());
    }
    let (workers, me) = (&env.stores.workers, &env.options.worker);
    let now = env.now();
    let queued = queueing.next_period_delays();
    let Some(last) = workers.take_duty(DUTY, me, TURN, now).await? else { return Ok(()) };
    if now.since(last) < sweep_period(&env).mul_f64(0.75) {
        // Another worker has just completed the sweep.
        return Ok(workers.finish_duty(DUTY, me, last).await?);
    }
    let overdue = env.options.overdue;
    let waits = |tenant: &TenantId| queued.explains_age(tenant, overdue);
    let bands = overdue_sweep::overdue_bands(last, now, overdue, Duration::ZERO);
    let mut swept = ring_pages(&env, DUTY, Some(&bands), |tenant| !waits(tenant)).await;
    if matches!(swept, Ok(SweepExtent::All))
        && overdue_sweep::explained_age(queued.longest_delay()) >= overdue
    {
        // Events that wait in a long queue: only ages beyond its length.
        let bands = overdue_sweep::overdue_bands(last, now, overdue, queued.longest_delay());
        swept = ring_pages(&env, DUTY, Some(&bands), waits).await;
    }
    // After an incomplete sweep the recorded time stays: the next sweep covers this one too.
    let done_at = if matches!(swept, Ok(SweepExtent::All)) { now } else { last };
    workers.finish_duty(DUTY, me, done_at).await?;
    swept.map(|_| ())
}

/// Rings all undecided executions (within `bands`) of tenants that pass, page by page, while holding the turn
/// at `duty`.
pub(crate) async fn ring_pages(
    env: &WorkerEnvironment,
    duty: &'static str,
    bands: Option<&[SweepBand]>,
    passes: impl Fn(&TenantId) -> bool,
) -> Result<SweepExtent, DutyError> {
    let mut after: Option<ExecutionKey> = None;
    let mut rung = 0;
    let swept = loop {
        let page = env.stores.events.page_undecided(bands, after.as_ref(), PAGE).await?;
        let full = page.len() == PAGE;
        after = page.last().cloned();
        let passing = page.into_iter().filter(|execution| passes(&execution.tenant));
        let bells: Vec<Doorbell> = passing.map(Doorbell::Mailbox).collect();
        rung += bells.len();
        ::metrics::counter!(metrics::SWEPT, "sweep" => duty).increment(bells.len() as u64);
        if !bells.is_empty() {
            env.streams.bells.publish_bells(&bells).await?;
        }
        if !full {
            break SweepExtent::All;
        }
        if env.stop.is_cancelled() || !extend_turn(env, duty).await? {
            break SweepExtent::Part;
        }
    };
    if rung > 0 {
        tracing::info!(sweep = duty, executions = rung, "rang undecided executions again");
    }
    Ok(swept)
}

/// Extends the turn; `false` when this worker has lost it.
async fn extend_turn(env: &WorkerEnvironment, duty: &str) -> Result<bool, DutyError> {
    let (workers, me) = (&env.stores.workers, &env.options.worker);
    Ok(workers.take_duty(duty, me, TURN, env.now()).await?.is_some())
}
