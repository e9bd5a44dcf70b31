//! From the rows of a load to executions.
//!
//! An execution whose rows cannot be decoded is corrupt alone. A mailbox is cut here, by the limits of the
//! visit; payloads that were too long for the load are fetched for the taken events only. Events do not
//! change, so they may be fetched after the moment of the load.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_model::id::{AcceptNo, DefinitionRef, EventId, ExecutionKey, Seq};
use millstream_model::raw::RawJson;
use millstream_model::status::PauseState;
use millstream_store::execution_store::{LoadVerdict, LoadedExecution, MailboxLimits, PageRemainder};
use millstream_workflow::log::{MailboxEvent, MailboxState};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::connection_cache::WarmConnections;
use crate::decode::{self, undecodable};
use crate::errors::{PostgresFailure, PostgresResult};

/// One execution from its rows: the head first, then events and log, each in order.
pub(crate) fn assemble_execution(
    key: &ExecutionKey,
    rows: &[PgRow],
    limits: MailboxLimits,
) -> PostgresResult<LoadVerdict> {
    let (head, rest) = rows
        .split_first()
        .ok_or_else(|| PostgresFailure::Undecodable("an execution without a row".to_owned()))?;
    let (mut mailbox, mut log) = (Vec::new(), Vec::new());
    let mut cut = MailboxCut { limits, events: 0, bytes: 0, more: PageRemainder::Nothing };
    let mut deferred = 0;
    for row in rest {
        match row.try_get::<i32, _>("kind")? {
            1 if cut.take_if_fits(usize::try_from(row.try_get::<i64, _>("size")?).unwrap_or(usize::MAX)) => {
                mailbox.push(decode_waiting(row, MailboxState::Undecided)?);
            }
            1 => {}
            2 => {
                deferred += 1;
                mailbox.push(decode_waiting(row, MailboxState::Deferred)?);
            }
            3 => log.push(decode::transition(
                decode::seq(row, "number")?,
                decode::event_id(row)?,
                decode::parsed(row, "name")?,
                decode::time(row, "at")?,
                row.try_get("body")?,
            )?),
            other => return Err(undecodable("kind", &other.to_string(), "unknown value")),
        }
    }
    if deferred > 0 {
        mailbox.sort_by_key(|waiting| waiting.accept_no);
    }
    let seq = decode::seq(head, "number")?;
    let snapshot_seq = decode::seq(head, "at")?;
    let state = match head.try_get::<Option<&str>, _>("body")? {
        None => None,
        Some(text) => {
            let snapshot = decode::snapshot(text)?;
            without_gaps(snapshot.seq, log.iter().map(|transition| transition.seq), seq)?;
            Some((snapshot, log))
        }
    };
    Ok(LoadVerdict::Found(Box::new(LoadedExecution {
        execution: key.clone(),
        position: AcceptNo(head.try_get("size")?),
        definition: DefinitionRef { name: decode::parsed(head, "name")?, version: head.try_get("attempts")? },
        seq,
        pause: match head.try_get::<Option<&str>, _>("traceparent")? {
            Some(_) => PauseState::Paused,
            None => PauseState::Running,
        },
        state,
        snapshot_seq,
        mailbox,
        more: cut.more,
        graph: head.try_get::<Option<&[u8]>, _>("blob")?.map(Arc::from),
    })))
}

/// Where a mailbox is cut: the first event is always taken.
struct MailboxCut {
    limits: MailboxLimits,
    events: usize,
    bytes: usize,
    more: PageRemainder,
}

impl MailboxCut {
    fn take_if_fits(&mut self, size: usize) -> bool {
        let bytes = self.bytes.saturating_add(size);
        let fits = self.events == 0 || (self.events < self.limits.events && bytes <= self.limits.bytes);
        // Everything after the first event that does not fit stays in the mailbox.
        if !fits || self.more == PageRemainder::Remains {
            self.more = PageRemainder::Remains;
            return false;
        }
        (self.events, self.bytes) = (self.events + 1, bytes);
        true
    }
}

/// An event whose payload was left out has [`LEFT_OUT`] instead.
fn decode_waiting(row: &PgRow, kept: MailboxState) -> PostgresResult<MailboxEvent> {
    Ok(MailboxEvent {
        event_id: decode::event_id(row)?,
        accept_no: AcceptNo(row.try_get("number")?),
        name: decode::parsed(row, "name")?,
        payload: decode::json_option(row, "body")?.unwrap_or_else(|| RawJson::from_trusted_text(LEFT_OUT)),
        accepted_at: decode::time(row, "at")?,
        origin: decode::origin(row)?,
        kept,
        attempts: row.try_get("attempts")?,
        traceparent: row.try_get("traceparent")?,
    })
}

/// No JSON text is empty.
const LEFT_OUT: &str = "";

pub(crate) async fn fetch_long_payloads(
    warm: &WarmConnections,
    loaded: &mut [LoadVerdict],
) -> PostgresResult<()> {
    const FETCH: &str = "
SELECT e.*
FROM unnest($1::text[], $2::uuid[]) AS k(tenant, event_id)
CROSS JOIN LATERAL (
    SELECT e.event_id, e.payload FROM events e WHERE e.tenant = k.tenant AND e.event_id = k.event_id OFFSET 0) e";
    let (tenants, ids): (Vec<String>, Vec<Uuid>) = left_out(loaded)
        .map(|(execution, event)| (execution.tenant.as_str().to_owned(), event.event_id.0))
        .unzip();
    if ids.is_empty() {
        return Ok(());
    }
    let rows = warm.fetch_rows(sqlx::query(FETCH).bind(&tenants).bind(&ids)).await?;
    let mut payloads = rows
        .iter()
        .map(|row| Ok((decode::event_id(row)?, decode::json(row, "payload")?)))
        .collect::<PostgresResult<HashMap<EventId, RawJson>>>()?;
    for (_, event) in left_out(loaded) {
        event.payload = payloads.remove(&event.event_id).ok_or_else(|| {
            PostgresFailure::Undecodable(format!("event {} is missing from its mailbox", event.event_id))
        })?;
    }
    Ok(())
}

fn left_out(loaded: &mut [LoadVerdict]) -> impl Iterator<Item = (&ExecutionKey, &mut MailboxEvent)> {
    loaded
        .iter_mut()
        .filter_map(|loaded| match loaded {
            LoadVerdict::Found(found) => Some(&mut **found),
            LoadVerdict::Missing | LoadVerdict::Corrupt { .. } => None,
        })
        .flat_map(|found| {
            let LoadedExecution { execution, mailbox, .. } = found;
            let execution = &*execution;
            mailbox.iter_mut().map(move |event| (execution, event))
        })
        .filter(|(_, event)| event.payload.as_str() == LEFT_OUT)
}

/// Snapshot and log must lead to the seq of the row, step by step.
pub(crate) fn without_gaps(snapshot: Seq, log: impl Iterator<Item = Seq>, end: Seq) -> PostgresResult<()> {
    let mut last = snapshot;
    for seq in log {
        if seq != last.next() {
            return Err(PostgresFailure::Undecodable(format!("the log goes from seq {last} to {seq}")));
        }
        last = seq;
    }
    if last != end {
        return Err(PostgresFailure::Undecodable(format!(
            "the log ends at seq {last}, the execution is at {end}"
        )));
    }
    Ok(())
}
