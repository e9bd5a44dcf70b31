//! Settling: outcomes, then dependents, then the events' status, in one transaction.
//!
//! Two actions that settle at once must not each see the other unsettled. PostgreSQL locks the event's row
//! for that; here the single writer has the same effect. The end of an action that is alone (the only one of
//! its transition, or one of any number of independent ones) is one statement, because it has no further
//! consequences. Otherwise the actions of the transition are read (of one that is alone: only itself),
//! [`millstream_store::settling`] decides the consequences, and each row is written as it changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use millstream_core::id::{ActionKey, ExecutionKey, Name, Seq, WorkerId};
use millstream_core::incident::NewIncident;
use millstream_core::raw::RawJson;
use millstream_core::status::EventStatus;
use millstream_core::time::Timestamp;
use millstream_store::action_store::{AfterFailure, SettleVerdict, Settled, Settlement, Settling};
use millstream_store::event_log::NewEvent;
use millstream_store::execution_store::LeaseGrant;
use millstream_store::incidents::opens;
use millstream_store::settling::Followed;
use rusqlite::{Connection, OptionalExtension};

use crate::accept::accept_emitted;
use crate::action_store::columns;
use crate::commit_rows::fail_event;
use crate::errors::Attempt;
use crate::incident_rows::{Opening, open_incident};
use crate::intervention::pause_active;
use crate::leased::read_leased;
use crate::settle_rows::{
    Touched, free_action, free_leased, link_action, place, read_touched, skip_action, write_outcome,
};

/// Within the open transaction.
pub(crate) fn settle_batch(
    connection: &Connection,
    worker: &WorkerId,
    batch: &[Settlement],
    grant: &LeaseGrant,
    now: Timestamp,
) -> Attempt<Settled> {
    let mut recording = Recording { connection, grant, now, touched: BTreeMap::new(), emitted: Vec::new() };
    let outcomes = batch.iter().map(|item| recording.record(item)).collect::<Attempt<Vec<_>>>()?;
    let (leased, unleased) = recording.follow(worker)?;
    if !recording.emitted.is_empty() {
        accept_emitted(connection, recording.emitted.iter().copied(), now)?;
    }
    let verdicts = outcomes.into_iter().map(|outcome| recording.verdict(outcome));
    Ok(Settled { verdicts: verdicts.collect(), leased: read_leased(connection, &leased)?, unleased })
}

/// How an outcome was recorded.
enum Recorded {
    /// By one statement: its event waits for no other action.
    Alone,
    /// Among others of its transition.
    Among(Concerned),
    /// Not at all: the lease is lost.
    Not,
}

struct Recording<'a> {
    connection: &'a Connection,
    grant: &'a LeaseGrant,
    now: Timestamp,
    /// Transitions with more than one row to change, and actions that are alone.
    touched: BTreeMap<Concerned, Touched>,
    /// Accepted at the end, together.
    emitted: Vec<&'a NewEvent>,
}

impl<'a> Recording<'a> {
    fn record(&mut self, item: &'a Settlement) -> Attempt<Recorded> {
        let Self { connection, grant, now, .. } = *self;
        if settle_alone(connection, item, now)? {
            self.emitted.extend(emitted(&item.outcome));
            return Ok(Recorded::Alone);
        }
        let key = &item.lease.key;
        let at = concerned(connection, item)?;
        let touched = match self.touched.entry(at.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match read_touched(connection, key, at.alone.as_ref(), &grant.queues)? {
                Some(touched) => entry.insert(touched),
                None => return Ok(Recorded::Not),
            },
        };
        if !touched.graph.holds(&key.action, item.lease.epoch) {
            return Ok(Recorded::Not);
        }
        let becomes = touched.graph.record(&key.action, &item.outcome, now);
        write_outcome(connection, key, becomes, &item.outcome, now)?;
        if let Settling::Failed { then: AfterFailure::Incident(incident), .. } = &item.outcome {
            fail(connection, touched, key, incident, now)?;
        }
        self.emitted.extend(emitted(&item.outcome));
        Ok(Recorded::Among(at))
    }

