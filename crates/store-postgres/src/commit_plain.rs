//! Fast path of committing, one statement for almost every batch: events that are applied, with their
//! transitions, timers and actions.
//!
//! All or nothing. Unless every fence of the batch holds, nothing is written, and the careful path
//! ([`crate::commit`]) gives the verdicts. The fence is decided before the first write, under the locks that
//! keep it:
//!
//! 1. `wanted` finds the executions that are at the seq that their commit expects. If one is missing, no lock
//!    is taken.
//! 2. `held` locks them, in the order of their keys, each at the `ctid` where it was just found. After waiting
//!    for a concurrent transaction the condition is checked again, against the new version of the row.
//! 3. `letters` finds the events in the mailboxes, `kept` locks them. Every change of a mailbox holds its
//!    execution's row, so this waits for nothing; but an event may have been decided without moving its
//!    execution (a rejection) between the snapshot of this statement and the lock.
//! 4. `fence` holds if every row was locked at the place where it was found. A row that a concurrent
//!    transaction has replaced is elsewhere, where the snapshot of this statement does not reach it.
//!
//! Every write depends on `fence`, and the answer says whether it holds.
//!
//! Rejections, deferrals, failures, cancellations, correlations, emitted events and graphs are left to the
//! careful path. (The commit of a graph carries hundreds of transitions, so a few more statements cost
//! little.) An execution that ends here has no open incident: while it has one it is paused.

use millstream_model::id::{ExecutionKey, WorkerId};
use millstream_model::status::EventStatus;
use millstream_model::time::Timestamp;
use millstream_store::execution_store::{
    CommitVerdict, DecidedEvent, EventVerdict, ExecutionCommit, LeaseGrant, OpenActions,
};
use millstream_store::status_text;
use sqlx::Row;

use crate::commit_leases::{commit_verdicts, take_ready_slots};
use crate::commit_tables::{
    ArmedRow, DisarmedRow, LetterRow, MovedRow, TransitionRow, armed_table, correlation_of, disarmed_table,
    letter_table, moved_table, transition_table,
};
use crate::connection_cache::WarmConnections;
use crate::errors::PostgresResult;
use crate::new_actions::{RenderedAction, insert_new_actions, new_action_inputs};
use crate::statement_inputs::NamedStatement;

pub(crate) fn is_plain(commit: &ExecutionCommit) -> bool {
    let applied = |decided: &DecidedEvent| match &decided.verdict {
        EventVerdict::Applied { status, .. } => *status != EventStatus::Failed,
        EventVerdict::Rejected { .. } | EventVerdict::Deferred => false,
    };
    let keeps = match commit.open_actions {
        OpenActions::Keep => true,
        OpenActions::Cancel => false,
    };
    let correlates = correlation_of(commit).is_some();
    keeps
        && !correlates
        && !commit.transitions.is_empty()
        && commit.emitted.is_empty()
        && commit.graph.is_none()
        && commit.decided.iter().all(applied)
        && commit.actions.iter().all(|action| action.incident.is_none())
}

