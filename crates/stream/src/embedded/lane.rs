//! One lane: unread doorbells, and pending ones with their consumers. Synchronous.
//!
//! Unread doorbells wait in a fair queue over tenants, so that the backlog of one tenant does not delay the
//! others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use millstream_model::fair::FairQueue;
use millstream_model::id::{TenantId, WorkerId};
use millstream_model::lane::Lane;
use tokio::time::Instant;

use crate::doorbell::{Doorbell, DoorbellDelivery, LaneStats, RedeliveryMark, StreamEntryId};

/// Maximum number of unread doorbells of a lane. Beyond it, the newest one of the tenant with the largest
/// backlog is dropped, and the sweeps find its execution. Waiting doorbells are distinct, so this many
/// executions are waiting by then.
pub const LANE_CAPACITY: usize = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct EmbeddedLaneQueue {
    last_id: u64,
    /// In reading order. Some may be gone from `bells`.
    unread: FairQueue<u64>,
    bells: HashMap<u64, Doorbell>,
    /// The unread doorbells: publishing one of them again is coalesced.
    waiting: HashSet<Doorbell>,
    pending: BTreeMap<u64, EmbeddedPendingEntry>,
    /// When each consumer last polled.
    consumers: HashMap<WorkerId, Instant>,
    /// Where the next reclaim continues.
    reclaim_from: u64,
}

#[derive(Debug)]
struct EmbeddedPendingEntry {
    bell: Doorbell,
    owner: WorkerId,
    touched: Instant,
}

impl EmbeddedLaneQueue {
    pub(super) fn publish_bell(&mut self, bell: &Doorbell) {
        if !self.waiting.insert(bell.clone()) {
            return;
        }
        self.last_id += 1;
        self.unread.push(&bell.execution().tenant, self.last_id);
        self.bells.insert(self.last_id, bell.clone());
        if self.unread.len() > LANE_CAPACITY
            && let Some(dropped) = self.unread.drop_from_longest()
        {
            self.forget_unread(dropped);
        }
    }

    fn forget_unread(&mut self, id: u64) -> Option<Doorbell> {
        let bell = self.bells.remove(&id)?;
        self.waiting.remove(&bell);
        Some(bell)
    }

    pub(super) fn touch_consumer(&mut self, consumer: &WorkerId, now: Instant) {
        self.consumers.insert(consumer.clone(), now);
    }

    /// Skips the tenants in `full`.
    pub(super) fn take_unread(
        &mut self,
        lane: Lane,
        consumer: &WorkerId,
        count: usize,
        full: &[TenantId],
        now: Instant,
    ) -> Vec<DoorbellDelivery> {
        self.touch_consumer(consumer, now);
        let mut deliveries = Vec::with_capacity(count.min(self.bells.len()));
        while deliveries.len() < count
            && let Some((_, id)) = self.unread.pop_where(|tenant| !full.contains(tenant))
        {
            let Some(bell) = self.forget_unread(id) else { continue };
            self.pending.insert(
                id,
                EmbeddedPendingEntry { bell: bell.clone(), owner: consumer.clone(), touched: now },
            );
            deliveries.push(DoorbellDelivery {
                entry: entry_id(lane, id),
                bell,
                redelivered: RedeliveryMark::First,
            });
        }
        deliveries
    }

    /// Also removes an entry that was never delivered, as XDEL does.
    pub(super) fn ack(&mut self, id: u64) {
        if self.pending.remove(&id).is_none() {
            self.forget_unread(id);
        }
    }

    pub(super) fn reclaim_idle(
        &mut self,
        lane: Lane,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
        now: Instant,
    ) -> Vec<DoorbellDelivery> {
        self.touch_consumer(consumer, now);
        let start = self.reclaim_from;
        let idle = |pending: &EmbeddedPendingEntry| now.duration_since(pending.touched) >= min_idle;
        let mut ids: Vec<u64> = self
            .pending
            .range(start..)
            .chain(self.pending.range(..start))
            .filter(|(_, pending)| idle(pending))
            .map(|(&id, _)| id)
            .take(max)
            .collect();
        self.reclaim_from = if ids.len() == max { ids.last().map_or(0, |id| id + 1) } else { 0 };
        ids.sort_unstable();
        let mut deliveries = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(pending) = self.pending.get_mut(&id) {
                pending.owner = consumer.clone();
                pending.touched = now;
                let bell = pending.bell.clone();
                deliveries.push(DoorbellDelivery {
                    entry: entry_id(lane, id),
                    bell,
                    redelivered: RedeliveryMark::Again,
                });
            }
        }
        deliveries
    }

    pub(super) fn refresh(&mut self, consumer: &WorkerId, id: u64, now: Instant) {
        if let Some(pending) = self.pending.get_mut(&id).filter(|pending| pending.owner == *consumer) {
            pending.touched = now;
            self.touch_consumer(consumer, now);
        }
    }

    /// For each consumer, when it last polled and how many entries are pending with it.
    pub(super) fn consumer_activity(&self) -> HashMap<&WorkerId, (Instant, usize)> {
        let mut seen: HashMap<&WorkerId, (Instant, usize)> =
            self.consumers.iter().map(|(consumer, &at)| (consumer, (at, 0))).collect();
        for pending in self.pending.values() {
            seen.entry(&pending.owner).or_insert((pending.touched, 0)).1 += 1;
        }
        seen
    }

    pub(super) fn forget(&mut self, consumer: &WorkerId) {
        self.consumers.remove(consumer);
    }

    pub(super) fn stats(&self, lane: Lane) -> LaneStats {
        let (pending, lag) = (self.pending.len() as u64, self.bells.len() as u64);
        LaneStats { lane, length: pending + lag, pending, lag, overflow: 0 }
    }
}

fn entry_id(lane: Lane, id: u64) -> StreamEntryId {
    StreamEntryId { lane, id: id.to_string() }
}

#[cfg(test)]
mod tests {
    use millstream_model::id::{ExecutionId, ExecutionKey, TenantId};

    use super::*;

    fn bell(n: usize) -> Doorbell {
        Doorbell::Mailbox(ExecutionKey {
            tenant: TenantId::default_tenant(),
            execution: ExecutionId::parse(format!("x{n}")).unwrap(),
        })
    }

    #[test]
    fn unread_doorbell_is_coalesced() {
        let mut queue = EmbeddedLaneQueue::default();
        let lane = bell(0).lane();
        let worker = WorkerId::parse("w").unwrap();
        for _ in 0..1_000 {
            queue.publish_bell(&bell(1));
        }
        assert_eq!(queue.stats(lane).lag, 1);
        assert_eq!(queue.take_unread(lane, &worker, 10, &[], Instant::now()).len(), 1);
        // Once read, a doorbell carries new information: its events may have been decided before this one.
        queue.publish_bell(&bell(1));
        assert_eq!(queue.stats(lane).lag, 1);
    }

    #[test]
    fn doorbell_acked_unread_can_ring_again() {
        let mut queue = EmbeddedLaneQueue::default();
        let lane = bell(0).lane();
        queue.publish_bell(&bell(1));
        queue.ack(1);
        assert_eq!(queue.stats(lane).length, 0);
        queue.publish_bell(&bell(1));
        assert_eq!(queue.stats(lane).length, 1);
    }
}
