//! Task board: external workers that wait for tasks, and the single loop that leases for all of them.
//!
//! Two hundred workers that each polled the store whenever a task became ready would cause two hundred
//! queries. Here one loop polls: it is woken by arriving workers, by announcements of tasks, and by a tick
//! in case an announcement was lost (a retry that came due, a lease that expired). It reads which queues
//! have open tasks, and leases in one statement for all workers with the same capability, the longest
//! waiting first. When the tasks do not suffice for all of them, workers with this capability, including
//! later arrivals, are skipped until tasks are announced or the tick fires: a worker that returns to wait
//! causes no query.
//!
//! Quota: when a tenant's workers hold as many tasks as its quota `task_leases` allows, no more are leased;
//! waiting workers wait on, and polling workers get none. The outcome of a task frees its lease at once; a
//! lease that ends elsewhere is freed when the rows are counted again.
//!
//! The leases of a worker that has disconnected in the meantime are released and do not count as attempts.

use std::collections::{BTreeSet, VecDeque};
use std::iter::repeat_n;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use millstream_model::action_queue::{ActionQueue, WorkerCapability};
use millstream_model::id::{TenantId, WorkerId};
use millstream_model::quota::CountedQuota;
use millstream_store::action_store::{Lease, LeasedAction};
use millstream_store::clock::Clock;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::task_board::ExternalWorkerReport;
use millstream_store::{StoreError, StoreResult, Stores};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::seen_workers::SeenWorkers;
use super::ticket::LeaseTicket;
use crate::quotas::TenantQuotas;

/// Polling interval while workers wait and nothing is announced.
const TICK: Duration = Duration::from_millis(500);
/// Interval at which the presence of workers is recorded.
const PRESENCE: Duration = Duration::from_secs(5);
/// Concurrent lease statements: a slow one delays few others.
const AT_ONCE: usize = 4;
/// Tasks per statement, unless one worker alone requests more.
const TASKS: usize = 256;
/// Default lease duration; the lease policy of every task sets its own.
const LEASE: Duration = Duration::from_secs(60);

/// Handle to the board.
#[derive(Debug, Clone)]
pub(crate) struct WorkerBoard {
    waiting: Arc<Mutex<BoardState>>,
    /// Notified when a worker arrives.
    came: Arc<Notify>,
    /// Notified when there may be tasks.
    work: Arc<Notify>,
    quotas: Arc<TenantQuotas>,
}

#[derive(Debug, Default)]
struct BoardState {
    workers: VecDeque<WaitingWorker>,
    next_ticket: u64,
    /// Leases of undelivered tasks, to be released.
    returned: Vec<Lease>,
    /// Workers that arrived lately, to be recorded in the store.
    seen: SeenWorkers,
}

/// Capabilities found without tasks since the last wake-up: their workers are skipped.
#[derive(Debug)]
struct EmptyCapabilities {
    since: Instant,
    /// Capabilities without open tasks.
    empty: BTreeSet<WorkerCapability>,
}

impl EmptyCapabilities {
    const fn at(since: Instant) -> Self {
        Self { since, empty: BTreeSet::new() }
    }
}

/// A waiting worker.
#[derive(Debug)]
struct WaitingWorker {
    worker: WorkerId,
    can: WorkerCapability,
    most: usize,
    reply: oneshot::Sender<Vec<LeasedAction>>,
    patience: LeasePatience,
    /// Grows with every arrival.
    ticket: u64,
}

/// Whether a worker waits for tasks, or polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeasePatience {
    /// Until it disconnects.
    Waits,
    /// Not at all: the worker is answered after one poll of the store.
    Asks,
}

