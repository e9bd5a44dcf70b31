//! Locks: `SET NX PX` to acquire, scripts that compare the token to extend and to release.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::id::ExecutionKey;
use millstream_core::lane::Lane;
use millstream_core::planted::{self, Bug};
use redis::{Pipeline, Value};

use super::script::{Call, Script};
use super::stream::RedisStream;
use super::{fault, reply};
use crate::Result;
use crate::locks::{LockToken, Locks};

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
pub(super) struct LockScripts {
    extend: Script,
    release: Script,
}

/// Fault injection: the release without the comparison.
const RELEASE_ANY: &str = "return redis.call('DEL', unpack(KEYS))";

impl Default for LockScripts {
    fn default() -> Self {
        if planted::is(Bug::LockWithoutToken) {
            return Self { extend: Script::new(EXTEND), release: Script::new(RELEASE_ANY) };
        }
        Self { extend: Script::new(EXTEND), release: Script::new(RELEASE) }
    }
}

#[async_trait::async_trait]
impl Locks for RedisStream {
    async fn acquire(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in keys {
            // GET recognises an own lock whose first answer was lost, as opposed to a lock of another holder.
            pipeline.cmd("SET").arg(self.keys.lock(key)).arg(&token.0).arg("NX").arg("GET").arg("PX");
            pipeline.arg(millis(ttl));
        }
        let holders = fault::all(self.link.run(&mut pipeline).await?)?;
        let mut held: Vec<bool> = holders.iter().map(|holder| *holder == Value::Nil).collect();
        let ours: Vec<usize> = holders
            .iter()
            .enumerate()
            .filter(|(_, holder)| reply::text(holder).as_deref() == Some(&token.0))
            .map(|(index, _)| index)
            .collect();
        if !ours.is_empty() {
            let again: Vec<ExecutionKey> = ours.iter().map(|&index| keys[index].clone()).collect();
            for (index, extended) in ours.into_iter().zip(self.extend(&again, token, ttl).await?) {
                held[index] = extended;
            }
        }
        Ok(held)
    }

    async fn extend(&self, keys: &[ExecutionKey], token: &LockToken, ttl: Duration) -> Result<Vec<bool>> {
        let batches = batches(keys);
        let arguments = [token.0.clone(), millis(ttl).to_string()];
        let calls: Vec<Call> = batches.iter().map(|batch| self.call(keys, batch, &arguments)).collect();
        let answers = fault::all(self.locks.extend.run(&self.link, &calls).await?)?;
        let mut held = vec![false; keys.len()];
        for (batch, answer) in batches.iter().zip(answers) {
            for (&index, flag) in batch.iter().zip(reply::list(answer).unwrap_or_default()) {
                held[index] = flag == Value::Int(1);
            }
        }
        Ok(held)
    }

    async fn release(&self, keys: &[ExecutionKey], token: &LockToken) -> Result<()> {
        let arguments = [token.0.clone()];
        let calls: Vec<Call> = batches(keys).iter().map(|batch| self.call(keys, batch, &arguments)).collect();
        fault::all(self.locks.release.run(&self.link, &calls).await?)?;
        Ok(())
    }
}

impl RedisStream {
    fn call(&self, keys: &[ExecutionKey], batch: &[usize], arguments: &[String]) -> Call {
        let keys = batch.iter().map(|&index| self.keys.lock(&keys[index])).collect();
        Call { keys, arguments: arguments.to_vec() }
    }
}

/// Indices of keys for one script call: of one lane, at most `CHUNK`.
fn batches(keys: &[ExecutionKey]) -> Vec<Vec<usize>> {
    let mut lanes: BTreeMap<Lane, Vec<usize>> = BTreeMap::new();
    for (index, key) in keys.iter().enumerate() {
        lanes.entry(Lane::of(&key.tenant)).or_default().push(index);
    }
    lanes
        .into_values()
        .flat_map(|lane| lane.chunks(CHUNK).map(<[usize]>::to_vec).collect::<Vec<_>>())
        .collect()
}

/// PX rejects zero.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).clamp(1, u64::MAX >> 12)
}
