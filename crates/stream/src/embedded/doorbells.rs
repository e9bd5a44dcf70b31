//! Publishes, reads, acknowledges and reclaims doorbells within the process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::{TenantId, WorkerId};
use millstream_model::lane::Lane;
use tokio::time::{Instant, timeout_at};

use super::stream::{EmbeddedDoorbells, EmbeddedStream, queue_of_lane};
use crate::StreamResult;
use crate::doorbell::{
    Doorbell, DoorbellDelivery, DoorbellReader, Doorbells, FullTenants, LaneStats, StreamEntryId,
    StreamMaintenance,
};

/// Practically unlimited.
const LONGEST_BLOCK: Duration = Duration::from_secs(24 * 3600);

#[async_trait::async_trait]
impl Doorbells for EmbeddedStream {
    async fn publish_bells(&self, bells: &[Doorbell]) -> StreamResult<()> {
        if bells.is_empty() {
            return Ok(());
        }
        {
            let mut lanes = self.bells.lock_lanes();
            for bell in bells {
                queue_of_lane(&mut lanes, bell.lane()).publish_bell(bell);
            }
        }
        self.bells.rung.notify_waiters();
        Ok(())
    }

    async fn open_reader(
        &self,
        consumer: &WorkerId,
        lanes: &[Lane],
    ) -> StreamResult<Box<dyn DoorbellReader>> {
        let now = Instant::now();
        let mut queues = self.bells.lock_lanes();
        for &lane in lanes {
            queue_of_lane(&mut queues, lane).touch_consumer(consumer, now);
        }
        Ok(Box::new(EmbeddedReader {
            bells: self.bells.clone(),
            consumer: consumer.clone(),
            lanes: lanes.to_vec(),
            full: FullTenants::default(),
        }))
    }

    async fn ack_entries(&self, entries: &[StreamEntryId]) -> StreamResult<()> {
        let mut lanes = self.bells.lock_lanes();
        for entry in entries {
            if let Ok(id) = entry.id.parse() {
                queue_of_lane(&mut lanes, entry.lane).ack(id);
            }
        }
        Ok(())
    }

    async fn reclaim_idle(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        let now = Instant::now();
        let mut lanes = self.bells.lock_lanes();
        let mut deliveries = Vec::new();
        for lane in Lane::all() {
            let room = max - deliveries.len();
            if room == 0 {
                break;
            }
            deliveries
                .extend(queue_of_lane(&mut lanes, lane).reclaim_idle(lane, consumer, min_idle, room, now));
        }
        Ok(deliveries)
    }

    async fn refresh_entries(&self, consumer: &WorkerId, entries: &[StreamEntryId]) -> StreamResult<()> {
        let now = Instant::now();
        let mut lanes = self.bells.lock_lanes();
        for entry in entries {
            if let Ok(id) = entry.id.parse() {
                queue_of_lane(&mut lanes, entry.lane).refresh(consumer, id, now);
            }
        }
        Ok(())
    }

    async fn replenish_tenants(&self, _tenants: &[TenantId]) -> StreamResult<()> {
        // Readers poll again with the smaller set of full tenants.
        self.bells.rung.notify_waiters();
        Ok(())
    }
}

struct EmbeddedReader {
    bells: Arc<EmbeddedDoorbells>,
    consumer: WorkerId,
    lanes: Vec<Lane>,
    full: FullTenants,
}

impl EmbeddedReader {
    fn take_unread(&self, per_lane: usize) -> Vec<DoorbellDelivery> {
        let now = Instant::now();
        let full = self.full.list();
        let mut lanes = self.bells.lock_lanes();
        self.lanes
            .iter()
            .flat_map(|&lane| {
                queue_of_lane(&mut lanes, lane).take_unread(lane, &self.consumer, per_lane, &full, now)
            })
            .collect()
    }
}

#[async_trait::async_trait]
impl DoorbellReader for EmbeddedReader {
    async fn read_deliveries(
        &mut self,
        per_lane: usize,
        block: Duration,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        let deadline = Instant::now() + block.min(LONGEST_BLOCK);
        loop {
            // Registered before polling; otherwise a doorbell between the two would be missed.
            let mut rung = std::pin::pin!(self.bells.rung.notified());
            rung.as_mut().enable();
            let deliveries = self.take_unread(per_lane);
            if !deliveries.is_empty() || timeout_at(deadline, rung).await.is_err() {
                return Ok(deliveries);
            }
        }
    }

    fn skip_full_tenants(&mut self, full: &FullTenants) {
        self.full = full.clone();
    }
}

#[async_trait::async_trait]
impl StreamMaintenance for EmbeddedStream {
    async fn ensure_generation(&self) -> StreamResult<String> {
        Ok(self.generation.clone())
    }

    /// The lanes keep exact counts.
    async fn recount_tenants(&self) -> StreamResult<()> {
        Ok(())
    }

    async fn lane_stats(&self) -> StreamResult<Vec<LaneStats>> {
        let mut lanes = self.bells.lock_lanes();
        Ok(Lane::all().map(|lane| queue_of_lane(&mut lanes, lane).stats(lane)).collect())
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> StreamResult<usize> {
        let now = Instant::now();
        let mut lanes = self.bells.lock_lanes();
        let mut seen: HashMap<WorkerId, (Instant, usize)> = HashMap::new();
        for lane in lanes.iter() {
            for (consumer, (at, pending)) in lane.consumer_activity() {
                let entry = seen.entry(consumer.clone()).or_insert((at, 0));
                entry.0 = entry.0.max(at);
                entry.1 += pending;
            }
        }
        let removed: HashSet<WorkerId> = seen
            .into_iter()
            .filter(|(consumer, (at, pending))| {
                *pending == 0 && (Some(consumer) == gone || now.duration_since(*at) >= min_idle)
            })
            .map(|(consumer, _)| consumer)
            .collect();
        for consumer in &removed {
            lanes.iter_mut().for_each(|lane| lane.forget(consumer));
        }
        Ok(removed.len())
    }

    async fn check_server(&self) -> StreamResult<Vec<String>> {
        Ok(Vec::new())
    }
}
