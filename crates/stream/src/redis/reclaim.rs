//! Reclaims entries from consumers that stopped processing.
//!
//! XAUTOCLAIM scans ten times COUNT pending entries per call and returns a cursor; with a long pending list,
//! one call may find only fresh ones. The cursor is followed to the end of every lane's list, and kept for
//! the next call where `max` cut it short. The first lane rotates (round robin), so that one busy lane does
//! not starve the others.
//!
//! Lost answers leave entries pending with this consumer, unseen and fresh: they become idle after `min_idle`
//! and are reclaimed here.

use std::sync::Mutex;
use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::lane::{LANES, Lane};
use redis::{Pipeline, RedisResult, Value};

use super::acknowledge::acknowledge_entries;
use super::connection::RedisLink;
use super::keys::{GROUP, RedisKeys};
use super::stream_entry::RedisEntries;
use super::{error_kind, groups, reply};
use crate::doorbell::{DoorbellDelivery, RedeliveryMark};
use crate::{StreamError, StreamResult};

const START: &str = "0-0";
/// Maximum number of entries per command: the server scans ten times as many while it serves no other client.
const STEP: usize = 256;

/// Where the next round continues.
#[derive(Debug, Default)]
pub(super) struct ReclaimCursors {
    state: Mutex<ReclaimRounds>,
}

#[derive(Debug, Clone)]
struct ReclaimRounds {
    first: usize,
    /// By lane number.
    cursors: Vec<String>,
}

impl Default for ReclaimRounds {
    fn default() -> Self {
        Self { first: 0, cursors: vec![START.to_owned(); usize::from(LANES)] }
    }
}

impl ReclaimCursors {
    /// The lanes in the order of this call, with their cursors.
    fn lanes_in_turn(&self) -> Vec<(Lane, String)> {
        let mut rounds = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut lanes: Vec<_> = Lane::all().zip(rounds.cursors.iter().cloned()).collect();
        lanes.rotate_left(rounds.first);
        rounds.first = (rounds.first + 1) % lanes.len();
        lanes
    }

    fn keep_cursor(&self, lane: Lane, cursor: String) {
        let mut rounds = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rounds.cursors[usize::from(lane.number())] = cursor;
    }
}

pub(super) async fn reclaim_entries(
    link: &RedisLink,
    keys: &RedisKeys,
    cursors: &ReclaimCursors,
    consumer: &WorkerId,
    min_idle: Duration,
    max: usize,
) -> StreamResult<Vec<DoorbellDelivery>> {
    let mut entries = RedisEntries::default();
    let waiting = lanes_with_pending(link, keys).await?;
    for (lane, cursor) in cursors.lanes_in_turn() {
        if entries.deliveries.len() >= max {
            break;
        }
        if !waiting.contains(&lane) {
            continue;
        }
        let claim = ReclaimCall { link, keys, lane, consumer, min_idle };
        match claim.scan_lane(cursor, max, &mut entries).await {
            Ok(next) => cursors.keep_cursor(lane, next),
            // Entries already reclaimed must reach the caller; the error will occur again.
            Err(error) if !entries.deliveries.is_empty() => {
                tracing::debug!(%error, "reclaim cut short");
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if !entries.discarded.is_empty()
        && let Err(error) = acknowledge_entries(link, keys, &entries.discarded).await
    {
        tracing::debug!(%error, "unreadable entries stay pending");
    }
    Ok(entries.deliveries)
}

/// Most lanes have nothing pending most of the time; one cheap round trip finds the others.
async fn lanes_with_pending(link: &RedisLink, keys: &RedisKeys) -> StreamResult<Vec<Lane>> {
    let mut summaries = Pipeline::new();
    for lane in Lane::all() {
        summaries.cmd("XPENDING").arg(keys.bells_key(lane)).arg(GROUP);
    }
    let mut waiting = Vec::new();
    for (lane, answer) in Lane::all().zip(link.run_pipeline(&mut summaries).await?) {
        match answer {
            Ok(summary) => {
                let total = reply::as_list(summary).and_then(|parts| parts.into_iter().next());
                if total.is_some_and(|total| total != Value::Int(0)) {
                    waiting.push(lane);
                }
            }
            Err(error) if error_kind::is_group_missing(&error) => {
                return Err(groups::recreate_groups(link, keys, &error).await.1);
            }
            Err(error) => return Err(error_kind::to_unavailable(error)),
        }
    }
    Ok(waiting)
}

struct ReclaimCall<'a> {
    link: &'a RedisLink,
    keys: &'a RedisKeys,
    lane: Lane,
    consumer: &'a WorkerId,
    min_idle: Duration,
}

impl ReclaimCall<'_> {
    /// Scans from `cursor` to the end of the list, or until `max` entries are found. Returns the next cursor;
    /// entries before `cursor` were scanned by the previous call and have their turn in the next one.
    async fn scan_lane(
        &self,
        cursor: String,
        max: usize,
        entries: &mut RedisEntries,
    ) -> StreamResult<String> {
        let mut next = cursor;
        loop {
            let room = max - entries.deliveries.len();
            next = self.scan_step(&next, room.min(STEP), entries).await?;
            if next == START || entries.deliveries.len() >= max {
                return Ok(next);
            }
        }
    }

    async fn scan_step(
        &self,
        cursor: &str,
        count: usize,
        entries: &mut RedisEntries,
    ) -> StreamResult<String> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("XAUTOCLAIM").arg(self.keys.bells_key(self.lane)).arg(GROUP).arg(self.consumer.as_str());
        pipeline.arg(u64::try_from(self.min_idle.as_millis()).unwrap_or(u64::MAX));
        pipeline.arg(cursor).arg("COUNT").arg(count);
        let answer: RedisResult<Value> =
            self.link.run_pipeline(&mut pipeline).await?.pop().unwrap_or(Ok(Value::Nil));
        let value = match answer {
            Ok(value) => value,
            Err(error) if error_kind::is_group_missing(&error) => {
                return Err(groups::recreate_groups(self.link, self.keys, &error).await.1);
            }
            Err(error) => return Err(error_kind::to_unavailable(error)),
        };
        // [next cursor, entries, ids deleted meanwhile]: the server has already removed the latter from the
        // pending list.
        let mut parts = reply::as_list(value).unwrap_or_default().into_iter();
        let next = parts.next().and_then(|next| reply::as_text(&next));
        let Some(next) = next else {
            return Err(StreamError::Unavailable("unexpected answer to XAUTOCLAIM".to_owned()));
        };
        for item in parts.next().and_then(reply::as_list).unwrap_or_default() {
            entries.parse_entry(self.lane, item, RedeliveryMark::Again);
        }
        Ok(next)
    }
}
