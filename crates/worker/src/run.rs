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

use crate::context::{WorkerContext, WorkerInputs};
use crate::deps::WorkerDeps;
use crate::drain::DrainDeadlines;
use crate::duties::periodic::{run_once, run_periodically};
use crate::duties::{
    clock_sync, dead_consumers, doorbell_counts, due_actions, due_items, due_nodes, due_runs, due_timers,
    ended_graphs, gauges, graph_times, heartbeat, missed_schedules, overdue_sweep, publish, queue_totals,
    quota_refresh, registered_executors, retention, ring_all,
};
use crate::error::WorkerFailure;
use crate::options::WorkerOptions;
use crate::perform::{attempt, dispatch_recorder};
use crate::{consume, drain, lease_renewal, metrics, reader, reclaim, settle};

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
    let (worker, WorkerInputs { errands, wishes }) =
        WorkerContext::new(deps, options, shutdown.child_token())?;
    let started_at = worker.now();
    // Before anything that can fail: only a worker that is registered as up is missed when it dies.
    let known = run_once(&worker, "beat", heartbeat::send_heartbeat(Arc::clone(&worker), started_at));
    let _ = tokio::time::timeout(FIRST_BEAT, known).await;
    tracing::info!(worker.id = %worker.options.worker, "worker started");

    // Capacity for as many reports as there are slots.
    let (report, reports) = mpsc::channel(worker.options.max_leases());
    let mut performing = JoinSet::new();
    let [perform, settled, renewed, dispatched] = [(); 4].map(|()| Arc::clone(&worker));
    performing.spawn(async {
        attempt::run_attempts(perform, errands, report).await;
        "performing"
    });
    performing.spawn(async {
        settle::run_settling(settled, reports).await;
        "settling"
    });
    performing.spawn(async {
        dispatch_recorder::run_dispatch_recorder(dispatched, wishes).await;
        "dispatching"
    });
    performing.spawn(async {
        lease_renewal::renew_leases(renewed).await;
        "renewing"
    });

    // Capacity of one batch from each sender while the driver is busy: reading further ahead would only hold
    // doorbells that other workers could answer.
    let (arrive, mut arrivals) = mpsc::channel(1);
    let mut intake = JoinSet::new();
    intake.spawn(reader::run_reader(Arc::clone(&worker), arrive.clone()));
    intake.spawn(reclaim::run_reclaim(Arc::clone(&worker), arrive));
    let mut duties = JoinSet::new();
    start_duties(&worker, &mut duties, started_at);

    let mut died = None;
    let held = {
        let drive = consume::drive_visits(&worker, &mut arrivals);
        tokio::pin!(drive);
        tokio::select! {
            biased;
            held = &mut drive => held,
            ended = performing.join_next() => {
                died = Some(ended.and_then(Result::ok).unwrap_or("performing"));
                worker.stop.cancel();
                drive.await
            }
        }
    };

    tracing::info!(worker.id = %worker.options.worker, "worker draining");
    worker.stop.cancel();
    let DrainDeadlines { finish, end } = DrainDeadlines::within_length(worker.options.drain);
    let draining = async {
        let kept = consume::finish_visits(&worker, held, finish).await;
        drain::hand_back_doorbells(&worker, kept, arrivals, finish).await;
        drain::end_duties(&mut duties).await;
        drain::finish_actions(&worker, &mut performing, finish).await;
        drain::deregister_worker(&worker).await;
    };
    if tokio::time::timeout_at(end, draining).await.is_err() {
        tracing::warn!(worker.id = %worker.options.worker, "drain deadline exceeded; other workers recover the rest");
    }
    tracing::info!(worker.id = %worker.options.worker, "worker stopped");
    died.map_or(Ok(()), |name| Err(WorkerFailure::Loop(name)))
}

fn start_duties(worker: &Arc<WorkerContext>, duties: &mut JoinSet<()>, started_at: Timestamp) {
    let w = || Arc::clone(worker);
    duties.spawn(due_timers::run_due_timers(w()));
    duties.spawn(due_actions::run_due_actions(w()));
    duties.spawn(due_nodes::run_due_nodes(w()));
    duties.spawn(ring_all::run_ring_all(w()));
    duties.spawn(publish::run_publisher(w()));
    duties.spawn(run_periodically(
        w(),
        "missed schedules",
        worker.options.tick,
        missed_schedules::give_up_missed,
    ));
    duties.spawn(run_periodically(w(), "runs of devices", worker.options.tick, due_runs::process_due_runs));
    duties.spawn(run_periodically(w(), "items of people", worker.options.tick, due_items::expire_due_items));
    duties.spawn(run_periodically(
        w(),
        "overdue",
        overdue_sweep::sweep_period(worker),
        overdue_sweep::sweep_overdue,
    ));
    duties.spawn(run_periodically(
        w(),
        "windows",
        doorbell_counts::PERIOD,
        doorbell_counts::recount_doorbells,
    ));
    duties.spawn(run_periodically(
        w(),
        "consumers",
        dead_consumers::PERIOD,
        dead_consumers::remove_dead_consumers,
    ));
    duties.spawn(run_periodically(w(), "retention", retention::PERIOD, retention::purge_outlived));
    duties.spawn(run_periodically(w(), "beat", worker.options.beat, move |worker| {
        heartbeat::send_heartbeat(worker, started_at)
    }));
    duties.spawn(run_periodically(w(), "quotas", quota_refresh::PERIOD, quota_refresh::refresh_quotas));
    duties.spawn(run_periodically(
        w(),
        "executors",
        registered_executors::PERIOD,
        registered_executors::read_executors,
    ));
    duties.spawn(run_periodically(
        w(),
        "ended graphs",
        ended_graphs::PERIOD,
        ended_graphs::detect_ended_graphs,
    ));
    duties.spawn(run_periodically(w(), "graph times", graph_times::PERIOD, graph_times::measure_graph_times));
    duties.spawn(run_periodically(w(), "clock", clock_sync::PERIOD, clock_sync::measure_store_time));
    duties.spawn(run_periodically(w(), "gauges", gauges::PERIOD, gauges::measure_gauges));
    let known = Arc::default();
    let measure = move |worker| queue_totals::measure_queue_totals(worker, Arc::clone(&known));
    duties.spawn(run_periodically(w(), "standings", queue_totals::PERIOD, measure));
}
