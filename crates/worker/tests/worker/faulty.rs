//! Fault injection: a store and a stream that fail where a test wants them to.
//!
//! Every call is first passed to a hook, which may let it pass, refuse it, carry it out and then report a
//! failure (a connection that died on the way back), panic, or block it forever.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::assignment::NewItem;
use millstream_core::id::{DefinitionRef, EventId, ExecutionKey, Name, RunKey, TenantId, WorkerId};
use millstream_core::lane::Lane;
use millstream_core::placement::Queue;
use millstream_core::raw::RawJson;
use millstream_core::sweep::Band;
use millstream_core::time::Timestamp;
use millstream_store::action_store::{ActionStore, Beat, Lease, LeasedAction, Pulse, Settled, Settlement};
use millstream_store::assignments::{Assignments, Caller, Due, Given};
use millstream_store::event_log::{Append, Appended, EventLog, Idempotency};
use millstream_store::execution_store::{
    Commit, Committed, ExecutionStore, LeaseGrant, Loaded, MailboxLimits, Wanted,
};
use millstream_store::graph_store::{Dispatch, DispatchContext, GraphStore, NodeLog};
use millstream_store::item_store::{Imported, ItemCommit, ItemCommitted, ItemRef, ItemStore, LoadedItem};
use millstream_store::notices::{DueNotice, NoticeBacklog, NoticePutOff, Notices};
use millstream_store::run_store::{CommittedRuns, RunStore, SeatBeat, SeatPulse, StoredRun, Unit};
use millstream_store::timer_store::TimerStore;
use millstream_store::worker_store::{WorkerBeat, WorkerStore, WorkerView};
use millstream_store::{StoreError, Stores};
use millstream_stream::doorbell::{Bell, BellReader, Delivery, Doorbells, EntryId, FullTenants};
use millstream_stream::{StreamError, Streams};

