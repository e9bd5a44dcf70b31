//! Life cycle of a worker: starts the loops, owns them, drains.
//!
//! Every task belongs to a set in this file; dropping the future of [`run`] aborts all of them, which is how
//! a test crashes a worker.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::time::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::deps::Deps;
use crate::drain::Deadlines;
use crate::duties::every::{every, once};
use crate::duties::{
    beat, clock, consumers, due_actions, due_nodes, due_timers, ended_graphs, executors, gauges, graph_times,
    items, missed_schedules, overdue, publish, quotas, retention, ring_all, runs, standings, windows,
};
use crate::error::WorkerError;
use crate::options::WorkerOptions;
use crate::perform::{attempt, dispatches};
use crate::worker::{Work, Worker};
use crate::{consume, drain, metrics, reading, reclaim, renew, settle};

/// Time limit of the first heartbeat: a store that does not answer must not delay the start.
const FIRST_BEAT: Duration = Duration::from_secs(2);

/// Works until `shutdown`, then drains. Several workers may run in one process under different ids.
pub async fn run(deps: Deps, options: WorkerOptions, shutdown: CancellationToken) -> Result<(), WorkerError> {
    options.check()?;
    metrics::describe();
    let (worker, Work { errands, wishes }) = Worker::new(deps, options, shutdown.child_token())?;
    let started_at = worker.now();
    // Before anything that can fail: only a worker that is registered as up is missed when it dies.
    let known = once(&worker, "beat", beat::beat(Arc::clone(&worker), started_at));
    let _ = tokio::time::timeout(FIRST_BEAT, known).await;
    tracing::info!(worker.id = %worker.options.worker, "worker started");

    // Capacity for as many reports as there are slots.
    let (report, reports) = mpsc::channel(worker.options.all_leases());
    let mut performing = JoinSet::new();
    let [perform, settled, renewed, dispatched] = [(); 4].map(|()| Arc::clone(&worker));
    performing.spawn(async {
        attempt::run(perform, errands, report).await;
        "performing"
    });
    performing.spawn(async {
        settle::run(settled, reports).await;
        "settling"
    });
    performing.spawn(async {
        dispatches::run(dispatched, wishes).await;
        "dispatching"
    });
    performing.spawn(async {
        renew::leases(renewed).await;
        "renewing"
    });

    // Capacity of one batch from each sender while the driver is busy: reading further ahead would only hold
    // doorbells that other workers could answer.
    let (arrive, mut arrivals) = mpsc::channel(1);
    let mut intake = JoinSet::new();
    intake.spawn(reading::run(Arc::clone(&worker), arrive.clone()));
    intake.spawn(reclaim::run(Arc::clone(&worker), arrive));
    let mut duties = JoinSet::new();
    start_duties(&worker, &mut duties, started_at);

    let mut died = None;
    let held = {
        let drive = consume::drive(&worker, &mut arrivals);
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
    let Deadlines { finish, end } = Deadlines::within(worker.options.drain);
    let draining = async {
        let kept = consume::finish_visits(&worker, held, finish).await;
        drain::hand_back(&worker, kept, arrivals, finish).await;
        drain::end_duties(&mut duties).await;
        drain::finish_actions(&worker, &mut performing, finish).await;
        drain::leave(&worker).await;
    };
    if tokio::time::timeout_at(end, draining).await.is_err() {
        tracing::warn!(worker.id = %worker.options.worker, "drain deadline exceeded; other workers recover the rest");
    }
    tracing::info!(worker.id = %worker.options.worker, "worker stopped");
    died.map_or(Ok(()), |name| Err(WorkerError::Loop(name)))
}

fn start_duties(worker: &Arc<Worker>, duties: &mut JoinSet<()>, started_at: Timestamp) {
    let w = || Arc::clone(worker);
    duties.spawn(due_timers::run(w()));
    duties.spawn(due_actions::run(w()));
    duties.spawn(due_nodes::run(w()));
    duties.spawn(ring_all::run(w()));
    duties.spawn(publish::run(w()));
    duties.spawn(every(w(), "missed schedules", worker.options.tick, missed_schedules::give_up));
    duties.spawn(every(w(), "runs of devices", worker.options.tick, runs::look));
    duties.spawn(every(w(), "items of people", worker.options.tick, items::look));
    duties.spawn(every(w(), "overdue", overdue::period(worker), overdue::sweep));
    duties.spawn(every(w(), "windows", windows::PERIOD, windows::recount));
    duties.spawn(every(w(), "consumers", consumers::PERIOD, consumers::clean_up));
    duties.spawn(every(w(), "retention", retention::PERIOD, retention::purge));
    duties.spawn(every(w(), "beat", worker.options.beat, move |worker| beat::beat(worker, started_at)));
    duties.spawn(every(w(), "quotas", quotas::PERIOD, quotas::read));
    duties.spawn(every(w(), "executors", executors::PERIOD, executors::read));
    duties.spawn(every(w(), "ended graphs", ended_graphs::PERIOD, ended_graphs::notice));
    duties.spawn(every(w(), "graph times", graph_times::PERIOD, graph_times::measure));
    duties.spawn(every(w(), "clock", clock::PERIOD, clock::measure));
    duties.spawn(every(w(), "gauges", gauges::PERIOD, gauges::measure));
    let known = Arc::default();
    let measure = move |worker| standings::measure(worker, Arc::clone(&known));
    duties.spawn(every(w(), "standings", standings::PERIOD, measure));
}
