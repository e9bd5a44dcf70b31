//! Outbound entries: `XADD` to a foreign stream, in a transaction.
//!
//! The transaction keeps the order: a full server may refuse one entry and accept the next.

use redis::{Pipeline, Value};

use super::fault;
use super::stream::RedisStream;
use crate::Result;
use crate::outbound::{Entry, Outbound};

#[async_trait::async_trait]
impl Outbound for RedisStream {
    async fn append(&self, stream: &str, entries: &[Entry], keep: usize) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(entries.len() + 2);
        // Spelled out, so that the answers show which command was refused and why.
        pipeline.cmd("MULTI");
        for Entry(fields) in entries {
            let command = pipeline.cmd("XADD").arg(stream).arg("MAXLEN").arg("~").arg(keep).arg("*");
            for (field, value) in fields {
                command.arg(*field).arg(value);
            }
        }
        pipeline.cmd("EXEC");
        let answers = fault::all(self.link.run(&mut pipeline).await?)?;
        match answers.last() {
            Some(Value::Array(appended)) if appended.len() == entries.len() => {
                let refused = appended.iter().find(|answer| !matches!(answer, Value::BulkString(_)));
                refused.map_or(Ok(()), |refused| Err(fault::unexpected("XADD", refused)))
            }
            Some(other) => Err(fault::unexpected("EXEC", other)),
            None => Err(fault::unexpected("EXEC", &Value::Nil)),
        }
    }
}