/// A call, with the details that hooks use.
#[derive(Debug)]
pub(crate) enum Call<'a> {
    Load,
    Commit(&'a [Commit]),
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
pub(crate) enum Fault {
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

pub(crate) type Hook = Arc<dyn Fn(&Call<'_>) -> Fault + Send + Sync>;

/// `fault` on the calls that `hits` selects.
pub(crate) fn on(fault: Fault, hits: impl Fn(&Call<'_>) -> bool + Send + Sync + 'static) -> Hook {
    Arc::new(move |call| if hits(call) { fault } else { Fault::None })
}

#[derive(Clone)]
struct Faulty<T: ?Sized> {
    inner: Arc<T>,
    hook: Hook,
}

/// The same stores with a hook before every relevant call.
pub(crate) fn stores(stores: &Stores, hook: &Hook) -> Stores {
    let mut faulty = stores.clone();
    faulty.executions = Arc::new(Faulty { inner: stores.executions.clone(), hook: hook.clone() });
    faulty.actions = Arc::new(Faulty { inner: stores.actions.clone(), hook: hook.clone() });
    faulty.events = Arc::new(Faulty { inner: stores.events.clone(), hook: hook.clone() });
    faulty.workers = Arc::new(Faulty { inner: stores.workers.clone(), hook: hook.clone() });
    faulty.timers = Arc::new(Faulty { inner: stores.timers.clone(), hook: hook.clone() });
    faulty.items = Arc::new(Faulty { inner: stores.items.clone(), hook: hook.clone() });
    faulty.assignments = Arc::new(Faulty { inner: stores.assignments.clone(), hook: hook.clone() });
    faulty.graphs = Arc::new(Faulty { inner: stores.graphs.clone(), hook: hook.clone() });
    faulty.notices = Arc::new(Faulty { inner: stores.notices.clone(), hook: hook.clone() });
    faulty.runs = Arc::new(Faulty { inner: stores.runs.clone(), hook: hook.clone() });
    faulty
}

pub(crate) fn streams(streams: &Streams, hook: &Hook) -> Streams {
    let mut faulty = streams.clone();
    faulty.bells = Arc::new(Faulty { inner: streams.bells.clone(), hook: hook.clone() });
    faulty
}

impl<T: ?Sized> Faulty<T> {
    async fn call<R>(
        &self,
        call: Call<'_>,
        real: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        match (self.hook)(&call) {
            Fault::None => real.await,
            Fault::Unavailable => Err(StoreError::Unavailable("injected".to_owned())),
            Fault::InDoubt => {
                let _ = real.await;
                Err(StoreError::Unavailable("injected, after it was done".to_owned()))
            }
            Fault::Contention => Err(StoreError::Contention("injected".to_owned())),
            Fault::Corrupt => Err(StoreError::Corrupt("injected".to_owned())),
            Fault::Panic => panic!("injected"),
            Fault::Hang => std::future::pending().await,
        }
    }

    async fn ring<R>(
        &self,
        call: Call<'_>,
        real: impl Future<Output = Result<R, StreamError>>,
        lost: R,
    ) -> Result<R, StreamError> {
        match (self.hook)(&call) {
            Fault::None => real.await,
            Fault::Unavailable | Fault::Contention | Fault::Corrupt => {
                Err(StreamError::Unavailable("injected".to_owned()))
            }
            // Silently lost.
            Fault::InDoubt => Ok(lost),
            Fault::Panic => panic!("injected"),
            Fault::Hang => std::future::pending().await,
        }
    }
}

type Stored<T> = millstream_store::Result<T>;

#[async_trait::async_trait]
impl ExecutionStore for Faulty<dyn ExecutionStore> {
    async fn load(&self, wanted: &[Wanted], limits: MailboxLimits) -> Stored<Vec<Loaded>> {
        self.call(Call::Load, self.inner.load(wanted, limits)).await
    }

    async fn commit(
        &self,
        worker: &WorkerId,
        batch: &[Commit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> Stored<Vec<Committed>> {
        self.call(Call::Commit(batch), self.inner.commit(worker, batch, lease, now)).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> Stored<Vec<i32>> {
        self.call(Call::CountAttempts, self.inner.count_attempts(events)).await
    }
}

#[async_trait::async_trait]
impl ActionStore for Faulty<dyn ActionStore> {
    async fn lease_each(
        &self,
        takers: &[WorkerId],
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Stored<Vec<LeasedAction>> {
        self.call(Call::Lease, self.inner.lease_each(takers, grant, now)).await
    }

    async fn renew(&self, l: &[Beat], w: &WorkerId, g: &LeaseGrant, now: Timestamp) -> Stored<Vec<Pulse>> {
        self.call(Call::Renew, self.inner.renew(l, w, g, now)).await
    }

    async fn record_inputs(&self, inputs: &[(Lease, RawJson)]) -> Stored<Vec<bool>> {
        self.call(Call::RecordInputs, self.inner.record_inputs(inputs)).await
    }

    async fn settle(
        &self,
        w: &WorkerId,
        b: &[Settlement],
        g: &LeaseGrant,
        now: Timestamp,
    ) -> Stored<Settled> {
        self.call(Call::Settle, self.inner.settle(w, b, g, now)).await
    }

    async fn release(&self, leases: &[Lease], now: Timestamp) -> Stored<()> {
        self.call(Call::Release, self.inner.release(leases, now)).await
    }
}

#[async_trait::async_trait]
impl EventLog for Faulty<dyn EventLog> {
    async fn append(&self, batch: &[Append], now: Timestamp) -> Stored<Vec<Appended>> {
        self.inner.append(batch, now).await
    }

    async fn seen(&self, keys: &[(TenantId, Idempotency)]) -> Stored<Vec<Option<Appended>>> {
        self.inner.seen(keys).await
    }

    async fn targets(&self, executions: &[ExecutionKey]) -> Stored<Vec<Option<DefinitionRef>>> {
        self.inner.targets(executions).await
    }

    async fn undecided(
        &self,
        bands: Option<&[Band]>,
        after: Option<&ExecutionKey>,
        limit: usize,
    ) -> Stored<Vec<ExecutionKey>> {
        self.call(Call::Undecided, self.inner.undecided(bands, after, limit)).await
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> Stored<Vec<bool>> {
        self.call(Call::HasWork, self.inner.has_work(executions)).await
    }
}

#[async_trait::async_trait]
impl WorkerStore for Faulty<dyn WorkerStore> {
    async fn beat(&self, worker: &WorkerBeat, now: Timestamp) -> Stored<()> {
        self.inner.beat(worker, now).await
    }

    async fn leave(&self, worker: &WorkerId) -> Stored<()> {
        self.call(Call::Leave, self.inner.leave(worker)).await
    }

    async fn workers(&self, since: Timestamp) -> Stored<Vec<WorkerView>> {
        self.inner.workers(since).await
    }

    async fn take_duty(
        &self,
        duty: &str,
        worker: &WorkerId,
        ttl: Duration,
        now: Timestamp,
    ) -> Stored<Option<Timestamp>> {
        self.inner.take_duty(duty, worker, ttl, now).await
    }

    async fn finish_duty(&self, duty: &str, worker: &WorkerId, done_at: Timestamp) -> Stored<()> {
        self.inner.finish_duty(duty, worker, done_at).await
    }
}

#[async_trait::async_trait]
impl TimerStore for Faulty<dyn TimerStore> {
    async fn fire_due(&self, ids: &[EventId], now: Timestamp) -> Stored<Vec<ExecutionKey>> {
        self.call(Call::FireDue, self.inner.fire_due(ids, now)).await
    }

    async fn next_due(&self, queues: &[Queue]) -> Stored<Option<Timestamp>> {
        self.call(Call::NextDue, self.inner.next_due(queues)).await
    }
}

#[async_trait::async_trait]
impl GraphStore for Faulty<dyn GraphStore> {
    async fn dispatch(
        &self,
        batch: &[Dispatch],
        result_bytes: usize,
        now: Timestamp,
    ) -> Stored<Vec<Option<DispatchContext>>> {
        self.call(Call::Dispatch, self.inner.dispatch(batch, result_bytes, now)).await
    }

    async fn keep_logs(&self, logs: &[NodeLog], now: Timestamp) -> Stored<()> {
        self.call(Call::KeepLogs, self.inner.keep_logs(logs, now)).await
    }
}

#[async_trait::async_trait]
impl RunStore for Faulty<dyn RunStore> {
    async fn load_runs(&self, keys: &[RunKey]) -> Stored<Vec<Option<StoredRun>>> {
        self.call(Call::LoadRuns, self.inner.load_runs(keys)).await
    }

    async fn commit_runs(&self, units: &[Unit], now: Timestamp) -> Stored<CommittedRuns> {
        self.call(Call::CommitRuns, self.inner.commit_runs(units, now)).await
    }

    async fn beat_seats(&self, beats: &[SeatBeat], now: Timestamp) -> Stored<Vec<SeatPulse>> {
        self.call(Call::BeatSeats, self.inner.beat_seats(beats, now)).await
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Stored<Vec<RunKey>> {
        self.call(Call::DueRuns, self.inner.due_runs(now, limit)).await
    }
}

#[async_trait::async_trait]
impl Notices for Faulty<dyn Notices> {
    async fn spread_notices(&self, sinks: &[Name], limit: usize, now: Timestamp) -> Stored<usize> {
        self.call(Call::SpreadNotices, self.inner.spread_notices(sinks, limit, now)).await
    }

    async fn due_notices(&self, sink: &Name, limit: usize, now: Timestamp) -> Stored<Vec<DueNotice>> {
        self.call(Call::DueNotices, self.inner.due_notices(sink, limit, now)).await
    }

    async fn notices_told(&self, sink: &Name, positions: &[i64]) -> Stored<()> {
        self.call(Call::NoticesTold, self.inner.notices_told(sink, positions)).await
    }

    async fn put_notices_off(&self, sink: &Name, notices: &[NoticePutOff]) -> Stored<()> {
        self.call(Call::PutNoticesOff, self.inner.put_notices_off(sink, notices)).await
    }

    async fn notice_backlogs(&self) -> Stored<Vec<NoticeBacklog>> {
        self.call(Call::NoticeBacklogs, self.inner.notice_backlogs()).await
    }

    async fn purge_notices(&self, before: Timestamp, limit: usize) -> Stored<u64> {
        self.call(Call::PurgeNotices, self.inner.purge_notices(before, limit)).await
    }
}

#[async_trait::async_trait]
impl ItemStore for Faulty<dyn ItemStore> {
    async fn import(
        &self,
        tenant: &TenantId,
        queue: &Name,
        items: &[NewItem],
        now: Timestamp,
    ) -> Stored<Vec<Imported>> {
        self.call(Call::Import, self.inner.import(tenant, queue, items, now)).await
    }

    async fn load_items(&self, wanted: &[ItemRef]) -> Stored<Vec<Option<LoadedItem>>> {
        self.call(Call::LoadItems, self.inner.load_items(wanted)).await
    }

    async fn commit_items(
        &self,
        worker: &WorkerId,
        batch: &[ItemCommit],
        now: Timestamp,
    ) -> Stored<Vec<ItemCommitted>> {
        self.call(Call::CommitItems, self.inner.commit_items(worker, batch, now)).await
    }

    async fn purge_items(&self, before: Timestamp, limit: usize) -> Stored<u64> {
        self.call(Call::PurgeItems, self.inner.purge_items(before, limit)).await
    }
}

#[async_trait::async_trait]
impl Assignments for Faulty<dyn Assignments> {
    async fn next(&self, callers: &[Caller], now: Timestamp) -> Stored<Vec<Given>> {
        self.call(Call::Next, self.inner.next(callers, now)).await
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Stored<Vec<Due>> {
        self.call(Call::DueAssignments, self.inner.due(now, limit)).await
    }
}

#[async_trait::async_trait]
impl Doorbells for Faulty<dyn Doorbells> {
    async fn publish(&self, bells: &[Bell]) -> millstream_stream::Result<()> {
        self.ring(Call::Publish, self.inner.publish(bells), ()).await
    }

    async fn reader(
        &self,
        consumer: &WorkerId,
        lanes: &[Lane],
    ) -> millstream_stream::Result<Box<dyn BellReader>> {
        let inner = self.inner.reader(consumer, lanes).await?;
        Ok(Box::new(FaultyReader { inner, hook: self.hook.clone() }))
    }

    async fn ack(&self, entries: &[EntryId]) -> millstream_stream::Result<()> {
        self.ring(Call::Ack, self.inner.ack(entries), ()).await
    }

    async fn reclaim(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> millstream_stream::Result<Vec<Delivery>> {
        self.ring(Call::Reclaim, self.inner.reclaim(consumer, min_idle, max), Vec::new()).await
    }

    async fn refresh(&self, consumer: &WorkerId, entries: &[EntryId]) -> millstream_stream::Result<()> {
        self.ring(Call::Refresh, self.inner.refresh(consumer, entries), ()).await
    }

    async fn replenish(&self, tenants: &[TenantId]) -> millstream_stream::Result<()> {
        self.inner.replenish(tenants).await
    }
}

struct FaultyReader {
    inner: Box<dyn BellReader>,
    hook: Hook,
}

#[async_trait::async_trait]
impl BellReader for FaultyReader {
    async fn read(&mut self, per_lane: usize, block: Duration) -> millstream_stream::Result<Vec<Delivery>> {
        match (self.hook)(&Call::Read) {
            Fault::None => self.inner.read(per_lane, block).await,
            Fault::InDoubt => Err(StreamError::Amnesia("injected".to_owned())),
            Fault::Hang => std::future::pending().await,
            Fault::Unavailable | Fault::Contention | Fault::Corrupt | Fault::Panic => {
                Err(StreamError::Unavailable("injected".to_owned()))
            }
        }
    }

    fn heed(&mut self, full: &FullTenants) {
        self.inner.heed(full);
    }
}