static COMMIT: NamedStatement = NamedStatement::new(status_text!(concat!(
    "
WITH clock AS MATERIALIZED (
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
), wanted AS MATERIALIZED (
    SELECT k.*, x.place
    FROM {executions}
    CROSS JOIN LATERAL (
        SELECT x.ctid AS place FROM executions x
        WHERE x.tenant = k.tenant AND x.execution_id = k.execution_id
          AND x.seq = k.expected AND (x.paused_reason IS NULL OR x.phase <> 'active')
        OFFSET 0) x
), held AS MATERIALIZED (
    SELECT w.*, x.held_place
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT x.ctid AS held_place FROM executions x
        WHERE x.ctid = w.place AND x.seq = w.expected AND (x.paused_reason IS NULL OR x.phase <> 'active')
        FOR NO KEY UPDATE) x
    WHERE (SELECT count(*) FROM wanted) = {executions.count}
), all_held AS MATERIALIZED (
    SELECT count(*) = {executions.count} AS holds FROM held WHERE held_place = place
), letters AS MATERIALIZED (
    SELECT m.place
    FROM {letters}
    CROSS JOIN LATERAL (
        SELECT m.ctid AS place FROM mailbox m
        WHERE m.tenant = k.tenant AND m.execution_id = k.execution_id AND m.accept_no = k.accept_no
          AND m.event_id = k.event_id
        OFFSET 0) m
    WHERE (SELECT holds FROM all_held)
), kept AS MATERIALIZED (
    SELECT l.place, m.kept_place
    FROM letters l
    CROSS JOIN LATERAL (SELECT m.ctid AS kept_place FROM mailbox m WHERE m.ctid = l.place FOR UPDATE) m
), fence AS MATERIALIZED (
    SELECT all_held.holds
           AND (SELECT count(*) FROM kept WHERE kept_place = place) = {letters.count} AS holds
    FROM all_held
), moved AS (
    UPDATE executions x
    SET seq = h.seq, state = h.state, phase = h.phase,
        snapshot = coalesce(h.snapshot, x.snapshot),
        snapshot_seq = CASE WHEN h.snapshot IS NULL THEN x.snapshot_seq ELSE h.seq END,
        paused_reason = NULL,
        updated_at = h.updated_at,
        ended_at = CASE WHEN h.phase <> 'active' THEN coalesce(x.ended_at, h.updated_at) END
    FROM held h
    WHERE x.ctid = h.place AND (SELECT holds FROM fence)
), taken AS (
    DELETE FROM mailbox m USING kept l WHERE m.ctid = l.place AND (SELECT holds FROM fence)
), applied AS (
    INSERT INTO transitions ({transitions.columns}, worker_id, committed_at)
    SELECT k.*, {worker}, {now} FROM {transitions} WHERE (SELECT holds FROM fence)
), disarmed AS (
    DELETE FROM timers t
    USING {disarmed}
    WHERE t.tenant = k.tenant AND t.execution_id = k.execution_id AND t.armed_seq = k.armed_seq
      AND (SELECT holds FROM fence)
), armed AS (
    INSERT INTO timers ({armed.columns})
    SELECT k.* FROM {armed} WHERE (SELECT holds FROM fence)
), acting AS (",
    insert_new_actions!(),
    "
    WHERE (SELECT holds FROM fence)
)
SELECT fence.holds, clock.now FROM fence, clock"
)));

/// `None`, and nothing written, when a fence does not hold.
pub(crate) async fn commit(
    warm: &WarmConnections,
    worker: &WorkerId,
    batch: &[ExecutionCommit],
    grant: &LeaseGrant,
    now: Timestamp,
) -> PostgresResult<Option<Vec<CommitVerdict>>> {
    let rows = take_ready_slots(batch.iter(), grant);
    // The order of their keys is the order of the locks.
    let mut sorted: Vec<&ExecutionCommit> = batch.iter().collect();
    sorted.sort_unstable_by(|one, other| one.execution.cmp(&other.execution));
    let actions = RenderedAction::of_all(&rows);
    let executions: Vec<MovedRow<'_>> = sorted.iter().map(|commit| MovedRow::of(commit, now)).collect();
    let letters: Vec<LetterRow<'_>> = with_keys(batch, |commit| &commit.decided).collect();
    let transitions: Vec<TransitionRow<'_>> = with_keys(batch, |commit| &commit.transitions)
        .map(|(key, transition)| TransitionRow::of(key, transition))
        .collect();
    let disarmed: Vec<DisarmedRow<'_>> = with_keys(batch, |commit| &commit.cancelled_timers).collect();
    let armed: Vec<ArmedRow<'_>> = with_keys(batch, |commit| &commit.timers).collect();
    let inputs = new_action_inputs(&actions, worker, grant, now)
        .table("executions", moved_table(&executions))
        .table("letters", letter_table(&letters, |letter| *letter))
        .table("transitions", transition_table(&transitions))
        .table("disarmed", disarmed_table(&disarmed))
        .table("armed", armed_table(&armed));
    let row = warm.fetch_row(COMMIT.bind(inputs)).await?;
    if !row.try_get::<bool, _>("holds")? {
        return Ok(None);
    }
    let moment = Timestamp::from_millis(row.try_get("now")?);
    Ok(Some(commit_verdicts(batch.iter(), &rows, grant, moment, Vec::new())))
}

/// A list of each commit, flattened, each element with its execution.
fn with_keys<'a, T: 'a>(
    batch: &'a [ExecutionCommit],
    part: fn(&'a ExecutionCommit) -> &'a Vec<T>,
) -> impl Iterator<Item = (&'a ExecutionKey, &'a T)> {
    batch.iter().flat_map(move |commit| part(commit).iter().map(|one| (&commit.execution, one)))
}
