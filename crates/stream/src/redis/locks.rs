//! Locks: `SET NX PX` to acquire, scripts that compare the token to extend and to release.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_model::id::ExecutionKey;
use millstream_model::lane::Lane;
use millstream_model::mutation::{self, Mutation};
use redis::{Pipeline, Value};

use super::script::{RedisScript, RedisScriptCall};
use super::stream::RedisStream;
use super::{error_kind, reply};
use crate::StreamResult;
use crate::locks::{ExecutionLocks, LockToken};

/// Maximum number of keys per script call, so that no call blocks the server for long.
const CHUNK: usize = 1_000;

const EXTEND: &str = "\
local held = {}
for i, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    redis.call('PEXPIRE', key, ARGV[2])
    held[i] = 1
  else
    held[i] = 0
  end
end
return held";

const RELEASE: &str = "\
local released = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    released = released + redis.call('DEL', key)
  end
end
return released";

#[derive(Debug)]
pub(super) struct RedisLockScripts {
    extend: RedisScript,
    release: RedisScript,
}

/// Fault injection: the release without the comparison.
const RELEASE_ANY: &str = "return redis.call('DEL', unpack(KEYS))";

impl Default for RedisLockScripts {
    fn default() -> Self {
        if mutation::is_active(Mutation::LockWithoutToken) {
            return Self { extend: RedisScript::new(EXTEND), release: RedisScript::new(RELEASE_ANY) };
        }
        Self { extend: RedisScript::new(EXTEND), release: RedisScript::new(RELEASE) }
    }
}

#[async_trait::async_trait]
impl ExecutionLocks for RedisStream {
    async fn acquire_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in keys {
            // GET recognises an own lock whose first answer was lost, as opposed to a lock of another holder.
            pipeline.cmd("SET").arg(self.keys.lock_key(key)).arg(&token.0).arg("NX").arg("GET").arg("PX");
            pipeline.arg(ttl_millis(ttl));
        }
        let holders = error_kind::all_answers(self.link.run_pipeline(&mut pipeline).await?)?;
        let mut held: Vec<bool> = holders.iter().map(|holder| *holder == Value::Nil).collect();
        let ours: Vec<usize> = holders
            .iter()
            .enumerate()
            .filter(|(_, holder)| reply::as_text(holder).as_deref() == Some(&token.0))
            .map(|(index, _)| index)
            .collect();
        if !ours.is_empty() {
            let again: Vec<ExecutionKey> = ours.iter().map(|&index| keys[index].clone()).collect();
            for (index, extended) in ours.into_iter().zip(self.extend_locks(&again, token, ttl).await?) {
                held[index] = extended;
            }
        }
        Ok(held)
    }

    async fn extend_locks(
        &self,
        keys: &[ExecutionKey],
        token: &LockToken,
        ttl: Duration,
    ) -> StreamResult<Vec<bool>> {
        let batches = batch_keys(keys);
        let arguments = [token.0.clone(), ttl_millis(ttl).to_string()];
        let calls: Vec<RedisScriptCall> =
            batches.iter().map(|batch| self.call_lock_script(keys, batch, &arguments)).collect();
        let answers = error_kind::all_answers(self.locks.extend.run_calls(&self.link, &calls).await?)?;
        let mut held = vec![false; keys.len()];
        for (batch, answer) in batches.iter().zip(answers) {
            for (&index, flag) in batch.iter().zip(reply::as_list(answer).unwrap_or_default()) {
                held[index] = flag == Value::Int(1);
            }
        }
        Ok(held)
    }

    async fn release_locks(&self, keys: &[ExecutionKey], token: &LockToken) -> StreamResult<()> {
        let arguments = [token.0.clone()];
        let calls: Vec<RedisScriptCall> =
            batch_keys(keys).iter().map(|batch| self.call_lock_script(keys, batch, &arguments)).collect();
        error_kind::all_answers(self.locks.release.run_calls(&self.link, &calls).await?)?;
        Ok(())
    }
}

impl RedisStream {
    fn call_lock_script(
        &self,
        keys: &[ExecutionKey],
        batch: &[usize],
        arguments: &[String],
    ) -> RedisScriptCall {
        let keys = batch.iter().map(|&index| self.keys.lock_key(&keys[index])).collect();
        RedisScriptCall { keys, arguments: arguments.to_vec() }
    }
}

/// Indices of keys for one script call: of one lane, at most `CHUNK`.
fn batch_keys(keys: &[ExecutionKey]) -> Vec<Vec<usize>> {
    let mut lanes: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        lanes.entry(Lane::of_tenant(&key.tenant)).or_default().push(index);
    }
    lanes
        .into_values()
        .flat_map(|lane| lane.chunks(CHUNK).map(<[usize]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// PX rejects zero.
fn ttl_millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, u64::MAX >> 12)
}
