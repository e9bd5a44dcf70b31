//! Publishes, reads, acknowledges and reclaims doorbells within the process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::id::{TenantId, WorkerId};
use millstream_core::lane::Lane;
use tokio::time::{Instant, timeout_at};

use super::stream::{Bells, EmbeddedStream, queue};
use crate::Result;
use crate::doorbell::{Bell, BellReader, Delivery, Doorbells, EntryId, FullTenants, LaneStats, StreamCare};

/// Practically unlimited.
const LONGEST_BLOCK: Duration = Duration::from_secs(24 * 3600);

#[async_trait::async_trait]
impl Doorbells for EmbeddedStream {
    async fn publish(&self, bells: &[Bell]) -> Result<()> {
        if bells.is_empty() {
            return Ok(());
        }
        {
            let mut lanes = self.bells.lanes();
            for bell in bells {
                queue(&mut lanes, bell.lane()).ring(bell);
            }
        }
        self.bells.rung.notify_waiters();
        Ok(())
    }

    async fn reader(&self, consumer: &WorkerId, lanes: &[Lane]) -> Result<Box<dyn BellReader>> {
        let now = Instant::now();
        let mut queues = self.bells.lanes();
        for &lane in lanes {
            queue(&mut queues, lane).greet(consumer, now);
        }
        Ok(Box::new(EmbeddedReader {
            bells: self.bells.clone(),
            consumer: consumer.clone(),
            lanes: lanes.to_vec(),
            full: FullTenants::default(),
        }))
    }

    async fn ack(&self, entries: &[EntryId]) -> Result<()> {
        let mut lanes = self.bells.lanes();
        for entry in entries {
            if let Ok(id) = entry.id.parse() {
                queue(&mut lanes, entry.lane).ack(id);
            }
        }
        Ok(())
    }

    async fn reclaim(&self, consumer: &WorkerId, min_idle: Duration, max: usize) -> Result<Vec<Delivery>> {
        let now = Instant::now();
        let mut lanes = self.bells.lanes();
        let mut deliveries = Vec::new();
        for lane in Lane::all() {
            let room = max - deliveries.len();
            if room == 0 {
                break;
            }
            deliveries.extend(queue(&mut lanes, lane).reclaim(lane, consumer, min_idle, room, now));
        }
        Ok(deliveries)
    }

    async fn refresh(&self, consumer: &WorkerId, entries: &[EntryId]) -> Result<()> {
        let now = Instant::now();
        let mut lanes = self.bells.lanes();
        for entry in entries {
            if let Ok(id) = entry.id.parse() {
                queue(&mut lanes, entry.lane).refresh(consumer, id, now);
            }
        }
        Ok(())
    }

    async fn replenish(&self, _tenants: &[TenantId]) -> Result<()> {
        // Readers poll again with the smaller set of full tenants.
        self.bells.rung.notify_waiters();
        Ok(())
    }
}

struct EmbeddedReader {
    bells: Arc<Bells>,
    consumer: WorkerId,
    lanes: Vec<Lane>,
    full: FullTenants,
}

impl EmbeddedReader {
    fn take(&self, per_lane: usize) -> Vec<Delivery> {
        let now = Instant::now();
        let full = self.full.list();
        let mut lanes = self.bells.lanes();
        self.lanes
            .iter()
            .flat_map(|&lane| queue(&mut lanes, lane).take(lane, &self.consumer, per_lane, &full, now))
            .collect()
    }
}

#[async_trait::async_trait]
impl BellReader for EmbeddedReader {
    async fn read(&mut self, per_lane: usize, block: Duration) -> Result<Vec<Delivery>> {
        let deadline = Instant::now() + block.min(LONGEST_BLOCK);
        loop {
            // Registered before polling; otherwise a doorbell between the two would be missed.
            let mut rung = std::pin::pin!(self.bells.rung.notified());
            rung.as_mut().enable();
            let deliveries = self.take(per_lane);
            if !deliveries.is_empty() || timeout_at(deadline, rung).await.is_err() {
                return Ok(deliveries);
            }
        }
    }

    fn heed(&mut self, full: &FullTenants) {
        self.full = full.clone();
    }
}

#[async_trait::async_trait]
impl StreamCare for EmbeddedStream {
    async fn generation(&self) -> Result<String> {
        Ok(self.generation.clone())
    }

    /// The lanes keep exact counts.
    async fn recount(&self) -> Result<()> {
        Ok(())
    }

    async fn stats(&self) -> Result<Vec<LaneStats>> {
        let mut lanes = self.bells.lanes();
        Ok(Lane::all().map(|lane| queue(&mut lanes, lane).stats(lane)).collect())
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> Result<usize> {
        let now = Instant::now();
        let mut lanes = self.bells.lanes();
        let mut seen: HashMap<WorkerId, (Instant, usize)> = HashMap::new();
        for lane in lanes.iter() {
            for (consumer, (at, pending)) in lane.consumers() {
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

    async fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}
