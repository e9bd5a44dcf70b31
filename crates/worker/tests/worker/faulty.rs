//! Fault injection: a store and a stream that fail where a test wants them to.
//!
//! Every call is first passed to a hook, which may let it pass, refuse it, carry it out and then report a
//! failure (a connection that died on the way back), panic, or block it forever.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::action_queue::ActionQueue;
use millstream_model::id::{DefinitionRef, EventId, ExecutionKey, Name, RunKey, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::raw::RawJson;
use millstream_model::time::Timestamp;
use millstream_people::assignment::NewQueueItem;
use millstream_store::action_store::{
    ActionStore, Lease, LeaseHeartbeat, LeasePulse, LeasedAction, SettledBatch, Settlement,
};
use millstream_store::assignments::{AssignmentCaller, Assignments, NextAssignment, OverdueItem};
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey};
use millstream_store::execution_store::{
    CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict, MailboxLimits,
};
use millstream_store::graph_store::{DispatchContext, ExecutorLogText, GraphStore, NodeDispatch};
use millstream_store::item_store::{
    ImportVerdict, ItemCommit, ItemCommitVerdict, ItemRef, ItemStore, LoadedItem,
};
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticeBackoff, Notices};
use millstream_store::run_store::{CommittedRuns, RunStore, RunUnit, SeatHeartbeat, SeatPulse, StoredRun};
use millstream_store::timer_store::TimerStore;
use millstream_store::worker_store::{WorkerHeartbeat, WorkerRecord, WorkerStore};
use millstream_store::{StoreError, Stores};
use millstream_stream::doorbell::{
    Doorbell, DoorbellDelivery, DoorbellReader, Doorbells, FullTenants, StreamEntryId,
};
use millstream_stream::{StreamError, StreamHandles};