    /// Writes the consequences of the outcomes; returns the actions leased to `worker`, and the number of
    /// ready ones that are not leased.
    fn follow(&mut self, worker: &WorkerId) -> Attempt<(Vec<ActionKey>, usize)> {
        let Self { connection, grant, now, .. } = *self;
        let (mut leased, mut unleased) = (Vec::new(), 0);
        for (Concerned { execution, seq, .. }, touched) in &mut self.touched {
            let key = |action| ActionKey { execution: execution.clone(), seq: *seq, action };
            let followed = touched.graph.follow();
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

    fn verdict(&self, outcome: Recorded) -> SettleVerdict {
        match outcome {
            Recorded::Alone => SettleVerdict::Recorded { event: EventStatus::Completed },
            Recorded::Among(at) => match self.touched.get(&at) {
                Some(touched) => SettleVerdict::Recorded { event: touched.event },
                None => SettleVerdict::Stale,
            },
            Recorded::Not => SettleVerdict::Stale,
        }
    }
}

/// The actions that an outcome may concern: all of the transition, or the one that is alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Concerned {
    execution: ExecutionKey,
    seq: Seq,
    alone: Option<Name>,
}

fn concerned(connection: &Connection, item: &Settlement) -> Attempt<Concerned> {
    const IS_ALONE: &str = "
        SELECT alone FROM actions WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4";
    let ActionKey { execution, seq, action } = &item.lease.key;
    let mut read = connection.prepare_cached(IS_ALONE)?;
    let is_alone: Option<bool> = read.query_row(place(&item.lease.key), |row| row.get(0)).optional()?;
    let alone = is_alone.unwrap_or(false).then(|| action.clone());
    Ok(Concerned { execution: execution.clone(), seq: *seq, alone })
}

fn emitted(outcome: &Settling) -> Option<&NewEvent> {
    match outcome {
        Settling::Succeeded { emit, .. } => emit.as_deref(),
        Settling::Failed { then: AfterFailure::Emit(event), .. } => Some(event),
        Settling::Failed { then: AfterFailure::Compensate | AfterFailure::Incident(_), .. }
        | Settling::Retry { .. }
        | Settling::Postponed { .. }
        | Settling::Awaiting { .. } => None,
    }
}

/// Settles the end of an action that is alone, a success or a handled failure, under a held lease; `false`
/// for everything else, which is left untouched.
fn settle_alone(connection: &Connection, item: &Settlement, now: Timestamp) -> Attempt<bool> {
    // A running action has no schedule to miss: `expires_at` is null already.
    const SETTLE_ALONE: &str = "
        UPDATE actions
        SET status = CASE WHEN ?6 IS NULL THEN 'failed' ELSE 'succeeded' END,
            result = coalesce(?6, result), error = ?8, handled = ?6 IS NULL,
            due_at = NULL, settled_at = ?7, attempt_until = NULL, closing = 0
        WHERE tenant = ?1 AND execution_id = ?2 AND seq = ?3 AND action = ?4 AND epoch = ?5
          AND (status = 'leased' OR status = 'awaiting') AND alone";
    let (result, error) = match &item.outcome {
        Settling::Succeeded { result, .. } => (Some(result), None),
        Settling::Failed { error, then: AfterFailure::Emit(_) } => (None, Some(error)),
        Settling::Failed { then: AfterFailure::Compensate | AfterFailure::Incident(_), .. }
        | Settling::Retry { .. }
        | Settling::Postponed { .. }
        | Settling::Awaiting { .. } => return Ok(false),
    };
    let (tenant, execution, seq, action, epoch) = columns(&item.lease);
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
fn fail(
    connection: &Connection,
    touched: &mut Touched,
    key: &ActionKey,
    incident: &NewIncident,
    now: Timestamp,
) -> Attempt<()> {
    if touched.event == EventStatus::Processing {
        touched.event = EventStatus::Failed;
        fail_event(connection, touched.accept_no, Some(&incident.reason), now)?;
    }
    pause_active(connection, &key.execution, &incident.reason, now)?;
    if !opens(touched.phase, Some(&key.action)) {
        return Ok(());
    }
    let opening = Opening {
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
    followed: &Followed,
    key: impl Fn(Name) -> ActionKey,
    now: Timestamp,
) -> Attempt<Vec<ActionKey>> {
    for (action, needs) in &followed.linked {
        link_action(connection, &key(action.clone()), needs)?;
    }
    for action in &followed.skipped {
        skip_action(connection, &key(action.clone()), now)?;
    }
    Ok(followed.freed.iter().cloned().map(key).collect())
}
