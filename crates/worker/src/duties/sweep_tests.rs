//! Sweeps over a store with more pages than a test could write: turns, shutdowns, generations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use millstream_model::entropy::Entropy;
use millstream_model::id::{DefinitionRef, ExecutionId, ExecutionKey, TenantId, WorkerId};
use millstream_model::overdue_sweep::SweepBand;
use millstream_model::time::Timestamp;
use millstream_store::Stores;
use millstream_store::clock::{Clock, ManualClock};
use millstream_store::event_log::{AppendRequest, Appended, EventLog, IdempotencyKey};
use millstream_store_memory::MemoryStore;
use millstream_stream::{EmbeddedStream, StreamHandles};
use tokio_util::sync::CancellationToken;

use super::recovery::release_duties_of_dead_workers;
use super::{heartbeat, overdue_sweep, ring_all};
use crate::environment::WorkerEnvironment;
use crate::leasing::ActionLeasing;
use crate::options::WorkerOptions;

#[derive(Debug, Default)]
struct SweepEntropy(AtomicU64);

impl Entropy for SweepEntropy {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

type OnPage = Box<dyn Fn(usize) + Send + Sync>;

/// `full` full pages, then an empty one; `on_page` receives the number of each.
struct PagedEventLog {
    full: usize,
    read: AtomicUsize,
    on_page: OnPage,
}

#[async_trait::async_trait]
impl EventLog for PagedEventLog {
    async fn append(
        &self,
        _: &[AppendRequest],
        _: Timestamp,
    ) -> millstream_store::StoreResult<Vec<Appended>> {
        Ok(Vec::new())
    }

    async fn find_accepted(
        &self,
        _: &[(TenantId, IdempotencyKey)],
    ) -> millstream_store::StoreResult<Vec<Option<Appended>>> {
        Ok(Vec::new())
    }

    async fn find_definitions(
        &self,
        _: &[ExecutionKey],
    ) -> millstream_store::StoreResult<Vec<Option<DefinitionRef>>> {
        Ok(Vec::new())
    }

    async fn page_undecided(
        &self,
        _: Option<&[SweepBand]>,
        _: Option<&ExecutionKey>,
        limit: usize,
    ) -> millstream_store::StoreResult<Vec<ExecutionKey>> {
        let page = self.read.fetch_add(1, Ordering::SeqCst) + 1;
        (self.on_page)(page);
        let execution = |n| ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse(format!("x{n}")).unwrap(),
        };
        Ok(if page <= self.full { (0..limit).map(execution).collect() } else { Vec::new() })
    }

    async fn has_work(&self, executions: &[ExecutionKey]) -> millstream_store::StoreResult<Vec<bool>> {
        Ok(vec![true; executions.len()])
    }
}

pub(crate) struct SweepBench {
    pub(crate) memory: Stores,
    pub(crate) clock: Arc<ManualClock>,
    streams: StreamHandles,
    pub(crate) stop: CancellationToken,
}

impl SweepBench {
    pub(crate) fn new() -> Self {
        Self {
            memory: Stores::from_backend(MemoryStore::new()),
            clock: Arc::new(ManualClock::starting_at(Timestamp::from_millis(1_000_000_000))),
            streams: StreamHandles::from_backend(EmbeddedStream::new(&SweepEntropy::default())),
            stop: CancellationToken::new(),
        }
    }

    fn worker(&self, name: &str, pages: &Arc<PagedEventLog>) -> Arc<WorkerEnvironment> {
        self.worker_on(name, |stores| stores.events = pages.clone())
    }

    /// A worker on these stores, with some of them replaced.
    pub(crate) fn worker_on(&self, name: &str, replace: impl FnOnce(&mut Stores)) -> Arc<WorkerEnvironment> {
        let mut stores = self.memory.clone();
        replace(&mut stores);
        let options = WorkerOptions::for_worker(WorkerId::parse(name).unwrap());
        Arc::new(WorkerEnvironment::new(
            (stores, self.streams.clone()),
            (self.clock.clone(), Arc::new(SweepEntropy::default())),
            options,
            self.stop.clone(),
        ))
    }

    /// When a duty was last done, if its lease is free.
    pub(crate) async fn done(&self, duty: &str) -> Option<Timestamp> {
        let asking = WorkerId::parse("asking").unwrap();
        let workers = &self.memory.workers;
        let done =
            workers.take_duty(duty, &asking, Duration::from_secs(1), self.clock.now()).await.unwrap()?;
        workers.finish_duty(duty, &asking, done).await.unwrap();
        Some(done)
    }
}

fn pages(full: usize, on_page: impl Fn(usize) + Send + Sync + 'static) -> Arc<PagedEventLog> {
    Arc::new(PagedEventLog { full, read: AtomicUsize::new(0), on_page: Box::new(on_page) })
}

fn read(pages: &PagedEventLog) -> usize {
    pages.read.swap(0, Ordering::SeqCst)
}

