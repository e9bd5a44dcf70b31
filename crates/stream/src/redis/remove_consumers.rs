//! Removes consumers of ended processes.
//!
//! `XGROUP DELCONSUMER` destroys the consumer's pending entries irrevocably. A script therefore checks once
//! more, and removes a consumer only if nothing is pending. Candidates have nothing pending in *any* lane: a
//! consumer is one worker in all lanes.
//!
//! Redis 7.0 counts a consumer as active only when it receives an entry, so a live but idle consumer may be
//! removed too. It is created again by its next read that returns an entry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_model::id::WorkerId;
use millstream_model::lane::Lane;
use redis::Pipeline;

use super::connection::RedisLink;
use super::keys::{GROUP, RedisKeys};
use super::script::{RedisScript, RedisScriptCall};
use super::{error_kind, reply};
use crate::StreamResult;

/// ARGV: group, minimum idle time, the consumer known to be gone (or empty), candidates. Returns the removed
/// names. Parses pairs, because the reply of XINFO inside a script is a flat array.
const RETIRE: &str = "\
local group, min_idle, gone = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local candidates, removed = {}, {}
for i = 4, #ARGV do candidates[ARGV[i]] = true end
local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], group)
if consumers.err then return removed end
for _, record in ipairs(consumers) do
  local consumer = {}
  for i = 1, #record, 2 do consumer[record[i]] = record[i + 1] end
  local name = consumer['name']
  if candidates[name] and consumer['pending'] == 0 and (name == gone or consumer['idle'] >= min_idle) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, name)
    removed[#removed + 1] = name
  end
end
return removed";

#[derive(Debug)]
pub(super) struct RedisRetireScript(RedisScript);

impl Default for RedisRetireScript {
    fn default() -> Self {
        Self(RedisScript::new(RETIRE))
    }
}

/// The state of a consumer over all lanes.
#[derive(Debug, Default)]
struct ConsumerSummary {
    pending: u64,
    least_idle_ms: Option<u64>,
    lanes: Vec<Lane>,
}

pub(super) async fn remove_idle_consumers(
    script: &RedisRetireScript,
    link: &RedisLink,
    keys: &RedisKeys,
    gone: Option<&WorkerId>,
    min_idle: Duration,
) -> StreamResult<usize> {
    let min_idle_ms = u64::try_from(min_idle.as_millis()).unwrap_or(u64::MAX);
    let gone = gone.map_or("", WorkerId::as_str);
    let mut by_lane: BTreeMap<Lane, Vec<String>> = BTreeMap::new();
    for (name, seen) in consumers_of_lanes(link, keys).await? {
        let idle = seen.least_idle_ms.is_some_and(|idle| idle >= min_idle_ms);
        if seen.pending == 0 && (idle || name == gone) {
            for lane in seen.lanes {
                by_lane.entry(lane).or_default().push(name.clone());
            }
        }
    }
    let calls: Vec<RedisScriptCall> = by_lane
        .into_iter()
        .map(|(lane, names)| {
            let mut arguments = vec![GROUP.to_owned(), min_idle_ms.to_string(), gone.to_owned()];
            arguments.extend(names);
            RedisScriptCall { keys: vec![keys.bells_key(lane)], arguments }
        })
        .collect();
    let mut removed = BTreeSet::new();
    for names in error_kind::all_answers(script.0.run_calls(link, &calls).await?)? {
        removed.extend(reply::as_list(names).unwrap_or_default().iter().filter_map(reply::as_text));
    }
    Ok(removed.len())
}

async fn consumers_of_lanes(
    link: &RedisLink,
    keys: &RedisKeys,
) -> StreamResult<BTreeMap<String, ConsumerSummary>> {
    let mut pipeline = Pipeline::new();
    for lane in Lane::all() {
        pipeline.cmd("XINFO").arg("CONSUMERS").arg(keys.bells_key(lane)).arg(GROUP);
    }
    let mut consumers: BTreeMap<String, ConsumerSummary> = BTreeMap::new();
    for (lane, answer) in Lane::all().zip(link.run_pipeline(&mut pipeline).await?) {
        let records = match answer {
            Ok(records) => reply::as_list(records).unwrap_or_default(),
            Err(error) if error_kind::is_group_missing(&error) || error_kind::is_no_such_key(&error) => {
                continue;
            }
            Err(error) => return Err(error_kind::to_unavailable(error)),
        };
        for record in records {
            let record = reply::as_pairs(record).unwrap_or_default();
            let Some(name) = reply::record_field(&record, "name").and_then(|name| reply::as_text(&name))
            else {
                continue;
            };
            let seen = consumers.entry(name).or_default();
            // An unreadable count is treated as pending and fresh, so that nothing is removed.
            seen.pending = seen.pending.saturating_add(reply::record_count(&record, "pending").unwrap_or(1));
            let idle = reply::record_count(&record, "idle").unwrap_or(0);
            seen.least_idle_ms = Some(seen.least_idle_ms.map_or(idle, |least| least.min(idle)));
            seen.lanes.push(lane);
        }
    }
    Ok(consumers)
}
