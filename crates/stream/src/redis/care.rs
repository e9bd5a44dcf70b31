//! Stream maintenance for duties and operators.

use std::time::Duration;

use millstream_core::id::WorkerId;
use millstream_core::lane::Lane;
use redis::{Pipeline, Value};

use super::keys::GROUP;
use super::stream::RedisStream;
use super::{check, fault, groups, reply, retire};
use crate::Result;
use crate::doorbell::{LaneStats, StreamCare};

#[async_trait::async_trait]
impl StreamCare for RedisStream {
    async fn generation(&self) -> Result<String> {
        groups::generation(&self.link, &self.keys).await
    }

    async fn recount(&self) -> Result<()> {
        self.windows.recount(&self.link, &self.keys, self.lane_capacity).await
    }

    /// A missing stream or group counts as zero here; the sweeping worker creates it again.
    async fn stats(&self) -> Result<Vec<LaneStats>> {
        let mut pipeline = Pipeline::new();
        for lane in Lane::all() {
            let key = self.keys.bells(lane);
            pipeline.cmd("XLEN").arg(&key);
            pipeline.cmd("XINFO").arg("GROUPS").arg(&key);
        }
        let mut answers = self.link.run(&mut pipeline).await?.into_iter();
        let mut overflow = self.windows.measure(&self.link, &self.keys).await?.into_iter();
        let mut rows = Vec::new();
        for lane in Lane::all() {
            let length = match answers.next().unwrap_or(Ok(Value::Int(0))) {
                Ok(length) => redis::from_redis_value(length).unwrap_or(0),
                Err(error) => return Err(fault::unavailable(error)),
            };
            let groups = match answers.next().unwrap_or(Ok(Value::Nil)) {
                Ok(groups) => groups,
                Err(error) if fault::is_no_such_key(&error) => Value::Nil,
                Err(error) => return Err(fault::unavailable(error)),
            };
            rows.push(row(lane, length, groups, overflow.next().unwrap_or(0)));
        }
        Ok(rows)
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> Result<usize> {
        retire::retire(&self.retire, &self.link, &self.keys, gone, min_idle).await
    }

    async fn check(&self) -> Result<Vec<String>> {
        check::check(&self.link).await
    }
}

fn row(lane: Lane, length: u64, groups: Value, overflow: u64) -> LaneStats {
    let group = reply::list(groups)
        .unwrap_or_default()
        .into_iter()
        .filter_map(reply::pairs)
        .find(|record| {
            reply::field(record, "name").and_then(|name| reply::text(&name)).as_deref() == Some(GROUP)
        })
        .unwrap_or_default();
    let pending = reply::count(&group, "pending").unwrap_or(0);
    // The server reports no lag after entries ahead of the group were deleted. Acknowledged entries are
    // removed from the stream, so all entries that are not pending are waiting.
    let lag = reply::count(&group, "lag").unwrap_or_else(|| length.saturating_sub(pending));
    LaneStats { lane, length: length + overflow, pending, lag: lag + overflow, overflow }
}
