//! The stream as seen by one process: delays, lost messages, repeats, data loss.

use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::{ExecutionKey, TenantId, WorkerId};
use millstream_model::lane::Lane;
use millstream_stream::announcement::{Announcement, Announcer};
use millstream_stream::doorbell::{
    Doorbell, DoorbellDelivery, DoorbellReader, Doorbells, FullTenants, LaneStats, RedeliveryMark,
    StreamEntryId, StreamMaintenance,
};
use millstream_stream::locks::{ExecutionLocks, LockToken};
use millstream_stream::{StreamError, StreamHandles, StreamResult};
use tokio::sync::broadcast;

use crate::bus::CurrentStream;
use crate::check::{SimCheck, SimViolation};
use crate::guard::LockHolding;
use crate::role::SimProcess;
use crate::stores::execution_list;
use crate::tally::SimCount;

#[derive(Debug, Clone)]
struct ScheduledStreams {
    role: Arc<SimProcess>,
}

/// The stream for this role.
pub(crate) fn scheduled_streams(role: &Arc<SimProcess>) -> StreamHandles {
    StreamHandles::from_backend(Arc::new(ScheduledStreams { role: Arc::clone(role) }))
}

impl ScheduledStreams {
    fn current(&self) -> CurrentStream {
        self.role.world.bus.current_stream()
    }
}

fn bell_list(bells: &[Doorbell]) -> String {
    execution_list(bells.iter().map(Doorbell::execution))
}

