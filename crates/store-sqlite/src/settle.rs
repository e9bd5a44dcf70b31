//! Settling: outcomes, then dependents, then the events' status, in one transaction.
//!
//! Two actions that settle at once must not each see the other unsettled. PostgreSQL locks the event's row
//! for that; here the single writer has the same effect. The end of an action that is alone (the only one of
//! its transition, or one of any number of independent ones) is one statement, because it has no further
//! consequences. Otherwise the actions of the transition are read (of one that is alone: only itself),
//! [`millstream_store::settling`] decides the consequences, and each row is written as it changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use millstream_model::id::{ActionKey, ExecutionKey, Name, Seq, WorkerId};
use millstream_model::incident::NewIncident;
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{AfterFailure, SettleOutcome, SettleVerdict, SettledBatch, Settlement};
use millstream_store::event_log::EventSubmission;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::opens_incident;
use millstream_store::settling::SettleConsequences;
use rusqlite::{Connection, OptionalExtension};

use crate::accept::accept_emitted;
use crate::commit_rows::fail_event;
use crate::errors::SqliteResult;
use crate::incident_rows::{IncidentOpening, open_incident};
use crate::intervention::pause_active;
use crate::leased_actions::read_leased;
use crate::param::{action_columns, lease_columns};
use crate::settle_rows::{
    TouchedTransition, free_action, free_leased, link_action, read_touched, skip_action, write_outcome,
};

/// Within the open transaction.
pub(crate) fn settle_batch(
    connection: &Connection,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
) -> SqliteResult<SettledBatch> {
    let mut recording =
        SettlementBatch { connection, grant, now, touched: BTreeMap::new(), emitted: Vec::new() };
    let outcomes =
        batch.iter().map(|item| recording.record_settlement(item)).collect::<SqliteResult<Vec<_>>>()?;
    let (leased, unleased) = recording.write_consequences(worker)?;
    if !recording.emitted.is_empty() {
        accept_emitted(connection, recording.emitted.iter().copied(), now)?;
    }
    let verdicts = outcomes.into_iter().map(|outcome| recording.settle_verdict(outcome));
    Ok(SettledBatch { verdicts: verdicts.collect(), leased: read_leased(connection, &leased)?, unleased })
}

/// How an outcome was recorded.
enum RecordedSettlement {
    /// By one statement: its event waits for no other action.
    Alone,
    /// Among others of its transition.
    Among(SettlementScope),
    /// Not at all: the lease is lost.
    Not,
}

struct SettlementBatch<'a> {
    connection: &'a Connection,
    grant: &'a LeaseGrant,
    now: Timestamp,
    /// Transitions with more than one row to change, and actions that are alone.
    touched: BTreeMap<SettlementScope, TouchedTransition>,
    /// Accepted at the end, together.
    emitted: Vec<&'a EventSubmission>,
}

impl<'a> SettlementBatch<'a> {
    fn record_settlement(&mut self, item: &'a Settlement) -> SqliteResult<RecordedSettlement> {
        let Self { connection, grant, now, .. } = *self;
        if settle_alone(connection, item, now)? {
            self.emitted.extend(item.outcome.emitted_event());
            return Ok(RecordedSettlement::Alone);
        }
        let key = &item.lease.key;
        let at = scope_of(connection, item)?;
        let touched = match self.touched.entry(at.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match read_touched(connection, key, at.alone.as_ref(), &grant.queues)? {
                Some(touched) => entry.insert(touched),
                None => return Ok(RecordedSettlement::Not),
            },
        };
        if !touched.graph.holds_lease(&key.action, item.lease.epoch) {
            return Ok(RecordedSettlement::Not);
        }
        let becomes = touched.graph.record_outcome(&key.action, &item.outcome, now);
        write_outcome(connection, key, becomes, &item.outcome, now)?;
        if let SettleOutcome::Failed { then: AfterFailure::Incident(incident), .. } = &item.outcome {
            record_failure(connection, touched, key, incident, now)?;
        }
        self.emitted.extend(item.outcome.emitted_event());
        Ok(RecordedSettlement::Among(at))
    }

    /// Writes the consequences of the outcomes; returns the actions leased to `worker`, and the number of
    /// ready ones that are not leased.
    fn write_consequences(&mut self, worker: &WorkerId) -> SqliteResult<(Vec<ActionKey>, usize)> {
        let Self { connection, grant, now, .. } = *self;
        let (mut leased, mut unleased) = (Vec::new(), 0);
        for (SettlementScope { execution, seq, .. }, touched) in &mut self.touched {
            let key = |action| ActionKey { execution: execution.clone(), seq: *seq, action };
            let followed = touched.graph.propagate_outcomes();
            for key in write_followed(connection, &followed, key, now)? {
                if leased.len() < grant.slots && !touched.unserved.contains(&key.action) {
                    free_leased(connection, &key, worker, grant, now)?;
                    leased.push(key);
                } else {
                    free_action(connection, &key, now)?;
                    unleased += 1;
                }
            }
            if touched.event == EventStatus::Processing && touched.graph.is_settled() {
                touched.event = EventStatus::Completed;
            }
        }
        Ok((leased, unleased))
    }

