//! The blocking reader: one connection, one consumer, several lanes.
//!
//! The server may hand entries to a request whose answer never arrives: the connection broke, or the
//! future was dropped. They are then pending with this consumer and no code has seen them. So:
//!
//! - `>` returns the ids of a lane in ascending order, and the reader remembers the last one it returned.
//!   Entries pending with this consumer *after* that id were never seen.
//! - Before each request the reader marks that entries may be unseen, and clears the mark only after the
//!   answer has been parsed. While the mark is set, reading starts with the pending entries after the last
//!   id; only when there are none, `>` is requested again.
//! - Unseen entries count as first deliveries: no code has tried them, so they are no sign of a crash.
//!   (One that this consumer reclaimed meanwhile may come twice, which at-least-once allows.)
//!
//! The request of a read also reports the previous deliveries, so that the windows of tenants move on
//! (`windows.rs`) without an extra round trip.
//!
//! If another process destroyed and created the group between two reads, ids may start over and the
//! remembered id is too high; such an entry, if also unseen, waits for reclaim.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_model::id::{TenantId, WorkerId};
use millstream_model::lane::Lane;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value};
use tokio::time::{sleep, timeout};

use super::acknowledge::acknowledge_entries;
use super::connection::RedisLink;
use super::keys::{GROUP, RedisKeys};
use super::script::RedisScriptCall;
use super::stream_entry::RedisEntries;
use super::{error_kind, groups, reply, windows};
use crate::doorbell::{Doorbell, DoorbellDelivery, DoorbellReader, FullTenants, RedeliveryMark};
use crate::{StreamError, StreamResult};

const START: &str = "0-0";
/// Grace period beyond BLOCK before a connection without an answer counts as dead. A shorter limit is avoided
/// on purpose; without any limit a vanished server would block a reader forever.
const OVERDUE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct RedisReader {
    link: Arc<RedisLink>,
    keys: RedisKeys,
    capacity: usize,
    consumer: WorkerId,
    lanes: Vec<RedisReadPosition>,
    /// Deliveries per tenant that have not been reported to the server.
    delivered: BTreeMap<TenantId, usize>,
    /// Whether the last read found nothing.
    idle: bool,
    full: FullTenants,
    /// Absent after an error, and during a request: dropping the future drops it too.
    connection: Option<MultiplexedConnection>,
    unseen: UnseenEntries,
    pause: Duration,
}

struct RedisReadPosition {
    lane: Lane,
    key: String,
    last: String,
}

/// Whether unseen entries may be pending with this consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnseenEntries {
    Nothing,
    Possibly,
}

/// The entries to request.
#[derive(Debug, Clone, Copy)]
enum RedisReadRequest {
    /// Pending with this consumer, after the last id returned.
    Pending,
    New {
        block: Duration,
    },
}

impl RedisReader {
    pub(super) async fn join_group(
        link: Arc<RedisLink>,
        keys: RedisKeys,
        capacity: usize,
        consumer: WorkerId,
        lanes: &[Lane],
    ) -> StreamResult<Self> {
        let connection = link.dedicated_connection().await?;
        let lanes = lanes
            .iter()
            .map(|&lane| RedisReadPosition { lane, key: keys.bells_key(lane), last: START.to_owned() })
            .collect();
        Ok(Self {
            link,
            keys,
            capacity,
            consumer,
            lanes,
            delivered: BTreeMap::new(),
            idle: true,
            full: FullTenants::default(),
            connection: Some(connection),
            unseen: UnseenEntries::Nothing,
            pause: Duration::ZERO,
        })
    }

