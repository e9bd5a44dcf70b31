//! Windows and overflow: per-tenant backpressure, so that the backlog of one tenant does not delay the others
//! in a lane.
//!
//! ```text
//! {prefix}:{lN}:deep           hash: tenant → its unread mailbox doorbells in the lane's stream, about
//! {prefix}:{lN}:over:TENANT    list: the doorbells beyond the window, oldest first
//! {prefix}:{lN}:overs          set of the tenants that have such a list
//! {prefix}:{lN}:windowed       there while workers move overflow up; without it no publisher makes any
//! ```
//!
//! - [`PUBLISH`] is the one place that chooses between stream and list. A tenant with overflow adds to its overflow, so
//!   that its doorbells stay in order. Doorbells for actions are never overflow: one wakes a worker for every tenant.
//! - A reader subtracts what it read from the count and moves as many up ([`DELIVERED`]), in the request of
//!   its next read, unless it holds enough doorbells of the tenant; then it requests them later
//!   ([`REPLENISH`]). An idle reader looks for overflow that was left behind ([`LOOK`]).
//! - List entries are never delivered from the list, so groups, reclaim and acknowledgements are unaffected.
//!   Moving one up is atomic; an empty list does not exist.
//! - The count is approximate. Lost answers, crashes, doorbells acknowledged unread and readers of older
//!   builds make it deviate; [`RECOUNT`] corrects it. It is never below zero, and is deleted with the lane's
//!   group.
//! - Lost lists are found by the sweep of overdue events, like every lost doorbell.

use std::collections::BTreeMap;

use millstream_model::id::TenantId;
use millstream_model::lane::Lane;
use redis::Pipeline;

use super::connection::RedisLink;
use super::error_kind;
use super::keys::{GROUP, RedisKeys};
use super::script::{RedisScript, RedisScriptCall};
use super::stream_entry;
use crate::StreamResult;
use crate::doorbell::{Doorbell, TENANT_WINDOW};

/// Maximum number of doorbells per invocation: the server is blocked meanwhile.
const PUBLISHED_AT_ONCE: usize = 512;

/// How long publishers create overflow after the last worker was active. Long, so that a fleet without
/// workers for a while returns to fair lanes; one day, so that a rollback to a build without windows works.
const WINDOWED_SECONDS: u32 = 86_400;

/// `top_up(tenant, deep)` moves overflow into the free part of the window. All scripts have the same KEYS and
/// the same first ARGV: stream, counts, overs, windowed; window, capacity, prefix of list keys.
macro_rules! script {
    ($text:literal) => {
        concat!(
            "
local window, capacity, lists = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local function add(tenant, bell)
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', capacity, '*',
    'b', string.sub(bell, 1, 1), 't', tenant, 'e', string.sub(bell, 2))
end
local function deep_of(tenant) return tonumber(redis.call('HGET', KEYS[2], tenant) or '0') end
local function top_up(tenant, deep)
  local room = window - deep
  if room <= 0 then return end
  local bells = redis.call('LPOP', lists .. tenant, room)
  if bells then
    for _, bell in ipairs(bells) do add(tenant, bell) end
    redis.call('HINCRBY', KEYS[2], tenant, #bells)
  end
  if not bells or #bells < room then redis.call('SREM', KEYS[3], tenant) end
end
",
            $text
        )
    };
}