    fn settle_verdict(&self, outcome: RecordedSettlement) -> SettleVerdict {
        match outcome {
            RecordedSettlement::Alone => SettleVerdict::Recorded { event: EventStatus::Completed },
            RecordedSettlement::Among(at) => match self.touched.get(&at) {
                Some(touched) => SettleVerdict::Recorded { event: touched.event },
                None => SettleVerdict::Stale,
            },
            RecordedSettlement::Not => SettleVerdict::Stale,
        }
    }
}

/// The actions that an outcome may concern: all of the transition, or the one that is alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SettlementScope {
    execution: ExecutionKey,
    seq: Seq,
    alone: Option<Name>,
}

fn scope_of(connection: &Connection, item: &Settlement) -> SqliteResult<SettlementScope> {
    const IS_ALONE: &str = "
        SELECT alone FROM actions WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let ActionKey { execution, seq, action } = &item.lease.key;
    let mut read = connection.prepare_cached(IS_ALONE)?;
    let is_alone: Option<bool> =
        read.query_row(action_columns(&item.lease.key), |row| row.get(0)).optional()?;
    let alone = is_alone.unwrap_or(false).then(|| action.clone());
    Ok(SettlementScope { execution: execution.clone(), seq: *seq, alone })
}

/// Settles the end of an action that is alone, a success or a handled failure, under a held lease; `false`
/// for everything else, which is left untouched.
fn settle_alone(connection: &Connection, item: &Settlement, now: Timestamp) -> SqliteResult<bool> {
    // A running action has no schedule to miss: `expires_at` is null already.
    const SETTLE_ALONE: &str = "
        UPDATE actions
        SET status = CASE WHEN ?6 IS NULL THEN 'failed' ELSE 'succeeded' END,
            result = coalesce(?6, result), error = ?8, handled = ?6 IS NULL,
            due_at = NULL, settled_at = ?7, attempt_until = NULL, closing = 0
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
          AND (status = 'leased' OR status = 'awaiting') AND alone";
    let (result, error) = match &item.outcome {
        SettleOutcome::Succeeded { result, .. } => (Some(result), None),
        SettleOutcome::Failed { error, then: AfterFailure::Emit(_) } => (None, Some(error)),
        SettleOutcome::Failed { then: AfterFailure::Compensate | AfterFailure::Incident(_), .. }
        | SettleOutcome::Retry { .. }
        | SettleOutcome::Postponed { .. }
        | SettleOutcome::Awaiting { .. } => return Ok(false),
    };
    let (tenant, execution, seq, action, epoch) = lease_columns(&item.lease);
    let settled = connection.prepare_cached(SETTLE_ALONE)?.execute((
        tenant,
        execution,
        seq,
        action,
        epoch,
        result.map(RawJson::as_str),
        now.as_millis(),
        error.map(RawJson::as_str),
    ))?;
    Ok(settled > 0)
}

/// Records an unhandled failure.
fn record_failure(
    connection: &Connection,
    touched: &mut TouchedTransition,
    key: &ActionKey,
    incident: &NewIncident,
    now: Timestamp,
) -> SqliteResult<()> {
    if touched.event == EventStatus::Processing {
        touched.event = EventStatus::Failed;
        fail_event(connection, touched.accept_no, Some(&incident.reason), now)?;
    }
    pause_active(connection, &key.execution, &incident.reason, now)?;
    if !opens_incident(touched.phase, Some(&key.action)) {
        return Ok(());
    }
    let opening = IncidentOpening {
        execution: &key.execution,
        definition: &touched.definition,
        event_id: touched.event_id,
        action: Some(key),
        incident,
    };
    open_incident(connection, &opening, now)
}

/// Writes the actions that wait now and those that are skipped; returns those that are ready.
pub(crate) fn write_followed(
    connection: &Connection,
    followed: &SettleConsequences,
    key: impl Fn(Name) -> ActionKey,
    now: Timestamp,
) -> SqliteResult<Vec<ActionKey>> {
    for (action, needs) in &followed.linked {
        link_action(connection, &key(action.clone()), needs)?;
    }
    for action in &followed.skipped {
        skip_action(connection, &key(action.clone()), now)?;
    }
    Ok(followed.freed.iter().cloned().map(key).collect())
}
