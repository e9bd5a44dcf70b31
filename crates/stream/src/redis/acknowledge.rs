//! Acknowledges entries and removes them from the stream, as a prefix where possible.
//!
//! Entries are read from the front, so those that are acknowledged are nearly always the front of what is left: one
//! XTRIM removes them, whole nodes at a time. XDEL searches for every id from the start of its node, which costs the
//! server more than the delivery of the entry.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use millstream_model::lane::Lane;

use super::connection::RedisLink;
use super::error_kind;
use super::keys::{GROUP, RedisKeys};
use super::script::{RedisScript, RedisScriptCall};
use crate::StreamResult;
use crate::doorbell::StreamEntryId;

/// Maximum number of ids per call: bounds the time for which the server serves no other client, and what Lua unpacks.
const CHUNK: usize = 2_048;

/// ARGV: group, then ids. A group delivers in the order of ids: if all ids were pending in it, whatever comes before its
/// oldest pending entry was delivered and acknowledged. If one was not (a repeated acknowledgement, or a group that was
/// created again and has not delivered the entry), the ids alone are deleted.
const ACKNOWLEDGE: &str = "\
local stream, group, ids = KEYS[1], ARGV[1], {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
local acknowledged = redis.call('XACK', stream, group, unpack(ids))
local pending = redis.pcall('XPENDING', stream, group)
if pending.err or acknowledged < #ids then
  redis.call('XDEL', stream, unpack(ids))
  return
end
local function parts(id)
  local time, number = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(time), tonumber(number)
end
local function is_before(one, other)
  local time, number = parts(one)
  local other_time, other_number = parts(other)
  return time < other_time or (time == other_time and number < other_number)
end
local bound = pending[2]
if not bound then
  local last = ids[1]
  for _, id in ipairs(ids) do if is_before(last, id) then last = id end end
  local time, number = parts(last)
  bound = string.format('%.0f-%.0f', time, number + 1)
end
local later = {}
for _, id in ipairs(ids) do if not is_before(id, bound) then later[#later + 1] = id end end
if #later < #ids then redis.call('XTRIM', stream, 'MINID', bound) end
if #later > 0 then redis.call('XDEL', stream, unpack(later)) end";

static SCRIPT: LazyLock<RedisScript> = LazyLock::new(|| RedisScript::new(ACKNOWLEDGE));

pub(super) async fn acknowledge_entries(
    link: &RedisLink,
    keys: &RedisKeys,
    entries: &[StreamEntryId],
) -> StreamResult<()> {
    let mut calls = Vec::new();
    for (lane, ids) in group_by_lane(entries) {
        for ids in ids.chunks(CHUNK) {
            let mut arguments = Vec::with_capacity(ids.len() + 1);
            arguments.push(GROUP.to_owned());
            arguments.extend(ids.iter().map(|id| (*id).to_owned()));
            calls.push(RedisScriptCall { keys: vec![keys.bells_key(lane)], arguments });
        }
    }
    error_kind::all_answers(SCRIPT.run_calls(link, &calls).await?)?;
    Ok(())
}

pub(super) fn group_by_lane(entries: &[StreamEntryId]) -> BTreeMap<Lane, Vec<&str>> {
    let mut lanes: BTreeMap<Lane, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        lanes.entry(entry.lane).or_default().push(&entry.id);
    }
    lanes
}
