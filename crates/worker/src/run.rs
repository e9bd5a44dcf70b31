//! Life cycle of a worker: starts the loops, owns them, drains.
//!
//! Every task belongs to a set in this file; dropping the future of [`run_worker`] aborts all of them, which is how
//! a test crashes a worker.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::time::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::assembly::{AssembledWorker, PerformingInputs};
use crate::deps::WorkerDeps;
use crate::drain::DrainDeadlines;
use crate::duties::periodic::{run_once, run_periodically};
use crate::duties::{
    clock_sync, dead_consumers, doorbell_counts, due_actions, due_items, due_nodes, due_runs, due_timers,
    ended_graphs, gauges, graph_times, heartbeat, missed_schedules, overdue_sweep, publish, queue_totals,
    quota_refresh, registered_executors, retention, ring_all,
};
use crate::error::WorkerFailure;
use crate::leasing::renewal;
use crate::options::WorkerOptions;
use crate::perform::{attempt, dispatch_recorder};
use crate::pipeline::{consume, reader, reclaim};
use crate::{drain, metrics, settle};

/// Time limit of the first heartbeat: a store that does not answer must not delay the start.
const FIRST_BEAT: Duration = Duration::from_secs(2);

/// Works until `shutdown`, then drains. Several workers may run in one process under different ids.
pub async fn run_worker(
    deps: WorkerDeps,
    options: WorkerOptions,
    shutdown: CancellationToken,
) -> Result<(), WorkerFailure> {
    options.check()?;
    metrics::describe_metrics();
    let (worker, inputs) = AssembledWorker::new(deps, options, shutdown.child_token())?;
    let AssembledWorker { env, decider, leasing, performer, losses, .. } = &worker;
    let started_at = env.now();
    // Before anything that can fail: only a worker that is registered as up is missed when it dies.
    let first = heartbeat::send_heartbeat(Arc::clone(leasing), performer.calls.clone(), started_at);
    let _ = tokio::time::timeout(FIRST_BEAT, run_once(env, "beat", first)).await;
    tracing::info!(worker.id = %env.options.worker, "worker started");

    let mut performing = start_performing(&worker, inputs);

    // Capacity of one batch from each sender while the driver is busy: reading further ahead would only hold
    // doorbells that other workers could answer.
    let (arrive, mut arrivals) = mpsc::channel(1);
    let mut intake = JoinSet::new();
    let full_tenants = decider.full_tenants.clone();
    intake.spawn(reader::run_reader(Arc::clone(env), full_tenants, Arc::clone(losses), arrive.clone()));
    intake.spawn(reclaim::run_reclaim(Arc::clone(env), arrive));
    let mut duties = JoinSet::new();
    start_duties(&worker, &mut duties, started_at);

    let mut died = None;
    let held = {
        let drive = consume::drive_visits(decider, &mut arrivals);
        tokio::pin!(drive);
        tokio::select! {
            biased;
            held = &mut drive => held,
            ended = performing.join_next() => {
                died = Some(ended.and_then(Result::ok).unwrap_or("performing"));
                env.stop.cancel();
                drive.await
            }
        }
    };

    tracing::info!(worker.id = %env.options.worker, "worker draining");
    env.stop.cancel();
    let DrainDeadlines { finish, end } = DrainDeadlines::within_length(env.options.drain);
    let draining = async {
        let kept = consume::finish_visits(env, held, finish).await;
        drain::hand_back_doorbells(decider, kept, arrivals, finish).await;
        drain::end_duties(&mut duties).await;
        drain::finish_actions(leasing, &mut performing, finish).await;
        drain::deregister_worker(env).await;
    };
    if tokio::time::timeout_at(end, draining).await.is_err() {
        tracing::warn!(worker.id = %env.options.worker, "drain deadline exceeded; other workers recover the rest");
    }
    tracing::info!(worker.id = %env.options.worker, "worker stopped");
    died.map_or(Ok(()), |name| Err(WorkerFailure::Loop(name)))
}

