//! The stream as seen by one process: delays, lost messages, repeats, data loss.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::id::{ExecutionKey, TenantId, WorkerId};
use millstream_core::lane::Lane;
use millstream_stream::announce::{Announcer, News};
use millstream_stream::doorbell::{
    Bell, BellReader, Delivery, Doorbells, EntryId, FullTenants, LaneStats, Redelivered, StreamCare,
};
use millstream_stream::locks::{LockToken, Locks};
use millstream_stream::{Result, StreamError, Streams};
use tokio::sync::broadcast;

use crate::bus::Current;
use crate::check::{Check, Violation};
use crate::guard::Holding;
use crate::role::Role;
use crate::stores::listed;
use crate::tally::Count;

#[derive(Debug, Clone)]
struct Scheduled {
    role: Arc<Role>,
}

/// The stream for this role.
pub(crate) fn scheduled(role: &Arc<Role>) -> Streams {
    Streams::of(Arc::new(Scheduled { role: Arc::clone(role) }))
}

impl Scheduled {
    fn current(&self) -> Current {
        self.role.world.bus.current()
    }
}

fn rung(bells: &[Bell]) -> String {
    listed(bells.iter().map(Bell::execution))
}

fn delivered(deliveries: &[Delivery]) -> String {
    let item = |delivery: &Delivery| format!("{} {}", delivery.bell.execution().execution, delivery.entry.id);
    deliveries.iter().map(item).collect::<Vec<_>>().join(",")
}

#[async_trait::async_trait]
impl Doorbells for Scheduled {
    async fn publish(&self, bells: &[Bell]) -> Result<()> {
        let (me, owned) = (self.clone(), bells.to_vec());
        let effect = async move {
            let world = &me.role.world;
            if world.strikes(world.plan.rates.lost_ring) {
                world.count(Count::LostRing);
                me.role.line(|| format!("the bells of {} are lost", rung(&owned)));
                return Ok(());
            }
            if world.strikes(world.plan.rates.ring_twice) {
                world.count(Count::RingTwice);
                let (again, bells, length) = (Arc::clone(world), owned.clone(), world.dice.millis(1, 1_000));
                tokio::spawn(async move {
                    tokio::time::sleep(length).await;
                    again.line("world", || format!("the bells of {} ring again", rung(&bells)));
                    let _ = again.bus.current().stream.publish(&bells).await;
                });
            }
            me.current().stream.publish(&owned).await
        };
        self.role.send("publish", || rung(bells), effect).await
    }

    async fn reader(&self, consumer: &WorkerId, lanes: &[Lane]) -> Result<Box<dyn BellReader>> {
        let effect = async {
            let stream = self.current();
            let inner = stream.stream.reader(consumer, lanes).await?;
            let (role, consumer, lanes) = (Arc::clone(&self.role), consumer.clone(), lanes.to_vec());
            let full = FullTenants::default();
            Ok(Box::new(Reader { role, stream, inner, consumer, lanes, full, unseen: Vec::new() })
                as Box<dyn BellReader>)
        };
        self.role.call("reader", String::new, effect).await
    }

    async fn ack(&self, entries: &[EntryId]) -> Result<()> {
        let (me, owned) = (self.clone(), entries.to_vec());
        let effect = async move {
            let stream = me.current();
            stream.stream.ack(&stream.inward(&owned)).await
        };
        let about = || entries.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>().join(",");
        self.role.send("ack", about, effect).await
    }

    async fn reclaim(&self, consumer: &WorkerId, min_idle: Duration, max: usize) -> Result<Vec<Delivery>> {
        let (me, consumer) = (self.clone(), consumer.clone());
        let effect = async move {
            let stream = me.current();
            let taken = stream.outward(stream.stream.reclaim(&consumer, min_idle, max).await?);
            me.role.world.tally.add(Count::Redelivered, taken.len());
            if !taken.is_empty() {
                me.role.line(|| format!("reclaimed {}", delivered(&taken)));
            }
            Ok(taken)
        };
        self.role.send("reclaim", String::new, effect).await
    }

    async fn refresh(&self, consumer: &WorkerId, entries: &[EntryId]) -> Result<()> {
        let effect = async {
            let stream = self.current();
            stream.stream.refresh(consumer, &stream.inward(entries)).await
        };
        self.role.call("refresh", || entries.len().to_string(), effect).await
    }

    async fn replenish(&self, tenants: &[TenantId]) -> Result<()> {
        let effect = async { self.current().stream.replenish(tenants).await };
        self.role.call("replenish", || tenants.len().to_string(), effect).await
    }
}

struct Reader {
    role: Arc<Role>,
    stream: Current,
    inner: Box<dyn BellReader>,
    consumer: WorkerId,
    lanes: Vec<Lane>,
    full: FullTenants,
    /// Delivered by the server and lost on the way: pending under this consumer.
    unseen: Vec<Delivery>,
}

impl Reader {
    /// Joins the consumer group again if the stream has lost its data; `true` if it had.
    async fn rejoin(&mut self) -> Result<bool> {
        let current = self.role.world.bus.current();
        if current.number == self.stream.number {
            return Ok(false);
        }
        self.unseen.clear();
        self.inner = current.stream.reader(&self.consumer, &self.lanes).await?;
        self.inner.heed(&self.full);
        self.stream = current;
        Ok(true)
    }
}