impl WorkerBoard {
    /// Starts the loop; it ends when `closing` is cancelled.
    pub(crate) fn start_board(
        stores: Stores,
        clock: Arc<dyn Clock>,
        work: Arc<Notify>,
        quotas: Arc<TenantQuotas>,
        closing: CancellationToken,
        tasks: &TaskTracker,
    ) -> Self {
        let board = Self { waiting: Arc::default(), came: Arc::default(), work, quotas };
        let (run, tell) = (board.clone(), board.clone());
        let (told_stores, told_clock) = (stores.clone(), clock.clone());
        let ending = closing.clone();
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = ending.cancelled() => {}
                () = run.run_board(&stores, &*clock) => {}
            }
        });
        tasks.spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = tell.record_presence(&told_stores, &*told_clock) => {}
            }
        });
        board
    }

    /// Waits for up to `most` tasks that match the capability.
    pub(crate) fn wait_for_tasks(
        &self,
        worker: WorkerId,
        can: WorkerCapability,
        most: usize,
        patience: LeasePatience,
    ) -> LeaseTicket {
        let (reply, leased) = oneshot::channel();
        let presence = presence_of(&worker, &can);
        let mut waiting = self.lock_state();
        waiting.seen.add_worker(presence);
        let ticket = waiting.next_ticket;
        waiting.next_ticket += 1;
        waiting.workers.push_back(WaitingWorker { worker, can, most, reply, patience, ticket });
        drop(waiting);
        self.came.notify_one();
        LeaseTicket { leased, board: self.clone() }
    }

    /// Frees one lease in the tenant's quota.
    pub(crate) fn end_lease(&self, tenant: &TenantId) {
        if self.quotas.end_rows(tenant, CountedQuota::TaskLeases, 1) {
            // Workers of the tenant may wait for quota.
            self.work.notify_one();
        }
    }

    /// Releases leases soon; if the release fails, they expire.
    pub(super) fn release_leases(&self, leases: impl IntoIterator<Item = Lease>) {
        self.lock_state().returned.extend(leases);
        self.came.notify_one();
    }

    fn lock_state(&self) -> MutexGuard<'_, BoardState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run_board(&self, stores: &Stores, clock: &dyn Clock) {
        let mut idle = EmptyCapabilities::at(Instant::now());
        loop {
            let is_waited_for = {
                let mut waiting = self.lock_state();
                waiting.workers.retain(|waiter| !waiter.reply.is_closed());
                !waiting.workers.is_empty()
            };
            tokio::select! {
                biased;
                () = self.work.notified() => idle = EmptyCapabilities::at(Instant::now()),
                () = tokio::time::sleep_until(idle.since + TICK), if is_waited_for => {
                    idle = EmptyCapabilities::at(Instant::now());
                }
                () = self.came.notified() => {}
            }
            let returned = std::mem::take(&mut self.lock_state().returned);
            if !returned.is_empty() {
                // If the release fails, the leases expire.
                let _ = stores.actions.release_leases(&returned, clock.now()).await;
                returned.iter().for_each(|lease| self.end_lease(&lease.key.execution.tenant));
                idle = EmptyCapabilities::at(Instant::now());
            }
            // Workers that arrive from now on may have been missed by this round.
            let later = self.lock_state().next_ticket;
            // A failed poll is repeated at the next tick.
            if let Err(error) = self.lease_open_tasks(stores, clock, &mut idle).await {
                tracing::debug!(%error, "leasing tasks failed");
            }
            self.answer_polling_workers(later);
        }
    }

    /// Answers polling workers that arrived before this ticket: there are no tasks for them.
    fn answer_polling_workers(&self, later: u64) {
        let mut waiting = self.lock_state();
        let (gone, stay): (VecDeque<WaitingWorker>, VecDeque<WaitingWorker>) =
            std::mem::take(&mut waiting.workers)
                .into_iter()
                .partition(|waiter| waiter.patience == LeasePatience::Asks && waiter.ticket < later);
        waiting.workers = stay;
        drop(waiting);
        for waiter in gone {
            let _ = waiter.reply.send(Vec::new());
        }
    }

    /// Leases for all workers that can be served now.
    async fn lease_open_tasks(
        &self,
        stores: &Stores,
        clock: &dyn Clock,
        idle: &mut EmptyCapabilities,
    ) -> StoreResult<()> {
        let hopeful = |waiter: &&WaitingWorker| !idle.empty.contains(&waiter.can);
        let tenants: BTreeSet<TenantId> = self
            .lock_state()
            .workers
            .iter()
            .filter(hopeful)
            .map(|waiter| waiter.can.tenant.clone())
            .collect();
        for tenant in tenants {
            let open = stores.tasks.open_queues(&ActionQueue::tasks_of(&tenant)).await?;
            self.note_unserved(&tenant, &open, idle);
            let (mut asking, mut failed) = (FuturesUnordered::new(), None);
            loop {
                while asking.len() < AT_ONCE
                    && failed.is_none()
                    && let Some(group) = self.next_group(&tenant, &open, &idle.empty)
                {
                    asking.push(self.lease_for_group(stores, clock, group));
                }
                match asking.next().await {
                    None => break,
                    Some(Ok(LeaseRound::All)) => {}
                    Some(Ok(LeaseRound::NotAll { can, unserved })) => {
                        idle.empty.insert(can);
                        self.requeue_unserved(unserved);
                    }
                    // The other statements in flight complete: the tasks that they lease have their
                    // workers.
                    Some(Err((unserved, error))) => {
                        self.requeue_unserved(unserved);
                        failed = Some(error);
                    }
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Marks the capabilities that match none of the open queues.
    fn note_unserved(&self, tenant: &TenantId, open: &[ActionQueue], idle: &mut EmptyCapabilities) {
        for waiter in self.lock_state().workers.iter().filter(|waiter| waiter.can.tenant == *tenant) {
            if !open.iter().any(|queue| waiter.can.serves_queue(queue)) && !idle.empty.contains(&waiter.can) {
                idle.empty.insert(waiter.can.clone());
            }
        }
    }

    /// Takes the longest waiting worker that matches an open queue and is not marked as without tasks,
    /// together with others of the same capability, in the order of their arrival.
    fn next_group(
        &self,
        tenant: &TenantId,
        open: &[ActionQueue],
        empty: &BTreeSet<WorkerCapability>,
    ) -> Option<WorkerGroup> {
        let mut waiting = self.lock_state();
        waiting.workers.retain(|waiter| !waiter.reply.is_closed());
        let mut queues: Arc<[ActionQueue]> = Arc::new([]);
        let first = waiting.workers.iter().find(|waiter| {
            if waiter.can.tenant != *tenant || empty.contains(&waiter.can) {
                return false;
            }
            queues = open.iter().filter(|queue| waiter.can.serves_queue(queue)).cloned().collect();
            !queues.is_empty()
        })?;
        let (can, mut tasks, mut waiters) = (first.can.clone(), 0, Vec::new());
        let mut others = VecDeque::with_capacity(waiting.workers.len());
        for waiter in waiting.workers.drain(..) {
            if waiter.can == can && (waiters.is_empty() || tasks + waiter.most <= TASKS) {
                tasks += waiter.most;
                waiters.push(waiter);
            } else {
                others.push_back(waiter);
            }
        }
        waiting.workers = others;
        Some(WorkerGroup { can, queues, waiters })
    }

    /// Puts unserved workers back at the front: they have waited longest.
    fn requeue_unserved(&self, unserved: Vec<WaitingWorker>) {
        let mut waiting = self.lock_state();
        for waiter in unserved.into_iter().rev() {
            waiting.workers.push_front(waiter);
        }
    }

    async fn lease_for_group(
        &self,
        stores: &Stores,
        clock: &dyn Clock,
        group: WorkerGroup,
    ) -> std::result::Result<LeaseRound, (Vec<WaitingWorker>, StoreError)> {
        let WorkerGroup { can, queues, waiters } = group;
        let mut takers: Vec<WorkerId> =
            waiters.iter().flat_map(|waiter| repeat_n(&waiter.worker, waiter.most)).cloned().collect();
        let wanted = takers.len();
        match self.quotas.admit_some(&can.tenant, CountedQuota::TaskLeases, lease_count(wanted)).await {
            Ok(0) => return Ok(LeaseRound::NotAll { can, unserved: waiters }),
            Ok(admitted) => takers.truncate(usize::try_from(admitted).unwrap_or(usize::MAX)),
            Err(error) => return Err((waiters, error)),
        }
        let grant = LeaseGrant { slots: takers.len(), ttl: LEASE, queues };
        let leased = stores.actions.lease_each(&takers, &grant, clock.now()).await;
        let served = leased.as_ref().map_or(0, Vec::len);
        let unused = lease_count(takers.len().saturating_sub(served));
        self.quotas.end_rows(&can.tenant, CountedQuota::TaskLeases, unused);
        let leased = match leased {
            Ok(leased) => leased,
            Err(error) => return Err((waiters, error)),
        };
        let (mut leased, mut unserved, mut refused) = (leased.into_iter(), Vec::new(), Vec::new());
        for waiter in waiters {
            let part: Vec<LeasedAction> = leased.by_ref().take(waiter.most).collect();
            if part.is_empty() {
                unserved.push(waiter);
            } else if let Err(part) = waiter.reply.send(part) {
                refused.extend(part.into_iter().map(|action| action.lease));
            }
        }
        if !refused.is_empty() {
            // If the release fails, the leases expire.
            let _ = stores.actions.release_leases(&refused, clock.now()).await;
            self.quotas.end_rows(&can.tenant, CountedQuota::TaskLeases, lease_count(refused.len()));
            // Other workers may take these tasks.
            self.work.notify_one();
        }
        Ok(if served < wanted { LeaseRound::NotAll { can, unserved } } else { LeaseRound::All })
    }

    /// Records the waiting workers and those that arrived since the last time: a worker busy with a task
    /// does not wait.
    async fn record_presence(&self, stores: &Stores, clock: &dyn Clock) {
        loop {
            tokio::time::sleep(PRESENCE).await;
            let present: Vec<ExternalWorkerReport> = {
                let mut waiting = self.lock_state();
                let mut seen = std::mem::take(&mut waiting.seen);
                for waiter in waiting.workers.iter().filter(|waiter| !waiter.reply.is_closed()) {
                    seen.add_worker(presence_of(&waiter.worker, &waiter.can));
                }
                seen.into_presences()
            };
            if !present.is_empty()
                && let Err(error) = stores.tasks.record_presence(&present, clock.now()).await
            {
                tracing::debug!(%error, "recording the presence of workers failed");
            }
        }
    }
}

fn presence_of(worker: &WorkerId, can: &WorkerCapability) -> ExternalWorkerReport {
    ExternalWorkerReport {
        tenant: can.tenant.clone(),
        name: worker.to_string(),
        kinds: can.kinds.clone(),
        labels: can.labels.clone(),
    }
}

fn lease_count(tasks: usize) -> u64 {
    u64::try_from(tasks).unwrap_or(u64::MAX)
}

/// Workers with the same capability, and the open queues that match it.
struct WorkerGroup {
    can: WorkerCapability,
    queues: Arc<[ActionQueue]>,
    waiters: Vec<WaitingWorker>,
}

enum LeaseRound {
    All,
    /// No more open tasks for now.
    NotAll {
        can: WorkerCapability,
        unserved: Vec<WaitingWorker>,
    },
}
