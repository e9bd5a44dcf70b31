//! Lua scripts by hash, several calls in one round trip; the text is sent again after a cache miss.
//!
//! Every script here is idempotent: after `SCRIPT FLUSH` or a failover, calls that failed with NOSCRIPT are
//! repeated with the text.

use redis::{Pipeline, RedisResult, Value};

use super::fault;
use super::link::Link;
use crate::Result;

#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

/// One invocation. All keys belong to one lane.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<String>,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// One answer per call, in order.
    pub(super) async fn run(&self, link: &Link, calls: &[Call]) -> Result<Vec<RedisResult<Value>>> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            invoke(&mut pipeline, "EVALSHA", &self.hash, call);
        }
        let mut answers = link.run(&mut pipeline).await?;
        let forgotten: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.as_ref().is_err_and(fault::is_no_script))
            .map(|(index, _)| index)
            .collect();
        if !forgotten.is_empty() {
            let mut again = Pipeline::with_capacity(forgotten.len());
            for &index in &forgotten {
                invoke(&mut again, "EVAL", self.text, &calls[index]);
            }
            for (index, answer) in forgotten.into_iter().zip(link.run(&mut again).await?) {
                answers[index] = answer;
            }
        }
        Ok(answers)
    }
}

fn invoke(pipeline: &mut Pipeline, command: &str, script: &str, call: &Call) {
    pipeline.cmd(command).arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
}
