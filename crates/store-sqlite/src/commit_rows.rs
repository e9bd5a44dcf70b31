//! The rows of a commit, one function per statement.

use millstream_model::id::{AcceptNo, ExecutionKey, Seq, WorkerId};
use millstream_model::raw::RawJson;
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::{DecidedEvent, EventVerdict};
use millstream_workflow::log::{ArmedTimer, Transition};
use rusqlite::Connection;

use crate::errors::SqliteResult;
use crate::param::{MessageText, free_text, message_text};
use crate::rendered_commit::RenderedCommit;

pub(crate) fn update_execution(
    connection: &Connection,
    position: AcceptNo,
    commit: &RenderedCommit,
) -> SqliteResult<()> {
    const UPDATE_EXECUTION: &str = "
        UPDATE executions SET
            seq = ?2, state = ?3, phase = ?4, paused_reason = ?5,
            snapshot = coalesce(?6, snapshot),
            snapshot_seq = CASE WHEN ?6 IS NULL THEN snapshot_seq ELSE ?2 END,
            updated_at = ?7,
            ended_at = CASE WHEN ?8 THEN coalesce(ended_at, ?7) END
        WHERE position = ?1";
    connection.prepare_cached(UPDATE_EXECUTION)?.execute((
        position.0,
        commit.seq.0,
        commit.state.as_str(),
        commit.phase.as_str(),
        message_text(commit.paused_reason.as_deref()),
        commit.snapshot.as_ref().map(RawJson::as_str),
        commit.at.as_millis(),
        commit.phase.is_ended(),
    ))?;
    Ok(())
}

/// Separate from the rest, because the column is indexed and hardly any commit changes it.
pub(crate) fn set_correlation(
    connection: &Connection,
    position: AcceptNo,
    correlation: Option<&str>,
) -> SqliteResult<()> {
    const SET_CORRELATION: &str = "UPDATE executions SET correlation = ?2 WHERE position = ?1";
    connection.prepare_cached(SET_CORRELATION)?.execute((position.0, free_text(correlation)))?;
    Ok(())
}

/// `worker` is none for a start, which the ingress decides.
pub(crate) fn insert_transition(
    connection: &Connection,
    key: &ExecutionKey,
    transition: &Transition,
    decision: &RawJson,
    worker: Option<&WorkerId>,
    now: Timestamp,
) -> SqliteResult<()> {
    const INSERT_TRANSITION: &str = "
        INSERT INTO transitions (tenant, execution_id, seq, event_id, name, at, decision, worker_id,
                                 committed_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(INSERT_TRANSITION)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        transition.seq.0,
        transition.event_id.0.as_bytes(),
        transition.name.as_str(),
        transition.at.as_millis(),
        decision.as_str(),
        worker.map(WorkerId::as_str),
        now.as_millis(),
    ))?;
    Ok(())
}

/// Removes it from the mailbox; facts that are not in the transition are written to the event.
pub(crate) fn decide_event(
    connection: &Connection,
    worker: &WorkerId,
    key: &ExecutionKey,
    decided: &DecidedEvent,
    now: Timestamp,
) -> SqliteResult<()> {
    match &decided.verdict {
        EventVerdict::Deferred => defer_event(connection, key, decided.accept_no),
        EventVerdict::Applied { status: EventStatus::Failed, error, .. } => {
            remove_waiting(connection, key, decided.accept_no)?;
            fail_event(connection, decided.accept_no, error.as_deref(), now)
        }
        EventVerdict::Applied { .. } => remove_waiting(connection, key, decided.accept_no),
        EventVerdict::Rejected { state, reason } => {
            const REJECT_EVENT: &str = "
                UPDATE events
                SET verdict = 'rejected', error = ?2, rejected_in = ?3, rejected_by = ?4, closed_at = ?5
                WHERE accept_no = ?1";
            remove_waiting(connection, key, decided.accept_no)?;
            connection.prepare_cached(REJECT_EVENT)?.execute((
                decided.accept_no.0,
                MessageText(reason),
                state.as_str(),
                worker.as_str(),
                now.as_millis(),
            ))?;
            Ok(())
        }
    }
}

/// An action of this event failed finally and unhandled.
pub(crate) fn fail_event(
    connection: &Connection,
    accept_no: AcceptNo,
    error: Option<&str>,
    now: Timestamp,
) -> SqliteResult<()> {
    const FAIL_EVENT: &str =
        "UPDATE events SET verdict = 'failed', error = ?2, closed_at = ?3 WHERE accept_no = ?1";
    connection.prepare_cached(FAIL_EVENT)?.execute((accept_no.0, message_text(error), now.as_millis()))?;
    Ok(())
}

fn defer_event(connection: &Connection, key: &ExecutionKey, accept_no: AcceptNo) -> SqliteResult<()> {
    const DEFER_EVENT: &str = "
        UPDATE mailbox SET deferred = 1 WHERE tenant = ?1 AND execution_id = ?2 AND accept_no = ?3";
    let place = (key.tenant.as_str(), key.execution.as_str(), accept_no.0);
    connection.prepare_cached(DEFER_EVENT)?.execute(place)?;
    Ok(())
}

fn remove_waiting(connection: &Connection, key: &ExecutionKey, accept_no: AcceptNo) -> SqliteResult<()> {
    const REMOVE_WAITING: &str =
        "DELETE FROM mailbox WHERE tenant = ?1 AND execution_id = ?2 AND accept_no = ?3";
    let place = (key.tenant.as_str(), key.execution.as_str(), accept_no.0);
    connection.prepare_cached(REMOVE_WAITING)?.execute(place)?;
    Ok(())
}

pub(crate) fn delete_timers(connection: &Connection, key: &ExecutionKey, armed: &[Seq]) -> SqliteResult<()> {
    const DELETE_TIMERS: &str =
        "DELETE FROM timers WHERE tenant = ?1 AND execution_id = ?2 AND armed_seq = ?3";
    for seq in armed {
        let armed = (key.tenant.as_str(), key.execution.as_str(), seq.0);
        connection.prepare_cached(DELETE_TIMERS)?.execute(armed)?;
    }
    Ok(())
}

pub(crate) fn insert_timer(
    connection: &Connection,
    key: &ExecutionKey,
    timer: &ArmedTimer,
) -> SqliteResult<()> {
    const INSERT_TIMER: &str = "
        INSERT INTO timers (tenant, execution_id, armed_seq, ordinal, fire_at, send)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(INSERT_TIMER)?.execute((
        key.tenant.as_str(),
        key.execution.as_str(),
        timer.armed_seq.0,
        timer.ordinal,
        timer.fire_at.as_millis(),
        timer.send.as_str(),
    ))?;
    Ok(())
}