fn delivery_list(deliveries: &[DoorbellDelivery]) -> String {
    let item = |delivery: &DoorbellDelivery| {
        format!("{} {}", delivery.bell.execution().execution, delivery.entry.id)
    };
    deliveries.iter().map(item).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl Doorbells for ScheduledStreams {
    async fn publish_bells(&self, bells: &[Doorbell]) -> StreamResult<()> {
        let (me, owned) = (self.clone(), bells.to_vec());
        let effect = async move {
            let world = &me.role.world;
            if world.draws_fault(world.plan.rates.lost_ring) {
                world.count(SimCount::LostRing);
                me.role.trace_line(|| format!("the bells of {} are lost", bell_list(&owned)));
                return Ok(());
            }
            if world.draws_fault(world.plan.rates.ring_twice) {
                world.count(SimCount::RingTwice);
                let (again, bells, length) = (Arc::clone(world), owned.clone(), world.dice.millis(1, 1_000));
                tokio::spawn(async move {
                    tokio::time::sleep(length).await;
                    again.trace_line("world", || format!("the bells of {} ring again", bell_list(&bells)));
                    let _ = again.bus.current_stream().stream.publish_bells(&bells).await;
                });
            }
            me.current().stream.publish_bells(&owned).await
        };
        self.role.send("publish", || bell_list(bells), effect).await
    }

    async fn open_reader(
        &self,
        consumer: &WorkerId,
        lanes: &[Lane],
    ) -> StreamResult<Box<dyn DoorbellReader>> {
        let effect = async {
            let stream = self.current();
            let inner = stream.stream.open_reader(consumer, lanes).await?;
            let (role, consumer, lanes) = (Arc::clone(&self.role), consumer.clone(), lanes.to_vec());
            let full = FullTenants::default();
            Ok(Box::new(SimReader { role, stream, inner, consumer, lanes, full, unseen: Vec::new() })
                as Box<dyn DoorbellReader>)
        };
        self.role.call("reader", String::new, effect).await
    }

    async fn ack_entries(&self, entries: &[StreamEntryId]) -> StreamResult<()> {
        let (me, owned) = (self.clone(), entries.to_vec());
        let effect = async move {
            let stream = me.current();
            stream.stream.ack_entries(&stream.own_entries(&owned)).await
        };
        let about = || entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>().join(",");
        self.role.send("ack", about, effect).await
    }

    async fn reclaim_idle(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        let (me, consumer) = (self.clone(), consumer.clone());
        let effect = async move {
            let stream = me.current();
            let taken = stream.qualify_ids(stream.stream.reclaim_idle(&consumer, min_idle, max).await?);
            me.role.world.tally.add(SimCount::Redelivered, taken.len());
            if !taken.is_empty() {
                me.role.trace_line(|| format!("reclaimed {}", delivery_list(&taken)));
            }
            Ok(taken)
        };
        self.role.send("reclaim", String::new, effect).await
    }

    async fn refresh_entries(&self, consumer: &WorkerId, entries: &[StreamEntryId]) -> StreamResult<()> {
        let effect = async {
            let stream = self.current();
            stream.stream.refresh_entries(consumer, &stream.own_entries(entries)).await
        };
        self.role.call("refresh", || entries.len().to_string(), effect).await
    }

    async fn replenish_tenants(&self, tenants: &[TenantId]) -> StreamResult<()> {
        let effect = async { self.current().stream.replenish_tenants(tenants).await };
        self.role.call("replenish", || tenants.len().to_string(), effect).await
    }
}

struct SimReader {
    role: Arc<SimProcess>,
    stream: CurrentStream,
    inner: Box<dyn DoorbellReader>,
    consumer: WorkerId,
    lanes: Vec<Lane>,
    full: FullTenants,
    /// Delivered by the server and lost on the way: pending under this consumer.
    unseen: Vec<DoorbellDelivery>,
}

impl SimReader {
    /// Joins the consumer group again if the stream has lost its data; `true` if it had.
    async fn rejoin(&mut self) -> StreamResult<bool> {
        let current = self.role.world.bus.current_stream();
        if current.number == self.stream.number {
            return Ok(false);
        }
        self.unseen.clear();
        self.inner = current.stream.open_reader(&self.consumer, &self.lanes).await?;
        self.inner.skip_full_tenants(&self.full);
        self.stream = current;
        Ok(true)
    }
}

#[async_trait::async_trait]
impl DoorbellReader for SimReader {
    async fn read_deliveries(
        &mut self,
        per_lane: usize,
        block: Duration,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        let role = Arc::clone(&self.role);
        let world = &role.world;
        role.wait_while_frozen().await;
        if self.rejoin().await? {
            if world.dice.one_in(2) {
                role.trace_line(|| "read: the group is gone".to_owned());
                return Err(StreamError::Amnesia("the group is gone".to_owned()));
            }
            world.count(SimCount::SilentAmnesia);
        }
        if !self.unseen.is_empty() {
            role.trace_line(|| format!("read {} that it never saw", delivery_list(&self.unseen)));
            return Ok(std::mem::take(&mut self.unseen));
        }
        let mut deliveries = self.stream.qualify_ids(self.inner.read_deliveries(per_lane, block).await?);
        role.wait_while_frozen().await;
        if deliveries.is_empty() {
            return Ok(deliveries);
        }
        let again = |delivery: &&DoorbellDelivery| delivery.redelivered == RedeliveryMark::Again;
        world.tally.add(SimCount::Redelivered, deliveries.iter().filter(again).count());
        if deliveries.len() > 1 && !world.is_calm() {
            world.count(SimCount::Reordered);
            world.dice.shuffle(&mut deliveries);
        }
        let about = || delivery_list(&deliveries);
        let answered = role.call("read", about, std::future::ready(Ok(()))).await;
        if let Err(error) = answered {
            world.count(SimCount::LostDelivery);
            self.unseen = deliveries;
            return Err(error);
        }
        Ok(deliveries)
    }

    fn skip_full_tenants(&mut self, full: &FullTenants) {
        self.full = full.clone();
        self.inner.skip_full_tenants(full);
    }
}

#[async_trait::async_trait]
impl StreamMaintenance for ScheduledStreams {
    async fn ensure_generation(&self) -> StreamResult<String> {
        let effect = async { self.current().stream.ensure_generation().await };
        self.role.call("generation", String::new, effect).await
    }

    async fn recount_tenants(&self) -> StreamResult<()> {
        let effect = async { self.current().stream.recount_tenants().await };
        self.role.call("recount", String::new, effect).await
    }

    async fn lane_stats(&self) -> StreamResult<Vec<LaneStats>> {
        let effect = async { self.current().stream.lane_stats().await };
        self.role.call("stats", String::new, effect).await
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> StreamResult<usize> {
        let effect = async { self.current().stream.remove_consumers(gone, min_idle).await };
        self.role.call("remove_consumers", String::new, effect).await
    }

    async fn check_server(&self) -> StreamResult<Vec<String>> {
        Ok(Vec::new())
    }
}

#[async_trait::async_trait]
impl ExecutionLocks for ScheduledStreams {
    async fn acquire_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let (me, owned, holder) = (self.clone(), keys.to_vec(), token.clone());
        let effect = async move {
            let world = &me.role.world;
            let granted = me.current().stream.acquire_locks(&owned, &holder, ttl).await?;
            for (key, granted) in owned.iter().zip(&granted) {
                if !granted {
                    world.count(SimCount::LockBusy);
                } else if let Err(violation) = world.locks.record_grant(key, &holder, ttl) {
                    world.report_violation(violation);
                }
            }
            Ok(granted)
        };
        self.role.send("lock", || format!("{} by {}", execution_list(keys), token.0), effect).await
    }

    async fn extend_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let (me, owned, token) = (self.clone(), keys.to_vec(), token.clone());
        let about = || format!("{} by {}", execution_list(keys), token.0);
        let holder = token.clone();
        let effect = async move {
            let (world, token) = (&me.role.world, &holder);
            let ours: Vec<bool> = owned.iter().map(|key| world.locks.is_held_by(key, token)).collect();
            let extended = me.current().stream.extend_locks(&owned, token, ttl).await?;
            for ((key, ours), extended) in owned.iter().zip(ours).zip(&extended) {
                match (ours, extended) {
                    (true, true) => {
                        let _ = world.locks.record_grant(key, token, ttl);
                    }
                    (false, false) => world.count(SimCount::LockLost),
                    (true, false) => {
                        me.report_violation(key, format!("{} holds it and could not extend it", token.0))
                    }
                    (false, true) => {
                        me.report_violation(key, format!("{} extended it without holding it", token.0))
                    }
                }
            }
            Ok(extended)
        };
        self.role.send("extend", about, effect).await
    }

    async fn release_locks(&self, keys: &[ExecutionKey], token: &LockToken) -> StreamResult<()> {
        let (me, owned, releaser) = (self.clone(), keys.to_vec(), token.clone());
        let effect = async move {
            let (world, token) = (&me.role.world, &releaser);
            let holders: Vec<Option<LockHolding>> =
                owned.iter().map(|key| world.locks.lock_holder(key)).collect();
            let stream = me.current().stream;
            stream.release_locks(&owned, token).await?;
            for (key, holder) in owned.iter().zip(holders) {
                match holder {
                    Some(holder) if holder.token == *token => world.locks.record_release(key),
                    // Another process's lock: it must be unchanged. Extending it to its own end changes
                    // nothing.
                    Some(LockHolding { token: other, until }) => {
                        world.count(SimCount::LockLost);
                        let rest = until.saturating_duration_since(tokio::time::Instant::now());
                        if stream.extend_locks(std::slice::from_ref(key), &other, rest).await? != [true] {
                            me.report_violation(key, format!("{} released what {} holds", token.0, other.0));
                        }
                    }
                    None => {}
                }
            }
            Ok(())
        };
        self.role.send("unlock", || format!("{} by {}", execution_list(keys), token.0), effect).await
    }
}

impl ScheduledStreams {
    fn report_violation(&self, key: &ExecutionKey, what: String) {
        self.role.world.report_violation(SimViolation::new(SimCheck::Lock, key.execution.as_str(), what));
    }
}

#[async_trait::async_trait]
impl Announcer for ScheduledStreams {
    async fn announce_commits(&self, news: &[Announcement]) -> StreamResult<()> {
        let effect = async { self.current().stream.announce_commits(news).await };
        self.role.call("announce", || news.len().to_string(), effect).await
    }

    async fn subscribe_all(&self) -> StreamResult<broadcast::Receiver<Announcement>> {
        let effect = async { self.current().stream.subscribe_all().await };
        self.role.call("listen", String::new, effect).await
    }
}