#[async_trait::async_trait]
impl BellReader for Reader {
    async fn read(&mut self, per_lane: usize, block: Duration) -> Result<Vec<Delivery>> {
        let role = Arc::clone(&self.role);
        let world = &role.world;
        role.alive().await;
        if self.rejoin().await? {
            if world.dice.one_in(2) {
                role.line(|| "read: the group is gone".to_owned());
                return Err(StreamError::Amnesia("the group is gone".to_owned()));
            }
            world.count(Count::SilentAmnesia);
        }
        if !self.unseen.is_empty() {
            role.line(|| format!("read {} that it never saw", delivered(&self.unseen)));
            return Ok(std::mem::take(&mut self.unseen));
        }
        let mut deliveries = self.stream.outward(self.inner.read(per_lane, block).await?);
        role.alive().await;
        if deliveries.is_empty() {
            return Ok(deliveries);
        }
        let again = |delivery: &&Delivery| delivery.redelivered == Redelivered::Again;
        world.tally.add(Count::Redelivered, deliveries.iter().filter(again).count());
        if deliveries.len() > 1 && !world.is_calm() {
            world.count(Count::Reordered);
            world.dice.shuffle(&mut deliveries);
        }
        let about = || delivered(&deliveries);
        let answered = role.call("read", about, std::future::ready(Ok(()))).await;
        if let Err(error) = answered {
            world.count(Count::LostDelivery);
            self.unseen = deliveries;
            return Err(error);
        }
        Ok(deliveries)
    }

    fn heed(&mut self, full: &FullTenants) {
        self.full = full.clone();
        self.inner.heed(full);
    }
}

#[async_trait::async_trait]
impl StreamCare for Scheduled {
    async fn generation(&self) -> Result<String> {
        let effect = async { self.current().stream.generation().await };
        self.role.call("generation", String::new, effect).await
    }

    async fn recount(&self) -> Result<()> {
        let effect = async { self.current().stream.recount().await };
        self.role.call("recount", String::new, effect).await
    }

    async fn stats(&self) -> Result<Vec<LaneStats>> {
        let effect = async { self.current().stream.stats().await };
        self.role.call("stats", String::new, effect).await
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> Result<usize> {
        let effect = async { self.current().stream.remove_consumers(gone, min_idle).await };
        self.role.call("remove_consumers", String::new, effect).await
    }

    async fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

#[async_trait::async_trait]
impl Locks for Scheduled {
    async fn acquire(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let (me, owned, holder) = (self.clone(), keys.to_vec(), token.clone());
        let effect = async move {
            let world = &me.role.world;
            let granted = me.current().stream.acquire(&owned, &holder, ttl).await?;
            for (key, granted) in owned.iter().zip(&granted) {
                if !granted {
                    world.count(Count::LockBusy);
                } else if let Err(violation) = world.locks.granted(key, &holder, ttl) {
                    world.accuse(violation);
                }
            }
            Ok(granted)
        };
        self.role.send("lock", || format!("{} by {}", listed(keys), token.0), effect).await
    }

    async fn extend(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let (me, owned, token) = (self.clone(), keys.to_vec(), token.clone());
        let about = || format!("{} by {}", listed(keys), token.0);
        let holder = token.clone();
        let effect = async move {
            let (world, token) = (&me.role.world, &holder);
            let ours: Vec<bool> = owned.iter().map(|key| world.locks.is_held_by(key, token)).collect();
            let extended = me.current().stream.extend(&owned, token, ttl).await?;
            for ((key, ours), extended) in owned.iter().zip(ours).zip(&extended) {
                match (ours, extended) {
                    (true, true) => {
                        let _ = world.locks.granted(key, token, ttl);
                    }
                    (false, false) => world.count(Count::LockLost),
                    (true, false) => me.accuse(key, format!("{} holds it and could not extend it", token.0)),
                    (false, true) => me.accuse(key, format!("{} extended it without holding it", token.0)),
                }
            }
            Ok(extended)
        };
        self.role.send("extend", about, effect).await
    }

    async fn release(&self, keys: &[ExecutionKey], token: &LockToken) -> Result<()> {
        let (me, owned, releaser) = (self.clone(), keys.to_vec(), token.clone());
        let effect = async move {
            let (world, token) = (&me.role.world, &releaser);
            let holders: Vec<Option<Holding>> = owned.iter().map(|key| world.locks.holder(key)).collect();
            let stream = me.current().stream;
            stream.release(&owned, token).await?;
            for (key, holder) in owned.iter().zip(holders) {
                match holder {
                    Some(holder) if holder.token == *token => world.locks.released(key),
                    // Another process's lock: it must be unchanged. Extending it to its own end changes
                    // nothing.
                    Some(Holding { token: other, until }) => {
                        world.count(Count::LockLost);
                        let rest = until.saturating_duration_since(tokio::time::Instant::now());
                        if stream.extend(std::slice::from_ref(key), &other, rest).await? != [true] {
                            me.accuse(key, format!("{} released what {} holds", token.0, other.0));
                        }
                    }
                    None => {}
                }
            }
            Ok(())
        };
        self.role.send("unlock", || format!("{} by {}", listed(keys), token.0), effect).await
    }
}

impl Scheduled {
    fn accuse(&self, key: &ExecutionKey, what: String) {
        self.role.world.accuse(Violation::new(Check::Lock, key.execution.as_str(), what));
    }
}

#[async_trait::async_trait]
impl Announcer for Scheduled {
    async fn announce(&self, news: &[News]) -> Result<()> {
        let effect = async { self.current().stream.announce(news).await };
        self.role.call("announce", || news.len().to_string(), effect).await
    }

    async fn listen(&self) -> Result<broadcast::Receiver<News>> {
        let effect = async { self.current().stream.listen().await };
        self.role.call("listen", String::new, effect).await
    }
}
