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

use millstream_core::id::WorkerId;
use millstream_core::lane::{LANES, Lane};
use redis::{Pipeline, RedisResult, Value};

use super::doorbells::settle;
use super::entry::Entries;
use super::keys::{GROUP, Keys};
use super::link::Link;
use super::{fault, groups, reply};
use crate::doorbell::{Delivery, Redelivered};
use crate::{Result, StreamError};

const START: &str = "0-0";
/// Maximum number of entries per command: the server scans ten times as many while it serves no other client.
const STEP: usize = 256;

/// Where the next round continues.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    state: Mutex<Rounds>,
}

#[derive(Debug, Clone)]
struct Rounds {
    first: usize,
    /// By lane number.
    cursors: Vec<String>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { first: 0, cursors: vec![START.to_owned(); usize::from(LANES)] }
    }
}

impl Cursors {
    /// The lanes in the order of this call, with their cursors.
    fn begin(&self) -> Vec<(Lane, String)> {
        let mut rounds = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut lanes: Vec<_> = Lane::all().zip(rounds.cursors.iter().cloned()).collect();
        lanes.rotate_left(rounds.first);
        rounds.first = (rounds.first + 1) % lanes.len();
        lanes
    }

    fn keep(&self, lane: Lane, cursor: String) {
        let mut rounds = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        rounds.cursors[usize::from(lane.number())] = cursor;
    }
}

pub(super) async fn reclaim(
    link: &Link,
    keys: &Keys,
    cursors: &Cursors,
    consumer: &WorkerId,
    min_idle: Duration,
    max: usize,
) -> Result<Vec<Delivery>> {
    let mut entries = Entries::default();
    let waiting = lanes_with_pending(link, keys).await?;
    for (lane, cursor) in cursors.begin() {
        if entries.deliveries.len() >= max {
            break;
        }
        if !waiting.contains(&lane) {
            continue;
        }
        let claim = Claim { link, keys, lane, consumer, min_idle };
        match claim.round(cursor, max, &mut entries).await {
            Ok(next) => cursors.keep(lane, next),
            // Entries already reclaimed must reach the caller; the error will occur again.
            Err(error) if !entries.deliveries.is_empty() => {
                tracing::debug!(%error, "reclaim cut short");
                break;
            }
            Err(error) => return Err(error),
        }
    }
    if !entries.discarded.is_empty()
        && let Err(error) = settle(link, keys, &entries.discarded).await
    {
        tracing::debug!(%error, "unreadable entries stay pending");
    }
    Ok(entries.deliveries)
}

/// Most lanes have nothing pending most of the time; one cheap round trip finds the others.
async fn lanes_with_pending(link: &Link, keys: &Keys) -> Result<Vec<Lane>> {
    let mut summaries = Pipeline::new();
    for lane in Lane::all() {
        summaries.cmd("XPENDING").arg(keys.bells(lane)).arg(GROUP);
    }
    let mut waiting = Vec::new();
    for (lane, answer) in Lane::all().zip(link.run(&mut summaries).await?) {
        match answer {
            Ok(summary) => {
                let total = reply::list(summary).and_then(|parts| parts.into_iter().next());
                if total.is_some_and(|total| total != Value::Int(0)) {
                    waiting.push(lane);
                }
            }
            Err(error) if fault::is_amnesia(&error) => return Err(groups::heal(link, keys, &error).await.1),
            Err(error) => return Err(fault::unavailable(error)),
        }
    }
    Ok(waiting)
}

struct Claim<'a> {
    link: &'a Link,
    keys: &'a Keys,
    lane: Lane,
    consumer: &'a WorkerId,
    min_idle: Duration,
}

impl Claim<'_> {
    /// Scans from `cursor` to the end of the list, or until `max` entries are found. Returns the next cursor;
    /// entries before `cursor` were scanned by the previous call and have their turn in the next one.
    async fn round(&self, cursor: String, max: usize, entries: &mut Entries) -> Result<String> {
        let mut next = cursor;
        loop {
            let room = max - entries.deliveries.len();
            next = self.step(&next, room.min(STEP), entries).await?;
            if next == START || entries.deliveries.len() >= max {
                return Ok(next);
            }
        }
    }

    async fn step(&self, cursor: &str, count: usize, entries: &mut Entries) -> Result<String> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("XAUTOCLAIM").arg(self.keys.bells(self.lane)).arg(GROUP).arg(self.consumer.as_str());
        pipeline.arg(u64::try_from(self.min_idle.as_millis()).unwrap_or(u64::MAX));
        pipeline.arg(cursor).arg("COUNT").arg(count);
        let answer: RedisResult<Value> = self.link.run(&mut pipeline).await?.pop().unwrap_or(Ok(Value::Nil));
        let value = match answer {
            Ok(value) => value,
            Err(error) if fault::is_amnesia(&error) => {
                return Err(groups::heal(self.link, self.keys, &error).await.1);
            }
            Err(error) => return Err(fault::unavailable(error)),
        };
        // [next cursor, entries, ids deleted meanwhile]: the server has already removed the latter from the
        // pending list.
        let mut parts = reply::list(value).unwrap_or_default().into_iter();
        let next = parts.next().and_then(|next| reply::text(&next));
        let Some(next) = next else {
            return Err(StreamError::Unavailable("unexpected answer to XAUTOCLAIM".to_owned()));
        };
        for item in parts.next().and_then(reply::list).unwrap_or_default() {
            entries.sort(self.lane, item, Redelivered::Again);
        }
        Ok(next)
    }
}