    /// One request and its parsed answer.
    async fn request_entries(
        &mut self,
        what: RedisReadRequest,
        per_lane: usize,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.link.dedicated_connection().await?,
        };
        let (request, patience) = self.build_request(what, per_lane);
        self.unseen = UnseenEntries::Possibly;
        let answer: RedisResult<Value> = match timeout(patience, request.query_async(&mut connection)).await {
            Ok(answers) => last_answer(answers),
            Err(_) => return Err(StreamError::Unavailable("the server does not answer".to_owned())),
        };
        match answer {
            Ok(value) => {
                self.connection = Some(connection);
                self.pause = Duration::ZERO;
                let (deliveries, found) = self.parse_answer(value).await?;
                self.note_delivered(&deliveries);
                self.unseen = match what {
                    RedisReadRequest::Pending if found > 0 => UnseenEntries::Possibly,
                    RedisReadRequest::Pending | RedisReadRequest::New { .. } => UnseenEntries::Nothing,
                };
                Ok(deliveries)
            }
            Err(error) if error_kind::is_group_missing(&error) => {
                self.connection = Some(connection);
                Err(self.reset_positions(&error).await)
            }
            Err(error) => Err(error_kind::to_unavailable(error)),
        }
    }

    /// The read comes last: its answer includes entries that the preceding commands moved up.
    fn build_request(&mut self, what: RedisReadRequest, per_lane: usize) -> (Pipeline, Duration) {
        let mut request = Pipeline::new();
        request.ignore_errors();
        self.report_delivered(&mut request);
        let command = request.cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(self.consumer.as_str()).arg("COUNT").arg(per_lane);
        let patience = match what {
            RedisReadRequest::New { block } if !block.is_zero() => {
                // BLOCK 0 would block forever.
                let millis = u64::try_from(block.as_millis()).unwrap_or(u64::MAX).max(1);
                command.arg("BLOCK").arg(millis);
                block.saturating_add(OVERDUE)
            }
            RedisReadRequest::New { .. } | RedisReadRequest::Pending => OVERDUE,
        };
        command.arg("STREAMS");
        for position in &self.lanes {
            command.arg(&position.key);
        }
        for position in &self.lanes {
            match what {
                RedisReadRequest::Pending => command.arg(&position.last),
                RedisReadRequest::New { .. } => command.arg(">"),
            };
        }
        (request, patience)
    }

    /// Reports deliveries, once: the recount corrects reports that get lost.
    fn report_delivered(&mut self, request: &mut Pipeline) {
        let mut calls: BTreeMap<Lane, RedisScriptCall> = BTreeMap::new();
        for (tenant, count) in std::mem::take(&mut self.delivered) {
            let lane = Lane::of_tenant(&tenant);
            let call =
                calls.entry(lane).or_insert_with(|| windows::lane_call(&self.keys, lane, self.capacity));
            let more = if self.full.contains(&tenant) { "0" } else { "1" };
            call.arguments.extend([tenant.to_string(), count.to_string(), more.to_owned()]);
        }
        for call in calls.values() {
            windows::add_script_to(request, windows::DELIVERED, call);
        }
        if self.idle {
            let full = self.full.list();
            for position in &self.lanes {
                let mut call = windows::lane_call(&self.keys, position.lane, self.capacity);
                call.arguments.extend(full.iter().map(TenantId::to_string));
                windows::add_script_to(request, windows::LOOK, &call);
            }
        }
    }

    fn note_delivered(&mut self, deliveries: &[DoorbellDelivery]) {
        self.idle = deliveries.is_empty();
        for delivery in deliveries {
            match &delivery.bell {
                Doorbell::Mailbox(execution) => {
                    *self.delivered.entry(execution.tenant.clone()).or_default() += 1;
                }
                // Not counted.
                Doorbell::Actions(_) => {}
            }
        }
    }

    /// Deliveries, and the total number of entries.
    async fn parse_answer(&mut self, value: Value) -> StreamResult<(Vec<DoorbellDelivery>, usize)> {
        if value == Value::Nil {
            return Ok((Vec::new(), 0));
        }
        let Some(streams) = reply::as_nested_pairs(value) else {
            return Err(StreamError::Unavailable("unexpected answer to XREADGROUP".to_owned()));
        };
        let mut entries = RedisEntries::default();
        let mut found = 0;
        let mut lasts = Vec::with_capacity(streams.len());
        for (key, items) in streams {
            let key = reply::as_text(&key).unwrap_or_default();
            let Some(index) = self.lanes.iter().position(|position| position.key == key) else { continue };
            for item in reply::as_list(items).unwrap_or_default() {
                found += 1;
                if let Some(id) = entries.parse_entry(self.lanes[index].lane, item, RedeliveryMark::First) {
                    lasts.push((index, id));
                }
            }
        }
        if !entries.discarded.is_empty()
            && let Err(error) = acknowledge_entries(&self.link, &self.keys, &entries.discarded).await
        {
            tracing::debug!(%error, "unreadable entries stay pending until reclaimed");
        }
        // No await between here and the return to the caller: entries marked as seen are really returned.
        for (index, id) in lasts {
            self.lanes[index].last = id;
        }
        Ok((entries.deliveries, found))
    }

    async fn reset_positions(&mut self, cause: &RedisError) -> StreamError {
        let (made, error) = groups::recreate_groups(&self.link, &self.keys, cause).await;
        for position in &mut self.lanes {
            if made.contains(&position.lane) {
                START.clone_into(&mut position.last);
            }
        }
        error
    }
}

/// The answer to the read itself. The answers to the other commands are advisory.
fn last_answer(answers: RedisResult<Vec<RedisResult<Value>>>) -> RedisResult<Value> {
    answers?.pop().unwrap_or(Ok(Value::Nil))
}

#[async_trait::async_trait]
impl DoorbellReader for RedisReader {
    async fn read_deliveries(
        &mut self,
        per_lane: usize,
        block: Duration,
    ) -> StreamResult<Vec<DoorbellDelivery>> {
        if per_lane == 0 || self.lanes.is_empty() {
            sleep(block).await;
            return Ok(Vec::new());
        }
        // Backoff after a failure, within the time the caller grants, so that a caller that simply reads
        // again does not spin.
        sleep(self.pause.min(block)).await;
        let outcome = match self.unseen {
            UnseenEntries::Possibly => {
                match self.request_entries(RedisReadRequest::Pending, per_lane).await {
                    // Discarded entries count as found: there may be more.
                    Ok(none) if none.is_empty() && self.unseen == UnseenEntries::Nothing => {
                        self.request_entries(RedisReadRequest::New { block }, per_lane).await
                    }
                    other => other,
                }
            }
            UnseenEntries::Nothing => self.request_entries(RedisReadRequest::New { block }, per_lane).await,
        };
        if let Err(StreamError::Unavailable(_)) = &outcome {
            self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
        outcome
    }

    fn skip_full_tenants(&mut self, full: &FullTenants) {
        self.full = full.clone();
    }
}