/// A call, with the details that hooks use.
#[derive(Debug)]
pub(crate) enum FaultyCall<'a> {
    Load,
    Commit(&'a [ExecutionCommit]),
    CountAttempts,
    HasWork,
    Undecided,
    Lease,
    Renew,
    RecordInputs,
    Settle,
    Release,
    FireDue,
    NextDue,
    Dispatch,
    KeepLogs,
    LoadRuns,
    CommitRuns,
    BeatSeats,
    DueRuns,
    SpreadNotices,
    DueNotices,
    NoticesTold,
    PutNoticesOff,
    NoticeBacklogs,
    PurgeNotices,
    Import,
    LoadItems,
    CommitItems,
    PurgeItems,
    Next,
    DueAssignments,
    Publish,
    Read,
    Ack,
    Reclaim,
    Refresh,
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceFault {
    None,
    Unavailable,
    /// Done, but the answer is lost.
    InDoubt,
    Contention,
    Corrupt,
    Panic,
    /// Never answers.
    Hang,
}

pub(crate) type FaultHook = Arc<dyn Fn(&FaultyCall<'_>) -> ServiceFault + Send + Sync>;

/// `fault` on the calls that `hits` selects.
pub(crate) fn on(
    fault: ServiceFault,
    hits: impl Fn(&FaultyCall<'_>) -> bool + Send + Sync + 'static,
) -> FaultHook {
    Arc::new(move |call| if hits(call) { fault } else { ServiceFault::None })
}

#[derive(Clone)]
struct FaultyService<T: ?Sized> {
    inner: Arc<T>,
    hook: FaultHook,
}

/// The same stores with a hook before every relevant call.
pub(crate) fn stores(stores: &Stores, hook: &FaultHook) -> Stores {
    let mut faulty = stores.clone();
    faulty.executions = Arc::new(FaultyService { inner: stores.executions.clone(), hook: hook.clone() });
    faulty.actions = Arc::new(FaultyService { inner: stores.actions.clone(), hook: hook.clone() });
    faulty.events = Arc::new(FaultyService { inner: stores.events.clone(), hook: hook.clone() });
    faulty.workers = Arc::new(FaultyService { inner: stores.workers.clone(), hook: hook.clone() });
    faulty.timers = Arc::new(FaultyService { inner: stores.timers.clone(), hook: hook.clone() });
    faulty.items = Arc::new(FaultyService { inner: stores.items.clone(), hook: hook.clone() });
    faulty.assignments = Arc::new(FaultyService { inner: stores.assignments.clone(), hook: hook.clone() });
    faulty.graphs = Arc::new(FaultyService { inner: stores.graphs.clone(), hook: hook.clone() });
    faulty.notices = Arc::new(FaultyService { inner: stores.notices.clone(), hook: hook.clone() });
    faulty.runs = Arc::new(FaultyService { inner: stores.runs.clone(), hook: hook.clone() });
    faulty
}

pub(crate) fn streams(streams: &StreamHandles, hook: &FaultHook) -> StreamHandles {
    let mut faulty = streams.clone();
    faulty.bells = Arc::new(FaultyService { inner: streams.bells.clone(), hook: hook.clone() });
    faulty
}

impl<T: ?Sized> FaultyService<T> {
    async fn call<R>(
        &self,
        call: FaultyCall<'_>,
        real: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        match (self.hook)(&call) {
            ServiceFault::None => real.await,
            ServiceFault::Unavailable => Err(StoreError::Unavailable("injected".to_owned())),
            ServiceFault::InDoubt => {
                let _ = real.await;
                Err(StoreError::Unavailable("injected, after it was done".to_owned()))
            }
            ServiceFault::Contention => Err(StoreError::Contention("injected".to_owned())),
            ServiceFault::Corrupt => Err(StoreError::Corrupt("injected".to_owned())),
            ServiceFault::Panic => panic!("injected"),
            ServiceFault::Hang => std::future::pending().await,
        }
    }

    async fn ring<R>(
        &self,
        call: FaultyCall<'_>,
        real: impl Future<Output = Result<R, StreamError>>,
        lost: R,
    ) -> Result<R, StreamError> {
        match (self.hook)(&call) {
            ServiceFault::None => real.await,
            ServiceFault::Unavailable | ServiceFault::Contention | ServiceFault::Corrupt => {
                Err(StreamError::Unavailable("injected".to_owned()))
            }
            // Silently lost.
            ServiceFault::InDoubt => Ok(lost),
            ServiceFault::Panic => panic!("injected"),
            ServiceFault::Hang => std::future::pending().await,
        }
    }
}

type FaultyResult<T> = millstream_store::StoreResult<T>;

#[async_trait::async_trait]
impl ExecutionStore for FaultyService<dyn ExecutionStore> {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> FaultyResult<Vec<LoadVerdict>> {
        self.call(FaultyCall::Load, self.inner.load_executions(wanted, limits)).await
    }

    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> FaultyResult<Vec<CommitVerdict>> {
        self.call(FaultyCall::Commit(batch), self.inner.commit_executions(worker, batch, lease, now)).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> FaultyResult<Vec<i32>> {
        self.call(FaultyCall::CountAttempts, self.inner.count_attempts(events)).await
    }
}

#[async_trait::async_trait]
impl ActionStore for FaultyService<dyn ActionStore> {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> FaultyResult<Vec<LeasedAction>> {
        self.call(FaultyCall::Lease, self.inner.lease_each(takers, grant, now)).await
    }

    async fn renew_leases(
        &self,
        l: &[LeaseHeartbeat],
        w: &WorkerId,
        g: &LeaseGrant,
        now: Timestamp,
    ) -> FaultyResult<Vec<LeasePulse>> {
        self.call(FaultyCall::Renew, self.inner.renew_leases(l, w, g, now)).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> FaultyResult<Vec<bool>> {
        self.call(FaultyCall::RecordInputs, self.inner.record_inputs(inputs)).await
    }

    async fn settle_actions(
        &self,
        w: &WorkerId,
        b: &[Settlement],
        g: &LeaseGrant,
        now: Timestamp,
    ) -> FaultyResult<SettledBatch> {
        self.call(FaultyCall::Settle, self.inner.settle_actions(w, b, g, now)).await
    }

    async fn release_leases(&self, leases: &[Lease], now: Timestamp) -> FaultyResult<()> {
        self.call(FaultyCall::Release, self.inner.release_leases(leases, now)).await
    }
}

#[async_trait::async_trait]
impl EventLog for FaultyService<dyn EventLog> {
    async fn append(&self, batch: &[AppendRequest], now: Timestamp) -> FaultyResult<Vec<Appended>> {
        self.inner.append(batch, now).await
    }

    async fn find_accepted(
        &self,
        keys: &[(TenantId, IdempotencyKey)],
    ) -> FaultyResult<Vec<Option<Appended>>> {
        self.inner.find_accepted(keys).await
    }

    async fn find_definitions(
        &self,
        executions: &[ExecutionKey],
    ) -> FaultyResult<Vec<Option<DefinitionRef>>> {
        self.inner.find_definitions(executions).await
    }

    async fn page_undecided(
        &self,
        bands: Option<&[SweepBand]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> FaultyResult<Vec<ExecutionKey>> {
        self.call(FaultyCall::Undecided, self.inner.page_undecided(bands, after, limit)).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> FaultyResult<Vec<bool>> {
        self.call(FaultyCall::HasWork, self.inner.has_work(executions)).await
    }
}

#[async_trait::async_trait]
impl WorkerStore for FaultyService<dyn WorkerStore> {
    async fn record_worker_heartbeat(&self, worker: &WorkerHeartbeat, now: Timestamp) -> FaultyResult<()> {
        self.inner.record_worker_heartbeat(worker, now).await
    }

    async fn deregister_worker(&self, worker: &WorkerId) -> FaultyResult<()> {
        self.call(FaultyCall::Leave, self.inner.deregister_worker(worker)).await
    }

    async fn list_workers(&self, since: Timestamp) -> FaultyResult<Vec<WorkerRecord>> {
        self.inner.list_workers(since).await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> FaultyResult<Option<Timestamp>> {
        self.inner.take_duty(duty, worker, ttl, now).await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> FaultyResult<()> {
        self.inner.finish_duty(duty, worker, done_at).await
    }
}

#[async_trait::async_trait]
impl TimerStore for FaultyService<dyn TimerStore> {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> FaultyResult<Vec<ExecutionKey>> {
        self.call(FaultyCall::FireDue, self.inner.fire_due(ids, now)).await
    }

    async fn next_due(&self, queues: &[ActionQueue]) -> FaultyResult<Option<Timestamp>> {
        self.call(FaultyCall::NextDue, self.inner.next_due(queues)).await
    }
}

#[async_trait::async_trait]
impl GraphStore for FaultyService<dyn GraphStore> {
    async fn record_dispatches(
        &self,
        batch: &[NodeDispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> FaultyResult<Vec<Option<DispatchContext>>> {
        self.call(FaultyCall::Dispatch, self.inner.record_dispatches(batch, result_bytes, now)).await
    }

    async fn append_logs(&self, logs: &[ExecutorLogText], now: Timestamp) -> FaultyResult<()> {
        self.call(FaultyCall::KeepLogs, self.inner.append_logs(logs, now)).await
    }
}

#[async_trait::async_trait]
impl RunStore for FaultyService<dyn RunStore> {
    async fn load_runs(&self, keys: &[RunKey]) -> FaultyResult<Vec<Option<StoredRun>>> {
        self.call(FaultyCall::LoadRuns, self.inner.load_runs(keys)).await
    }

    async fn commit_runs(&self, units: &[RunUnit], now: Timestamp) -> FaultyResult<CommittedRuns> {
        self.call(FaultyCall::CommitRuns, self.inner.commit_runs(units, now)).await
    }

    async fn record_seat_heartbeats(
        &self,
        beats: &[SeatHeartbeat],
        now: Timestamp,
    ) -> FaultyResult<Vec<SeatPulse>> {
        self.call(FaultyCall::BeatSeats, self.inner.record_seat_heartbeats(beats, now)).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> FaultyResult<Vec<RunKey>> {
        self.call(FaultyCall::DueRuns, self.inner.due_runs(now, limit)).await
    }
}

#[async_trait::async_trait]
impl Notices for FaultyService<dyn Notices> {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> FaultyResult<usize> {
        self.call(FaultyCall::SpreadNotices, self.inner.spread_notices(sinks, limit, now)).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> FaultyResult<Vec<DueNotice>> {
        self.call(FaultyCall::DueNotices, self.inner.due_notices(sink, limit, now)).await
    }

    async fn delete_delivered_notices(&self, sink: &Name, positions: &[i64]) -> FaultyResult<()> {
        self.call(FaultyCall::NoticesTold, self.inner.delete_delivered_notices(sink, positions)).await
    }

    async fn postpone_notices(&self, sink: &Name, notices: &[NoticeBackoff]) -> FaultyResult<()> {
        self.call(FaultyCall::PutNoticesOff, self.inner.postpone_notices(sink, notices)).await
    }

    async fn notice_backlogs(&self) -> FaultyResult<Vec<NoticeBacklog>> {
        self.call(FaultyCall::NoticeBacklogs, self.inner.notice_backlogs()).await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> FaultyResult<u64> {
        self.call(FaultyCall::PurgeNotices, self.inner.purge_notices(before, limit)).await
    }
}

#[async_trait::async_trait]
impl ItemStore for FaultyService<dyn ItemStore> {
    async fn import_items(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewQueueItem],
        now: Timestamp,
    ) -> FaultyResult<Vec<ImportVerdict>> {
        self.call(FaultyCall::Import, self.inner.import_items(tenant, queue, items, now)).await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> FaultyResult<Vec<Option<LoadedItem>>> {
        self.call(FaultyCall::LoadItems, self.inner.load_items(wanted)).await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> FaultyResult<Vec<ItemCommitVerdict>> {
        self.call(FaultyCall::CommitItems, self.inner.commit_items(worker, batch, now)).await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> FaultyResult<u64> {
        self.call(FaultyCall::PurgeItems, self.inner.purge_items(before, limit)).await
    }
}

#[async_trait::async_trait]
impl Assignments for FaultyService<dyn Assignments> {
    async fn assign_next(
        &self,
        callers: &[AssignmentCaller],
        now: Timestamp,
    ) -> FaultyResult<Vec<NextAssignment>> {
        self.call(FaultyCall::Next, self.inner.assign_next(callers, now)).await
    }

    async fn list_overdue(&self, now: Timestamp, limit: usize) -> FaultyResult<Vec<OverdueItem>> {
        self.call(FaultyCall::DueAssignments, self.inner.list_overdue(now, limit)).await
    }
}

#[async_trait::async_trait]
impl Doorbells for FaultyService<dyn Doorbells> {
    async fn publish_bells(&self, bells: &[Doorbell]) -> millstream_stream::StreamResult<()> {
        self.ring(FaultyCall::Publish, self.inner.publish_bells(bells), ()).await
    }

    async fn open_reader(
        &self,
        consumer: &WorkerId,
        lanes: &[Lane],
    ) -> millstream_stream::StreamResult<Box<dyn DoorbellReader>> {
        let inner = self.inner.open_reader(consumer, lanes).await?;
        Ok(Box::new(FaultyReader { inner, hook: self.hook.clone() }))
    }

    async fn ack_entries(&self, entries: &[StreamEntryId]) -> millstream_stream::StreamResult<()> {
        self.ring(FaultyCall::Ack, self.inner.ack_entries(entries), ()).await
    }

    async fn reclaim_idle(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> millstream_stream::StreamResult<Vec<DoorbellDelivery>> {
        self.ring(FaultyCall::Reclaim, self.inner.reclaim_idle(consumer, min_idle, max), Vec::new()).await
    }

    async fn refresh_entries(
        &self,
        consumer: &WorkerId,
        entries: &[StreamEntryId],
    ) -> millstream_stream::StreamResult<()> {
        self.ring(FaultyCall::Refresh, self.inner.refresh_entries(consumer, entries), ()).await
    }

    async fn replenish_tenants(&self, tenants: &[TenantId]) -> millstream_stream::StreamResult<()> {
        self.inner.replenish_tenants(tenants).await
    }
}

struct FaultyReader {
    inner: Box<dyn DoorbellReader>,
    hook: FaultHook,
}

#[async_trait::async_trait]
impl DoorbellReader for FaultyReader {
    async fn read_deliveries(
        &mut self,
        per_lane: usize,
        block: Duration,
    ) -> millstream_stream::StreamResult<Vec<DoorbellDelivery>> {
        match (self.hook)(&FaultyCall::Read) {
            ServiceFault::None => self.inner.read_deliveries(per_lane, block).await,
            ServiceFault::InDoubt => Err(StreamError::Amnesia("injected".to_owned())),
            ServiceFault::Hang => std::future::pending().await,
            ServiceFault::Unavailable
            | ServiceFault::Contention
            | ServiceFault::Corrupt
            | ServiceFault::Panic => Err(StreamError::Unavailable("injected".to_owned())),
        }
    }

    fn skip_full_tenants(&mut self, full: &FullTenants) {
        self.inner.skip_full_tenants(full);
    }
}
