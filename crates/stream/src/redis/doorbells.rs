//! Publishes, acknowledges and refreshes doorbells in pipelines over shared connections.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use millstream_core::id::{TenantId, WorkerId};
use millstream_core::lane::Lane;
use redis::Pipeline;

use super::keys::{GROUP, Keys};
use super::link::Link;
use super::reader::RedisReader;
use super::script::Call;
use super::stream::RedisStream;
use super::{fault, groups, reclaim, windows};
use crate::Result;
use crate::doorbell::{Bell, BellReader, Delivery, Doorbells, EntryId};

/// Maximum number of commands in a pipeline, and of ids in a command: bounds the memory of one round trip on
/// both sides. Rarely reached.
const CHUNK: usize = 4_096;

/// Resets the idle time of entries that still belong to the consumer. The script compares the owner because
/// XCLAIM would take an entry back from the consumer that reclaimed it. JUSTID leaves the delivery counter
/// unchanged.
pub(super) const REFRESH: &str = "\
local group, consumer = ARGV[1], ARGV[2]
local kept = 0
for i = 3, #ARGV do
  local id = ARGV[i]
  if #redis.call('XPENDING', KEYS[1], group, id, id, 1, consumer) > 0 then
    redis.call('XCLAIM', KEYS[1], group, consumer, 0, id, 'JUSTID')
    kept = kept + 1
  end
end
return kept";

#[async_trait::async_trait]
impl Doorbells for RedisStream {
    async fn publish(&self, bells: &[Bell]) -> Result<()> {
        // Coalescing: a duplicate doorbell within one call is dropped.
        let mut seen = HashSet::with_capacity(bells.len());
        let distinct: Vec<&Bell> = bells.iter().filter(|bell| seen.insert(*bell)).collect();
        for chunk in distinct.chunks(CHUNK) {
            self.windows.publish(&self.link, &self.keys, self.lane_capacity, chunk).await?;
        }
        Ok(())
    }

    async fn reader(&self, consumer: &WorkerId, lanes: &[Lane]) -> Result<Box<dyn BellReader>> {
        groups::ensure(&self.link, &self.keys).await?;
        let mut open = Pipeline::new();
        windows::open(&mut open, &self.keys);
        fault::all(self.link.run(&mut open).await?)?;
        let (link, keys, capacity) = (self.link.clone(), self.keys.clone(), self.lane_capacity);
        Ok(Box::new(RedisReader::join(link, keys, capacity, consumer.clone(), lanes).await?))
    }

    async fn ack(&self, entries: &[EntryId]) -> Result<()> {
        settle(&self.link, &self.keys, entries).await
    }

    async fn reclaim(&self, consumer: &WorkerId, min_idle: Duration, max: usize) -> Result<Vec<Delivery>> {
        reclaim::reclaim(&self.link, &self.keys, &self.cursors, consumer, min_idle, max).await
    }

    async fn refresh(&self, consumer: &WorkerId, entries: &[EntryId]) -> Result<()> {
        let mut calls = Vec::new();
        for (lane, ids) in by_lane(entries) {
            for ids in ids.chunks(CHUNK) {
                let mut arguments = vec![GROUP.to_owned(), consumer.to_string()];
                arguments.extend(ids.iter().map(|id| (*id).to_owned()));
                calls.push(Call { keys: vec![self.keys.bells(lane)], arguments });
            }
        }
        for answer in self.refresh.run(&self.link, &calls).await? {
            match answer {
                Ok(_) => {}
                Err(error) if fault::is_amnesia(&error) => {
                    return Err(groups::heal(&self.link, &self.keys, &error).await.1);
                }
                Err(error) => return Err(fault::unavailable(error)),
            }
        }
        Ok(())
    }

    async fn replenish(&self, tenants: &[TenantId]) -> Result<()> {
        self.windows.replenish(&self.link, &self.keys, self.lane_capacity, tenants).await
    }
}

/// XDEL before XACK: if the connection breaks between the two, the entry is pending and deleted, and the next
/// reclaim drops it. In the opposite order it would stay in the stream forever without being delivered.
pub(super) async fn settle(link: &Link, keys: &Keys, entries: &[EntryId]) -> Result<()> {
    let mut pipeline = Pipeline::new();
    for (lane, ids) in by_lane(entries) {
        let key = keys.bells(lane);
        for ids in ids.chunks(CHUNK) {
            pipeline.cmd("XDEL").arg(&key).arg(ids);
            pipeline.cmd("XACK").arg(&key).arg(GROUP).arg(ids);
        }
    }
    fault::all(link.run(&mut pipeline).await?)?;
    Ok(())
}

fn by_lane(entries: &[EntryId]) -> BTreeMap<Lane, Vec<&str>> {
    let mut lanes: BTreeMap<Lane, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        lanes.entry(entry.lane).or_default().push(&entry.id);
    }
    lanes
}