/// Further ARGV: tenant, then doorbells, each as its kind and execution in one word.
const PUBLISH: &str = script!(
    "
local tenant, first = ARGV[4], 5
local windowed = redis.call('EXISTS', KEYS[4]) == 1
local deep = windowed and deep_of(tenant) or 0
local over = lists .. tenant
local room = window - deep
if not windowed then room = #ARGV elseif redis.call('EXISTS', over) == 1 then room = 0 end
local added, left = 0, {}
for i = first, #ARGV do
  local bell = ARGV[i]
  if string.sub(bell, 1, 1) == 'a' then
    add(tenant, bell)
  elseif added < room then
    add(tenant, bell)
    added = added + 1
  else
    left[#left + 1] = bell
  end
end
if windowed and added > 0 then redis.call('HINCRBY', KEYS[2], tenant, added) end
if #left > 0 then
  for i = 1, #left, 128 do redis.call('RPUSH', over, unpack(left, i, math.min(i + 127, #left))) end
  redis.call('LTRIM', over, -tonumber(capacity), -1)
  redis.call('SADD', KEYS[3], tenant)
  if deep == 0 and added == 0 then top_up(tenant, 0) end
end
return #left"
);

/// Further ARGV: per tenant its name, the number of its delivered doorbells, and 1 to move up as many.
pub(super) const DELIVERED: &str = script!(
    "
for i = 4, #ARGV, 3 do
  local tenant = ARGV[i]
  local deep = redis.call('HINCRBY', KEYS[2], tenant, -tonumber(ARGV[i + 1]))
  if deep <= 0 then
    redis.call('HDEL', KEYS[2], tenant)
    deep = 0
  end
  if ARGV[i + 2] == '1' then top_up(tenant, deep) end
end"
);

/// Further ARGV: tenants.
const REPLENISH: &str = script!("for i = 4, #ARGV do top_up(ARGV[i], deep_of(ARGV[i])) end");

/// Further ARGV: tenants to skip.
pub(super) const LOOK: &str = script!(
    "
if redis.call('EXISTS', KEYS[3]) == 0 then return end
local full = {}
for i = 4, #ARGV do full[ARGV[i]] = true end
for _, tenant in ipairs(redis.call('SRANDMEMBER', KEYS[3], 32)) do
  if not full[tenant] then top_up(tenant, deep_of(tenant)) end
end"
);

/// Further ARGV: group, number of entries to scan, lifetime of `windowed`. Counts the entries not yet
/// delivered to the group.
const RECOUNT: &str = script!(
    "
redis.call('SET', KEYS[4], '1', 'EX', ARGV[6])
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then return end
local groups, last = redis.pcall('XINFO', 'GROUPS', KEYS[1]), nil
if groups.err then
  redis.call('DEL', KEYS[2])
  return
end
for _, record in ipairs(groups) do
  local group = {}
  for i = 1, #record, 2 do group[record[i]] = record[i + 1] end
  if group['name'] == ARGV[4] then last = group['last-delivered-id'] end
end
if not last then return end
local counts = {}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', ARGV[5])) do
  local fields = entry[2]
  if fields[1] == 'b' and fields[2] == 'm' and fields[3] == 't' then
    counts[fields[4]] = (counts[fields[4]] or 0) + 1
  end
end
redis.call('DEL', KEYS[2])
for tenant, count in pairs(counts) do redis.call('HSET', KEYS[2], tenant, count) end
for _, tenant in ipairs(redis.call('SRANDMEMBER', KEYS[3], 256)) do top_up(tenant, counts[tenant] or 0) end"
);

/// The number of doorbells in the lists.
const MEASURE: &str = script!(
    "
local length = 0
for _, tenant in ipairs(redis.call('SMEMBERS', KEYS[3])) do length = length + redis.call('LLEN', lists .. tenant) end
return length"
);

/// Maximum number of unread entries that a recount scans; beyond it the readers' counts apply.
const RECOUNTED_ENTRIES: usize = 4_096;

#[derive(Debug)]
pub(super) struct RedisWindowScripts {
    publish: RedisScript,
    replenish: RedisScript,
    recount: RedisScript,
    measure: RedisScript,
}

impl Default for RedisWindowScripts {
    fn default() -> Self {
        Self {
            publish: RedisScript::new(PUBLISH),
            replenish: RedisScript::new(REPLENISH),
            recount: RedisScript::new(RECOUNT),
            measure: RedisScript::new(MEASURE),
        }
    }
}

/// The keys and arguments shared by all scripts, for a lane.
pub(super) fn lane_call(keys: &RedisKeys, lane: Lane, capacity: usize) -> RedisScriptCall {
    RedisScriptCall {
        keys: vec![
            keys.bells_key(lane),
            keys.unread_counts_key(lane),
            keys.overflow_tenants_key(lane),
            keys.windowed_key(lane),
        ],
        arguments: vec![TENANT_WINDOW.to_string(), capacity.max(1).to_string(), keys.overflow_prefix(lane)],
    }
}

impl RedisWindowScripts {
    /// Publishes in one round trip, tenant by tenant.
    pub(super) async fn publish_bells(
        &self,
        link: &RedisLink,
        keys: &RedisKeys,
        capacity: usize,
        bells: &[&Doorbell],
    ) -> StreamResult<()> {
        let mut by_tenant: BTreeMap<&TenantId, Vec<String>> = BTreeMap::new();
        for bell in bells {
            by_tenant.entry(&bell.execution().tenant).or_default().push(stream_entry::bell_word(bell));
        }
        let mut calls = Vec::with_capacity(by_tenant.len());
        for (tenant, words) in by_tenant {
            for words in words.chunks(PUBLISHED_AT_ONCE) {
                let mut call = lane_call(keys, Lane::of_tenant(tenant), capacity);
                call.arguments.push(tenant.to_string());
                call.arguments.extend_from_slice(words);
                calls.push(call);
            }
        }
        error_kind::all_answers(self.publish.run_calls(link, &calls).await?)?;
        Ok(())
    }

    pub(super) async fn replenish_tenants(
        &self,
        link: &RedisLink,
        keys: &RedisKeys,
        capacity: usize,
        tenants: &[TenantId],
    ) -> StreamResult<()> {
        let mut by_lane: BTreeMap<Lane, RedisScriptCall> = BTreeMap::new();
        for tenant in tenants {
            let lane = Lane::of_tenant(tenant);
            let call = by_lane.entry(lane).or_insert_with(|| lane_call(keys, lane, capacity));
            call.arguments.push(tenant.to_string());
        }
        let calls: Vec<RedisScriptCall> = by_lane.into_values().collect();
        error_kind::all_answers(self.replenish.run_calls(link, &calls).await?)?;
        Ok(())
    }

    /// Lane by lane, so that each blocks the server only briefly.
    pub(super) async fn recount_lanes(
        &self,
        link: &RedisLink,
        keys: &RedisKeys,
        capacity: usize,
    ) -> StreamResult<()> {
        for lane in Lane::all() {
            let mut call = lane_call(keys, lane, capacity);
            call.arguments.extend([
                GROUP.to_owned(),
                RECOUNTED_ENTRIES.to_string(),
                WINDOWED_SECONDS.to_string(),
            ]);
            error_kind::all_answers(self.recount.run_calls(link, &[call]).await?)?;
        }
        Ok(())
    }

    /// The number of overflow doorbells, by lane.
    pub(super) async fn measure_overflow(
        &self,
        link: &RedisLink,
        keys: &RedisKeys,
    ) -> StreamResult<Vec<u64>> {
        let calls: Vec<RedisScriptCall> = Lane::all().map(|lane| lane_call(keys, lane, 1)).collect();
        let answers = error_kind::all_answers(self.measure.run_calls(link, &calls).await?)?;
        Ok(answers.iter().map(|length| redis::from_redis_value_ref(length).unwrap_or(0)).collect())
    }
}

/// Announces that workers with support for windows are running.
pub(super) fn mark_windowed(pipeline: &mut Pipeline, keys: &RedisKeys) {
    for lane in Lane::all() {
        pipeline.cmd("SET").arg(keys.windowed_key(lane)).arg("1").arg("EX").arg(WINDOWED_SECONDS);
    }
}

/// Adds an invocation to the request of a reader. It sends the script text: the reader cannot retry on
/// NOSCRIPT, and the text is short compared with the entries read.
pub(super) fn add_script_to(pipeline: &mut Pipeline, script: &str, call: &RedisScriptCall) {
    pipeline.cmd("EVAL").arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
}
