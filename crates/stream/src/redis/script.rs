//! Lua scripts by hash, several calls in one round trip; the text is sent again after a cache miss.
//!
//! Every script here is idempotent: after `SCRIPT FLUSH` or a failover, calls that failed with NOSCRIPT are
//! repeated with the text.

use redis::{Pipeline, RedisResult, Value};

use super::connection::RedisLink;
use super::error_kind;
use crate::StreamResult;

#[derive(Debug)]
pub(super) struct RedisScript {
    text: &'static str,
    hash: String,
}

/// One invocation. All keys belong to one lane.
#[derive(Debug, Default)]
pub(super) struct RedisScriptCall {
    pub(super) keys: Vec<String>,
    pub(super) arguments: Vec<String>,
}

impl RedisScript {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// One answer per call, in order.
    pub(super) async fn run_calls(
        &self,
        link: &RedisLink,
        calls: &[RedisScriptCall],
    ) -> StreamResult<Vec<RedisResult<Value>>> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            add_invocation(&mut pipeline, "EVALSHA", &self.hash, call);
        }
        let mut answers = link.run_pipeline(&mut pipeline).await?;
        let forgotten: Vec<usize> = answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.as_ref().is_err_and(error_kind::is_no_script))
            .map(|(index, _)| index)
            .collect();
        if !forgotten.is_empty() {
            let mut again = Pipeline::with_capacity(forgotten.len());
            for &index in &forgotten {
                add_invocation(&mut again, "EVAL", self.text, &calls[index]);
            }
            for (index, answer) in forgotten.into_iter().zip(link.run_pipeline(&mut again).await?) {
                answers[index] = answer;
            }
        }
        Ok(answers)
    }
}

fn add_invocation(pipeline: &mut Pipeline, command: &str, script: &str, call: &RedisScriptCall) {
    pipeline.cmd(command).arg(script).arg(call.keys.len()).arg(&call.keys).arg(&call.arguments);
}
