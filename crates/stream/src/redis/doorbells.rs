//! Publishes, acknowledges and refreshes doorbells in pipelines over shared connections.

use std::collections::HashSet;
use std::time::Duration;

use millstream_model::id::{TenantId, WorkerId};
use millstream_model::lane::Lane;
use redis::Pipeline;

use super::acknowledge::{acknowledge_entries, group_by_lane};
use super::keys::GROUP;
use super::reader::RedisReader;
use super::script::RedisScriptCall;
use super::stream::RedisStream;
use super::{error_kind, groups, reclaim, windows};
use crate::StreamResult;
use crate::doorbell::{Doorbell, DoorbellDelivery, DoorbellReader, Doorbells, StreamEntryId};

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
    async fn publish_bells(&self, bells: &[Doorbell]) -> StreamResult<()> {
        // Coalescing: a duplicate doorbell within one call is dropped.
        let mut seen = HashSet::with_capacity(bells.len());
        let distinct: Vec<&Doorbell> = bells.iter().filter(|bell| seen.insert(*bell)).collect();
        for chunk in distinct.chunks(CHUNK) {
            self.windows.publish_bells(&self.link, &self.keys, self.lane_capacity, chunk).await?;
        }
        Ok(())
    }

    async fn open_reader(
        &self,
        consumer: &WorkerId,
        lanes: &[Lane],
    ) -> StreamResult<Box<dyn DoorbellReader>> {
        groups::ensure_groups(&self.link, &self.keys).await?;
        let mut open = Pipeline::new();
        windows::mark_windowed(&mut open, &self.keys);
        error_kind::all_answers(self.link.run_pipeline(&mut open).await?)?;
        let (link, keys, capacity) = (self.link.clone(), self.keys.clone(), self.lane_capacity);
        Ok(Box::new(RedisReader::join_group(link, keys, capacity, consumer.clone(), lanes).await?))
    }

    async fn ack_entries(&self, entries: &[StreamEntryId]) -> StreamResult<()> {
        acknowledge_entries(&self.link, &self.keys, entries).await
    }

    async fn reclaim_idle(
        &self,
        consumer: &WorkerId,
        min_idle: Duration,
        max: usize,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        reclaim::reclaim_entries(&self.link, &self.keys, &self.cursors, consumer, min_idle, max).await
    }

    async fn refresh_entries(&self, consumer: &WorkerId, entries: &[StreamEntryId]) -> StreamResult<()> {
        let mut calls = Vec::new();
        for (lane, ids) in group_by_lane(entries) {
            for ids in ids.chunks(CHUNK) {
                let mut arguments = vec![GROUP.to_owned(), consumer.to_string()];
                arguments.extend(ids.iter().map(|id| (*id).to_owned()));
                calls.push(RedisScriptCall { keys: vec![self.keys.bells_key(lane)], arguments });
            }
        }
        for answer in self.refresh.run_calls(&self.link, &calls).await? {
            match answer {
                Ok(_) => {}
                Err(error) if error_kind::is_group_missing(&error) => {
                    return Err(groups::recreate_groups(&self.link, &self.keys, &error).await.1);
                }
                Err(error) => return Err(error_kind::to_unavailable(error)),
            }
        }
        Ok(())
    }

    async fn replenish_tenants(&self, tenants: &[TenantId]) -> StreamResult<()> {
        self.windows.replenish_tenants(&self.link, &self.keys, self.lane_capacity, tenants).await
    }
}
