//! The actions of a commit: new ones, leased to the committing worker as far as it has free slots, and open
//! ones that a cancellation ends.

use std::time::Duration;

use millstream_model::id::{Epoch, ExecutionKey, Name, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::ActionStatus;
use millstream_model::time::Timestamp;
use millstream_store::action_store::{Lease, LeaseOrigin, LeasedAction};
use millstream_store::execution_store::{ActionRelation, LeaseGrant, NewAction};
use millstream_store::status_text;
use millstream_workflow::lease_policy::LeasePolicy;
use rusqlite::{Connection, params};

use crate::errors::SqliteResult;
use crate::param::{self, encode_names};
use crate::rendered_commit::RenderedCommit;

pub(crate) fn is_ready(action: &NewAction) -> bool {
    action.status == ActionStatus::Ready
}

/// Write the actions of a commit; the first ready ones that `worker` serves are leased to it and returned.
pub(crate) fn insert_actions(
    connection: &Connection,
    worker: &WorkerId,
    commit: &RenderedCommit,
    lease: &LeaseGrant,
    slots: usize,
    now: Timestamp,
) -> SqliteResult<Vec<LeasedAction>> {
    let mut leased = Vec::new();
    for action in &commit.actions {
        let alone = match action.company {
            ActionRelation::Together => {
                commit.actions.iter().filter(|other| other.key.seq == action.key.seq).count() == 1
            }
            ActionRelation::Independent => true,
        };
        let row = if is_ready(action) && leased.len() < slots && lease.serves(&action.terms.queue) {
            let until = now.plus(lease_length(&action.terms, lease.ttl));
            leased.push(leased_action(commit, action, until, now));
            NewActionRow::leased(action, worker, until, now)
        } else {
            NewActionRow::unleased(action, now)
        };
        insert_action(connection, action, &row, alone, now)?;
    }
    Ok(leased)
}

/// Columns of a new row beyond its action.
struct NewActionRow<'a> {
    status: ActionStatus,
    attempts: i32,
    epoch: Epoch,
    worker: Option<&'a str>,
    due_at: Option<i64>,
    settled_at: Option<i64>,
    expires_at: Option<i64>,
    attempt_until: Option<i64>,
}

/// As the statements in [`crate::leasing`] compute it.
fn lease_length(terms: &LeasePolicy, ttl: Duration) -> Duration {
    terms.heartbeat.into_iter().chain(terms.attempt).min().unwrap_or(ttl)
}

impl<'a> NewActionRow<'a> {
    fn unleased(action: &NewAction, now: Timestamp) -> Self {
        Self {
            status: action.status,
            attempts: 0,
            epoch: Epoch::NONE,
            worker: None,
            due_at: is_ready(action).then_some(now.as_millis()),
            settled_at: action.status.is_settled().then_some(now.as_millis()),
            expires_at: if is_ready(action) { expires_at(&action.terms, now) } else { None },
            attempt_until: None,
        }
    }

    fn leased(action: &NewAction, worker: &'a WorkerId, until: Timestamp, now: Timestamp) -> Self {
        Self {
            status: ActionStatus::Leased,
            attempts: 1,
            epoch: Epoch::FIRST,
            worker: Some(worker.as_str()),
            due_at: Some(until.as_millis()),
            expires_at: None,
            attempt_until: action.terms.attempt.map(|attempt| now.plus(attempt).as_millis()),
            ..Self::unleased(action, now)
        }
    }
}

/// When an action that has not begun misses its schedule.
fn expires_at(terms: &LeasePolicy, ready_at: Timestamp) -> Option<i64> {
    terms.start.into_iter().chain(terms.close).min().map(|limit| ready_at.plus(limit).as_millis())
}

fn insert_action(
    connection: &Connection,
    action: &NewAction,
    row: &NewActionRow<'_>,
    alone: bool,
    now: Timestamp,
) -> SqliteResult<()> {
    const INSERT_ACTION: &str = "
        INSERT INTO actions (tenant, execution_id, seq, action, event_id, ordinal, alone, needs, status,
                             attempts, epoch, worker_id, due_at, input, scope, result, error, handled,
                             created_at, settled_at, queue, heartbeat_ms, attempt_ms, start_ms, close_ms,
                             ready_at, expires_at, attempt_until, undoes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
                ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)";
    let (key, terms) = (&action.key, &action.terms);
    connection.prepare_cached(INSERT_ACTION)?.execute(params![
        key.execution.tenant.as_str(),
        key.execution.execution.as_str(),
        key.seq.0,
        key.action.as_str(),
        action.event_id.0.as_bytes(),
        action.ordinal,
        alone,
        encode_names(&action.needs)?,
        row.status.as_str(),
        row.attempts,
        row.epoch.0,
        row.worker,
        row.due_at,
        action.input.as_ref().map(RawJson::as_str),
        action.scope.as_ref().map(RawJson::as_str),
        action.result.as_ref().map(RawJson::as_str),
        action.error.as_ref().map(RawJson::as_str),
        param::handling_column(action.handling),
        now.as_millis(),
        row.settled_at,
        terms.queue.as_str(),
        terms.heartbeat.map(param::millis),
        terms.attempt.map(param::millis),
        terms.start.map(param::millis),
        terms.close.map(param::millis),
        is_ready(action).then_some(now.as_millis()),
        row.expires_at,
        row.attempt_until,
        action.undoes.as_ref().map(Name::as_str),
    ])?;
    Ok(())
}

/// An action that is leased in the commit that inserts it. Its dependencies were settled in the same commit.
fn leased_action(
    commit: &RenderedCommit,
    action: &NewAction,
    until: Timestamp,
    now: Timestamp,
) -> LeasedAction {
    let is_needed =
        |other: &&NewAction| other.key.seq == action.key.seq && action.needs.contains(&other.key.action);
    // Independent actions are skipped: there may be thousands.
    let candidates = if action.needs.is_empty() { &[] } else { &commit.actions[..] };
    let results = candidates.iter().filter(is_needed);
    LeasedAction {
        lease: Lease { key: action.key.clone(), epoch: Epoch::FIRST },
        event_id: action.event_id,
        definition: commit.definition.clone(),
        attempt: 1,
        input: action.input.clone(),
        scope: action.scope.clone(),
        results: results
            .filter_map(|other| Some((other.key.action.clone(), other.result.clone()?)))
            .collect(),
        traceparent: action.traceparent.clone(),
        lease_until: until,
        revision: 0,
        heartbeat: action.terms.heartbeat,
        progress: None,
        ready_at: now,
        closing: None,
        begun: LeaseOrigin::No,
    }
}

/// Cancel actions without a lease.
pub(crate) fn cancel_open_actions(
    connection: &Connection,
    key: &ExecutionKey,
    now: Timestamp,
) -> SqliteResult<()> {
    const CANCEL_ACTIONS: &str = status_text!(
        "
        UPDATE actions
        SET status = 'cancelled', due_at = NULL, expires_at = NULL, closing = 0, settled_at = ?3
        WHERE tenant = ?1 AND execution_id = ?2 AND status IN ({CANCELLABLE_ACTIONS})"
    );
    connection.prepare_cached(CANCEL_ACTIONS)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        now.as_millis(),
    ))?;
    Ok(())
}
