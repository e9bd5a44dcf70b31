//! Stream maintenance for duties and operators.

use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::lane::Lane;
use redis::{Pipeline, Value};

use super::keys::GROUP;
use super::stream::RedisStream;
use super::{error_kind, groups, remove_consumers, reply, server_check};
use crate::StreamResult;
use crate::doorbell::{LaneStats, StreamMaintenance};

#[async_trait::async_trait]
impl StreamMaintenance for RedisStream {
    async fn ensure_generation(&self) -> StreamResult<String> {
        groups::read_generation(&self.link, &self.keys).await
    }

    async fn recount_tenants(&self) -> StreamResult<()> {
        self.windows.recount_lanes(&self.link, &self.keys, self.lane_capacity).await
    }

    /// A missing stream or group counts as zero here; the sweeping worker creates it again.
    async fn lane_stats(&self) -> StreamResult<Vec<LaneStats>> {
        let mut pipeline = Pipeline::new();
        for lane in Lane::all() {
            let key = self.keys.bells_key(lane);
            pipeline.cmd("XLEN").arg(&key);
            pipeline.cmd("XINFO").arg("GROUPS").arg(&key);
        }
        let mut answers = self.link.run_pipeline(&mut pipeline).await?.into_iter();
        let mut overflow = self.windows.measure_overflow(&self.link, &self.keys).await?.into_iter();
        let mut rows = Vec::new();
        for lane in Lane::all() {
            let length = match answers.next().unwrap_or(Ok(Value::Int(0))) {
                Ok(length) => redis::from_redis_value(length).unwrap_or(0),
                Err(error) => return Err(error_kind::to_unavailable(error)),
            };
            let groups = match answers.next().unwrap_or(Ok(Value::Nil)) {
                Ok(groups) => groups,
                Err(error) if error_kind::is_no_such_key(&error) => Value::Nil,
                Err(error) => return Err(error_kind::to_unavailable(error)),
            };
            rows.push(lane_row(lane, length, groups, overflow.next().unwrap_or(0)));
        }
        Ok(rows)
    }

    async fn remove_consumers(&self, gone: Option<&WorkerId>, min_idle: Duration) -> StreamResult<usize> {
        remove_consumers::remove_idle_consumers(&self.retire, &self.link, &self.keys, gone, min_idle).await
    }

    async fn check_server(&self) -> StreamResult<Vec<String>> {
        server_check::check_redis(&self.link).await
    }
}

fn lane_row(lane: Lane, length: u64, groups: Value, overflow: u64) -> LaneStats {
    let group = reply::as_list(groups)
        .unwrap_or_default()
        .into_iter()
        .filter_map(reply::as_pairs)
        .find(|record| {
            reply::record_field(record, "name").and_then(|name| reply::as_text(&name)).as_deref()
                == Some(GROUP)
        })
        .unwrap_or_default();
    let pending = reply::record_count(&group, "pending").unwrap_or(0);
    // The server reports no lag after entries ahead of the group were deleted. Acknowledged entries are
    // removed from the stream, so all entries that are not pending are waiting.
    let lag = reply::record_count(&group, "lag").unwrap_or_else(|| length.saturating_sub(pending));
    LaneStats { lane, length: length + overflow, pending, lag: lag + overflow, overflow }
}