/// Each task returns its name: the worker cannot go on without any of them.
fn start_performing(worker: &AssembledWorker, inputs: PerformingInputs) -> JoinSet<&'static str> {
    let PerformingInputs { leased, dispatches } = inputs;
    // Capacity for as many reports as there are slots.
    let (report, reports) = mpsc::channel(worker.env.options.max_leases());
    let mut performing = JoinSet::new();
    let performer = Arc::clone(&worker.performer);
    performing.spawn(async {
        attempt::run_attempts(performer, leased, report).await;
        "performing"
    });
    let leasing = Arc::clone(&worker.leasing);
    performing.spawn(async {
        settle::run_settling(leasing, reports).await;
        "settling"
    });
    let env = Arc::clone(&worker.env);
    performing.spawn(async {
        dispatch_recorder::run_dispatch_recorder(env, dispatches).await;
        "dispatching"
    });
    let leasing = Arc::clone(&worker.leasing);
    performing.spawn(async {
        renewal::renew_leases(leasing).await;
        "renewing"
    });
    performing
}

/// Each duty receives the part of the worker that it works on.
fn start_duties(worker: &AssembledWorker, duties: &mut JoinSet<()>, started_at: Timestamp) {
    let AssembledWorker { env, decider, leasing, performer, sinks, losses } = worker;
    let e = || Arc::clone(env);
    let tick = env.options.tick;
    duties.spawn(due_timers::run_due_timers(Arc::clone(leasing), Arc::clone(&decider.timers)));
    duties.spawn(due_actions::run_due_actions(Arc::clone(leasing)));
    duties.spawn(due_nodes::run_due_nodes(Arc::clone(leasing)));
    duties.spawn(ring_all::run_ring_all(e(), Arc::clone(losses)));
    duties.spawn(publish::run_publisher(e(), sinks.clone()));
    let part = Arc::clone(leasing);
    duties.spawn(run_periodically(e(), "missed schedules", tick, part, missed_schedules::give_up_missed));
    let part = Arc::clone(performer);
    duties.spawn(run_periodically(e(), "runs of devices", tick, part, due_runs::process_due_runs));
    let part = Arc::clone(performer);
    duties.spawn(run_periodically(e(), "items of people", tick, part, due_items::expire_due_items));
    let queueing = Arc::clone(&decider.queueing);
    let sweep = move |env| overdue_sweep::sweep_overdue(env, Arc::clone(&queueing));
    duties.spawn(run_periodically(e(), "overdue", overdue_sweep::sweep_period(env), e(), sweep));
    let recount = doorbell_counts::recount_doorbells;
    duties.spawn(run_periodically(e(), "windows", doorbell_counts::PERIOD, e(), recount));
    let remove = dead_consumers::remove_dead_consumers;
    duties.spawn(run_periodically(e(), "consumers", dead_consumers::PERIOD, e(), remove));
    duties.spawn(run_periodically(e(), "retention", retention::PERIOD, e(), retention::purge_outlived));
    let calls = performer.calls.clone();
    let beat = move |leasing| heartbeat::send_heartbeat(leasing, calls.clone(), started_at);
    duties.spawn(run_periodically(e(), "beat", env.options.beat, Arc::clone(leasing), beat));
    let quotas = Arc::clone(&leasing.quotas);
    let refresh = move |env| quota_refresh::refresh_quotas(env, Arc::clone(&quotas));
    duties.spawn(run_periodically(e(), "quotas", quota_refresh::PERIOD, e(), refresh));
    let executors = leasing.executors.clone();
    let read = move |env| registered_executors::read_executors(env, executors.clone());
    duties.spawn(run_periodically(e(), "executors", registered_executors::PERIOD, e(), read));
    let detect = ended_graphs::detect_ended_graphs;
    duties.spawn(run_periodically(e(), "ended graphs", ended_graphs::PERIOD, Arc::clone(leasing), detect));
    let graphs = Arc::clone(&decider.ended_graphs);
    let measure = move |env| graph_times::measure_graph_times(env, Arc::clone(&graphs));
    duties.spawn(run_periodically(e(), "graph times", graph_times::PERIOD, e(), measure));
    duties.spawn(run_periodically(e(), "clock", clock_sync::PERIOD, e(), clock_sync::measure_store_time));
    duties.spawn(run_periodically(e(), "gauges", gauges::PERIOD, e(), gauges::measure_gauges));
    let known = Arc::default();
    let measure = move |env| queue_totals::measure_queue_totals(env, Arc::clone(&known));
    duties.spawn(run_periodically(e(), "standings", queue_totals::PERIOD, e(), measure));
}
