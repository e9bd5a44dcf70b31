//! Outbound entries: `XADD` to a foreign stream, in a transaction.
//!
//! The transaction keeps the order: a full server may refuse one entry and accept the next.

use redis::{Pipeline, Value};

use super::error_kind;
use super::stream::RedisStream;
use crate::StreamResult;
use crate::outbound::{OutboundEntry, OutboundStream};

#[async_trait::async_trait]
impl OutboundStream for RedisStream {
    async fn append_entries(&self, stream: &str, entries: &[OutboundEntry], keep: usize) -> StreamResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(entries.len() + 2);
        // Spelled out, so that the answers show which command was refused and why.
        pipeline.cmd("MULTI");
        for OutboundEntry(fields) in entries {
            let command = pipeline.cmd("XADD").arg(stream).arg("MAXLEN").arg("~").arg(keep).arg("*");
            for (field, value) in fields {
                command.arg(*field).arg(value);
            }
        }
        pipeline.cmd("EXEC");
        let answers = error_kind::all_answers(self.link.run_pipeline(&mut pipeline).await?)?;
        match answers.last() {
            Some(Value::Array(appended)) if appended.len() == entries.len() => {
                let refused = appended.iter().find(|answer| !matches!(answer, Value::BulkString(_)));
                refused.map_or(Ok(()), |refused| Err(error_kind::unexpected_answer("XADD", refused)))
            }
            Some(other) => Err(error_kind::unexpected_answer("EXEC", other)),
            None => Err(error_kind::unexpected_answer("EXEC", &Value::Nil)),
        }
    }
}
