//! Deciding: loads for workers, and the entry point of commits.
//!
//! A load is one read transaction for the whole batch: state, log and mailbox of an execution come from one
//! snapshot. An execution that cannot be decoded is corrupt alone.

use std::sync::Arc;

use millstream_model::id::{EventId, ExecutionKey, Seq, WorkerId};
use millstream_model::time::Timestamp;
use millstream_store::execution_store::{
    CachedVersion, CommitVerdict, ExecutionCommit, ExecutionStore, LeaseGrant, LoadRequest, LoadVerdict,
    LoadedExecution, MailboxLimits,
};
use millstream_store::{StoreError, StoreResult};
use millstream_workflow::log::{ExecutionState, Transition};
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use crate::commit::commit_batch;
use crate::connect::SqliteStore;
use crate::decode::SqliteFields;
use crate::errors::{SqliteResult, corrupt_row};
use crate::mailbox::MailboxReader;
use crate::rendered_commit::RenderedCommit;

#[async_trait::async_trait]
impl ExecutionStore for SqliteStore {
    async fn load_executions(
        &self,
        wanted: &[LoadRequest],
        limits: MailboxLimits,
    ) -> StoreResult<Vec<LoadVerdict>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = wanted.to_vec();
        self.read_transaction(move |connection| {
            let mut loading = ExecutionLoader::prepare(connection, limits)?;
            wanted.iter().map(|wanted| loading.load_one(wanted)).collect()
        })
        .await
    }

    async fn commit_executions(
        &self,
        worker: &WorkerId,
        batch: &[ExecutionCommit],
        lease: &LeaseGrant,
        now: Timestamp,
    ) -> StoreResult<Vec<CommitVerdict>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let (worker, batch) = (worker.clone(), batch.iter().map(RenderedCommit::render).collect::<Vec<_>>());
        let lease = lease.clone();
        self.write_transaction(move |connection| commit_batch(connection, &worker, &batch, &lease, now)).await
    }

    async fn count_attempts(&self, events: &[(ExecutionKey, EventId)]) -> StoreResult<Vec<i32>> {
        const COUNT_ATTEMPT: &str = "
            UPDATE events SET attempts = attempts + 1
            WHERE tenant = ?1 AND event_id = ?2 AND EXISTS (
                SELECT 1 FROM mailbox AS m
                WHERE m.tenant = events.tenant AND m.execution_id = events.execution_id
                  AND m.accept_no = events.accept_no)
            RETURNING attempts";
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let events = events.to_vec();
        self.write_transaction(move |connection| {
            let mut count = connection.prepare_cached(COUNT_ATTEMPT)?;
            let mut counted = |(key, event): &(ExecutionKey, EventId)| {
                let counted = count.query_row((key.tenant.as_str(), event.0.as_bytes()), |row| row.get(0));
                Ok(counted.optional()?.unwrap_or(0))
            };
            events.iter().map(&mut counted).collect()
        })
        .await
    }
}

struct ExecutionLoader<'c> {
    connection: &'c Connection,
    read_execution: CachedStatement<'c>,
    mailboxes: MailboxReader<'c>,
}

impl<'c> ExecutionLoader<'c> {
    fn prepare(connection: &'c Connection, limits: MailboxLimits) -> SqliteResult<Self> {
        const READ_EXECUTION: &str = "
            SELECT position, seq, snapshot_seq, paused_reason, definition, version, snapshot
            FROM executions WHERE tenant = ?1 AND execution_id = ?2";
        Ok(Self {
            connection,
            read_execution: connection.prepare_cached(READ_EXECUTION)?,
            mailboxes: MailboxReader::prepare(connection, limits)?,
        })
    }

    fn load_one(&mut self, wanted: &LoadRequest) -> SqliteResult<LoadVerdict> {
        match self.find_execution(wanted).map_err(StoreError::from) {
            Ok(Some(found)) => Ok(LoadVerdict::Found(Box::new(found))),
            Ok(None) => Ok(LoadVerdict::Missing),
            Err(StoreError::Corrupt(reason)) => Ok(LoadVerdict::Corrupt { reason }),
            Err(error @ (StoreError::Unavailable(_) | StoreError::Contention(_))) => Err(error.into()),
        }
    }

    fn find_execution(&mut self, wanted: &LoadRequest) -> SqliteResult<Option<LoadedExecution>> {
        let key = &wanted.execution;
        let mut rows = self.read_execution.query((key.tenant.as_str(), key.execution.as_str()))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let row = SqliteFields(row);
        let (position, seq, snapshot_seq) = (row.accept_no(0)?, row.seq(1)?, row.seq(2)?);
        let pause = row.pause(3)?;
        let definition = row.definition()?;
        let state = if wanted.known == Some(CachedVersion { position, seq }) {
            None
        } else {
            let snapshot = row.snapshot(6, snapshot_seq)?;
            let log =
                if snapshot_seq == seq { Vec::new() } else { read_log(self.connection, key, snapshot_seq)? };
            check_log(&snapshot, &log, seq)?;
            Some((snapshot, log))
        };
        let graph = if state.is_some() { read_blob(self.connection, key)? } else { None };
        let (mailbox, more) = self.mailboxes.read_mailbox(key, pause)?;
        let execution = key.clone();
        Ok(Some(LoadedExecution {
            execution,
            position,
            definition,
            seq,
            pause,
            state,
            snapshot_seq,
            mailbox,
            more,
            graph,
        }))
    }
}

/// Of a graph: the blob at the snapshot.
fn read_blob(connection: &Connection, key: &ExecutionKey) -> SqliteResult<Option<Arc<[u8]>>> {
    const READ_BLOB: &str = "SELECT blob FROM graphs WHERE tenant = ?1 AND execution_id = ?2";
    let mut read = connection.prepare_cached(READ_BLOB)?;
    let mut rows = read.query((key.tenant.as_str(), key.execution.as_str()))?;
    rows.next()?.map(|row| SqliteFields(row).blob(0)).transpose()
}

/// The transitions after a snapshot.
pub(crate) fn read_log(
    connection: &Connection,
    key: &ExecutionKey,
    after: Seq,
) -> SqliteResult<Vec<Transition>> {
    const READ_LOG: &str = "
        SELECT seq, event_id, name, at, decision FROM transitions
        WHERE tenant = ?1 AND execution_id = ?2 AND seq > ?3 ORDER BY seq";
    let mut read = connection.prepare_cached(READ_LOG)?;
    let mut rows = read.query((key.tenant.as_str(), key.execution.as_str(), after.0))?;
    let mut log = Vec::new();
    while let Some(row) = rows.next()? {
        log.push(SqliteFields(row).transition()?);
    }
    Ok(log)
}

/// A log with a gap would fold into a wrong state.
pub(crate) fn check_log(snapshot: &ExecutionState, log: &[Transition], seq: Seq) -> SqliteResult<()> {
    let mut at = snapshot.seq;
    for transition in log {
        if transition.seq != at.next() {
            return Err(corrupt_row(format!("the log goes from seq {at} to {}", transition.seq)));
        }
        at = transition.seq;
    }
    if at != seq {
        return Err(corrupt_row(format!("the log ends at seq {at}, the execution is at {seq}")));
    }
    Ok(())
}