#[tokio::test]
async fn interrupted_sweep_is_not_recorded() {
    let bench = SweepBench::new();
    let stop = bench.stop.clone();
    let pages = pages(3, move |page| {
        if page == 2 {
            stop.cancel();
        }
    });
    overdue_sweep::sweep_overdue(bench.worker("a", &pages), Arc::default()).await.unwrap();
    assert_eq!(read(&pages), 2, "it continued after the shutdown");
    assert_eq!(bench.done("overdue").await, Some(Timestamp::EPOCH));
    ring_all::sweep_unknown_generation(&bench.worker("a", &pages)).await.unwrap();
    assert_eq!(read(&pages), 1);
    assert_eq!(bench.done("ring-all").await, Some(Timestamp::EPOCH));
}

/// Whether another worker can take the turn now. The memory store answers at once.
fn can_be_taken(memory: &Stores, now: Timestamp) -> bool {
    let thief = WorkerId::parse("thief").unwrap();
    let taken = memory.workers.take_duty("overdue", &thief, Duration::from_secs(60), now).now_or_never();
    matches!(taken, Some(Ok(Some(_))))
}

#[tokio::test]
async fn long_sweep_extends_its_turn() {
    let bench = SweepBench::new();
    let began = bench.clock.now();
    let (clock, memory) = (bench.clock.clone(), bench.memory.clone());
    // Two pages are longer than one turn.
    let pages = pages(3, move |_| {
        clock.advance(overdue_sweep::TURN.mul_f64(0.8));
        assert!(!can_be_taken(&memory, clock.now()));
    });
    overdue_sweep::sweep_overdue(bench.worker("a", &pages), Arc::default()).await.unwrap();
    assert_eq!((read(&pages), bench.done("overdue").await), (4, Some(began)));
}

#[tokio::test]
async fn sweep_stops_after_losing_turn() {
    let bench = SweepBench::new();
    let (clock, memory) = (bench.clock.clone(), bench.memory.clone());
    let pages = pages(5, move |page| {
        if page == 2 {
            // Stopped for longer than its turn.
            clock.advance(overdue_sweep::TURN * 2);
            assert!(can_be_taken(&memory, clock.now()));
        }
    });
    overdue_sweep::sweep_overdue(bench.worker("a", &pages), Arc::default()).await.unwrap();
    assert_eq!(read(&pages), 2);
    assert_eq!(bench.done("overdue").await, None, "the thief's turn was given back");
}

#[tokio::test]
async fn recent_sweep_is_not_repeated() {
    let bench = SweepBench::new();
    let pages = pages(0, |_| {});
    let workers = ["a", "b", "c"].map(|name| bench.worker(name, &pages));
    for worker in &workers {
        overdue_sweep::sweep_overdue(worker.clone(), Arc::default()).await.unwrap();
    }
    assert_eq!(read(&pages), 1);
    bench.clock.advance(overdue_sweep::sweep_period(&workers[0]));
    for worker in &workers {
        overdue_sweep::sweep_overdue(worker.clone(), Arc::default()).await.unwrap();
    }
    assert_eq!(read(&pages), 1);
}

#[tokio::test]
async fn stream_generation_is_swept_once() {
    let mut bench = SweepBench::new();
    let pages = pages(0, |_| {});
    let mut generations = Vec::new();
    for seed in 1..4 {
        bench.streams = StreamHandles::from_backend(EmbeddedStream::new(&SweepEntropy(AtomicU64::new(seed))));
        bench.clock.advance(Duration::from_secs(1));
        for name in ["a", "b"] {
            assert!(ring_all::sweep_unknown_generation(&bench.worker(name, &pages)).await.unwrap());
        }
        assert_eq!(read(&pages), 1, "once per generation");
        generations.push(bench.streams.care.ensure_generation().await.unwrap());
    }
    generations.dedup();
    assert_eq!(generations.len(), 3);
    assert_eq!(bench.done("ring-all").await, Some(bench.clock.now()));
    for generation in generations {
        assert_eq!(bench.done(&format!("ring-all.{generation}")).await, Some(Timestamp::EPOCH));
    }
}

#[tokio::test]
async fn recovery_sweeps_after_crashed_sweep() {
    let mut bench = SweepBench::new();
    let before = pages(0, |_| {});
    assert!(ring_all::sweep_unknown_generation(&bench.worker("a", &before)).await.unwrap());
    // The next process dies in its sweep, while it holds its turns.
    let dead = bench.worker("dead", &before);
    let (leasing, _) = ActionLeasing::new(dead.clone(), Vec::new());
    heartbeat::send_heartbeat(Arc::new(leasing), None, bench.clock.now()).await.unwrap();
    for duty in ["overdue", "ring-all", "ring-all.generation"] {
        let me = &dead.options.worker;
        bench.memory.workers.take_duty(duty, me, Duration::from_secs(60), bench.clock.now()).await.unwrap();
        assert_eq!(bench.done(duty).await, None, "{duty} is free");
    }
    assert_eq!(release_duties_of_dead_workers(&bench.memory).await.unwrap(), 1);
    assert_eq!(release_duties_of_dead_workers(&bench.memory).await.unwrap(), 0, "it is struck off");
    read(&before);
    bench.streams = StreamHandles::from_backend(EmbeddedStream::new(&SweepEntropy(AtomicU64::new(9))));
    assert!(ring_all::sweep_unknown_generation(&bench.worker("b", &before)).await.unwrap());
    assert_eq!(read(&before), 1);
}
