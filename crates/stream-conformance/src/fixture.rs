//! The fixture of a case: a fresh stream, names, and time limits.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_model::id::{ExecutionId, ExecutionKey, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_stream::StreamHandles;
use millstream_stream::doorbell::{Doorbell, DoorbellDelivery, DoorbellReader, StreamEntryId};
use millstream_stream::locks::LockToken;

/// Long enough for a loaded machine; a passing case needs a fraction of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// One slice of a blocking read.
pub(crate) const SLICE: Duration = Duration::from_millis(200);
/// An idle time that no case reaches.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A fresh and empty stream for one case. Clones are the same stream.
#[derive(Clone)]
pub struct StreamFixture {
    pub streams: StreamHandles,
    _kept: Arc<dyn Any + Send + Sync>,
}

impl StreamFixture {
    pub fn new(streams: StreamHandles) -> Self {
        Self { streams, _kept: Arc::new(()) }
    }

    /// Keeps something (a private server) alive until the case is over.
    #[must_use]
    pub fn keeping(self, guard: impl Any + Send + Sync) -> Self {
        Self { _kept: Arc::new(guard), ..self }
    }

    pub(crate) async fn ring(&self, bells: &[Doorbell]) {
        self.streams.bells.publish_bells(bells).await.unwrap();
    }

    pub(crate) async fn join(&self, consumer: &WorkerId) -> Box<dyn DoorbellReader> {
        let lanes: Vec<Lane> = Lane::all().collect();
        self.streams.bells.open_reader(consumer, &lanes).await.unwrap()
    }

    pub(crate) async fn reclaim(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> Vec<DoorbellDelivery> {
        self.streams.bells.reclaim_idle(consumer, min_idle, max).await.unwrap()
    }

    pub(crate) async fn ack(&self, deliveries: &[DoorbellDelivery]) {
        self.streams.bells.ack_entries(&entries(deliveries)).await.unwrap();
    }

    pub(crate) async fn pending(&self) -> u64 {
        self.streams.care.lane_stats().await.unwrap().iter().map(|row| row.pending).sum()
    }

    pub(crate) async fn length(&self) -> u64 {
        self.streams.care.lane_stats().await.unwrap().iter().map(|row| row.length).sum()
    }
}

impl std::fmt::Debug for StreamFixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").finish_non_exhaustive()
    }
}

/// Reads until `count` deliveries have arrived.
pub(crate) async fn hear(reader: &mut Box<dyn DoorbellReader>, count: usize) -> Vec<DoorbellDelivery> {
    let deadline = Instant::now() + PATIENCE;
    let mut heard = Vec::new();
    while heard.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} came", heard.len());
        heard.extend(reader.read_deliveries(1_000, SLICE).await.unwrap());
    }
    assert_eq!(heard.len(), count, "more came than were rung");
    heard
}

/// Polls until deliveries arrive.
pub(crate) async fn until_some<F: Future<Output = Vec<DoorbellDelivery>>>(
    mut ask: impl FnMut() -> F,
) -> Vec<DoorbellDelivery> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let got = ask().await;
        if !got.is_empty() {
            return got;
        }
        assert!(Instant::now() < deadline, "nothing came");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::parse(name).unwrap()
}

pub(crate) fn token(name: &str) -> LockToken {
    LockToken(name.to_owned())
}

/// A tenant whose doorbells belong to the n-th lane.
pub(crate) fn tenant_of_lane(n: u8) -> TenantId {
    (0..)
        .map(|i| TenantId::parse(format!("tenant-{i}")).unwrap())
        .find(|tenant| Lane::of_tenant(tenant).number() == n)
        .unwrap()
}

pub(crate) fn execution(tenant: &TenantId, n: usize) -> ExecutionKey {
    ExecutionKey { tenant: tenant.clone(), execution: ExecutionId::parse(format!("x-{n}")).unwrap() }
}

/// Distinct doorbells of one lane.
pub(crate) fn bells(lane: u8, count: usize) -> Vec<Doorbell> {
    let tenant = tenant_of_lane(lane);
    (0..count).map(|n| Doorbell::Mailbox(execution(&tenant, n))).collect()
}

pub(crate) fn entries(deliveries: &[DoorbellDelivery]) -> Vec<StreamEntryId> {
    deliveries.iter().map(|delivery| delivery.entry.clone()).collect()
}

/// The delivered doorbells, sorted.
pub(crate) fn sorted(deliveries: &[DoorbellDelivery]) -> Vec<Doorbell> {
    let mut bells: Vec<Doorbell> = deliveries.iter().map(|delivery| delivery.bell.clone()).collect();
    bells.sort();
    bells
}
